"""How far a load test is: a line that moves on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import time
from typing import TextIO

from doctor.report.bench_words import rate_text
from doctor.smoke.bench.run import Progress

_BAR = 24
_DRAW_EVERY_S, _LINE_EVERY_S = 0.1, 10.0


class BenchProgress:
    """Shows progress on a stream (stderr)."""

    def __init__(self, stream: TextIO, width: int = 80) -> None:
        self._stream = stream
        self._terminal = stream.isatty()
        self._width = width
        self._place, self._shown = -1, 0.0
        self._drawn = False

    def __call__(self, progress: Progress) -> None:
        """Take note of progress; show it if it is time to, or if a load is new."""
        now = time.monotonic()
        every = _DRAW_EVERY_S if self._terminal else _LINE_EVERY_S
        if progress.place == self._place and now - self._shown < every:
            return
        self._place, self._shown = progress.place, now
        text = _text(progress)
        if self._terminal:
            self._stream.write(f"\r{_bar(progress)} {text}"[: self._width - 1] + "\x1b[K")
            self._drawn = True
        else:
            self._stream.write(f"{text}\n")
        self._stream.flush()

    def close(self) -> None:
        """Remove the bar."""
        if self._drawn:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


def _bar(progress: Progress) -> str:
    """The share of all loads that is done."""
    course = progress.course
    share = min(len(course.samples) / course.wanted, 1.0) if course else 0.0
    done = (max(progress.place - 1, 0) + share) / progress.of if progress.of else 0.0
    filled = int(_BAR * done)
    return "#" * filled + "." * (_BAR - filled)


def _text(progress: Progress) -> str:
    course = progress.course
    if course is None:
        return f"warming up, at most {progress.total_s:g} s in all"
    failed = sum(1 for sample in course.samples if sample.fault)
    tokens = sum(sample.tokens for sample in course.samples if not sample.fault)
    spent = max((sample.ended for sample in course.samples), default=0.0)
    rate = f", {rate_text(tokens / spent)} tokens/s" if spent > 0 else ""
    bad = f", {failed} failed" if failed else ""
    return (
        f"{course.load} ({progress.place} of {progress.of}): {len(course.samples)} of "
        f"{course.wanted} requests{bad}{rate}, {progress.seconds:.0f} of at most "
        f"{progress.total_s:g} s"
    )
