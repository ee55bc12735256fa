"""How long work shows itself: a bar on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TextIO

from doctor.report.clean import clean_line

_BAR = 24
_BAR_EVERY_S, _LINE_EVERY_S, _QUIET_S = 0.1, 10.0, 1.0
_MIB = 1 << 20


class Progress:
    """Shows what is done of a total on a stream (stderr); silent for work under a second.

    `size` is how many make one `unit`: 1048576 bytes a MiB.
    """

    def __init__(self, stream: TextIO, width: int, unit: str, size: int = 1) -> None:
        self._stream = stream
        self._unit = unit
        self._size = size
        self._terminal = stream.isatty()
        self._width = width
        self._started = self._shown = time.monotonic()
        self._drawn = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __call__(self, done: int, total: int, name: str) -> None:
        """Take note of progress; draw if it is time to."""
        now = time.monotonic()
        every = _BAR_EVERY_S if self._terminal else _LINE_EVERY_S
        if now - self._started < _QUIET_S or now - self._shown < every:
            return
        self._shown = now
        if self._terminal:
            self._draw(done, total, name)
        else:
            self._stream.write(f"{self._amount(done, total)} {clean_line(name)}\n")
            self._stream.flush()

    def close(self) -> None:
        """Remove the bar."""
        if self._drawn:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def _draw(self, done: int, total: int, name: str) -> None:
        filled = _BAR * done // total if total else 0
        bar = "#" * filled + "." * (_BAR - filled)
        text = f"{bar} {self._amount(done, total)} {clean_line(name)}"
        self._stream.write(f"\r{text[: self._width - 1]}\x1b[K")
        self._stream.flush()
        self._drawn = True

    def _amount(self, done: int, total: int) -> str:
        whole = f"/{total // self._size}" if total else ""
        return f"{done // self._size}{whole} {self._unit}"


class ByteProgress(Progress):
    """Progress in MiB."""

    def __init__(self, stream: TextIO, width: int = 80) -> None:
        super().__init__(stream, width, "MiB", _MIB)
