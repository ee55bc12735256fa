"""A driver's library asked in a child, so that one that hangs or crashes takes nothing along.

The child asks everything once and writes one JSON document to a pipe. A child that is late
is killed; one that is stuck in the kernel is left behind.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from collections.abc import Callable
from typing import NoReturn, Optional

from doctor.facts import Missing, Reading, missing, seen

Document = dict[str, object]

# The one key of a document that says why nothing could be asked.
UNASKED = "unasked"
_LIMIT = 8 << 20
_GRACE_S = 0.25


def query(question: Callable[[], Document], timeout_s: float, at: str) -> Reading[Document]:
    """What `question` returns in a child of this process; never blocks longer.

    `timed-out` if the child had to be abandoned, `not-readable` if it died or if its
    document says why it could not ask. A refusal by the library is an answer.
    """
    reader, writer = os.pipe()
    try:
        return _ask(question, reader, writer, timeout_s, at)
    except OSError as error:
        return missing(Missing.NOT_READABLE, f"{at}: {error.strerror}")
    finally:
        os.close(reader)


def _ask(
    question: Callable[[], Document], reader: int, writer: int, timeout_s: float, at: str
) -> Reading[Document]:
    deadline = time.monotonic() + timeout_s
    try:
        pid = os.fork()
        if pid == 0:
            _serve(question, writer, timeout_s)
    finally:
        os.close(writer)
    text = None
    try:
        text = _read(reader, deadline)
    finally:
        # A child that has answered is ending; the driver may still be closing its devices.
        status = _end(pid, 0.0 if text is None else _GRACE_S)
    return _answer(text, status, at)


def _read(reader: int, deadline: float) -> Optional[bytes]:
    """Everything up to the end of the pipe, or None if the deadline came first."""
    chunks, room = [], _LIMIT
    while room > 0:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([reader], [], [], left)[0]:
            return None
        chunk = os.read(reader, min(room, 1 << 16))
        if not chunk:
            break
        chunks.append(chunk)
        room -= len(chunk)
    return b"".join(chunks)


def _end(pid: int, patience_s: float) -> Optional[int]:
    """Collect the child, killing it if it is not done; None if it is stuck in the kernel."""
    status = _wait(pid, patience_s)
    if status is None:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
        status = _wait(pid, _GRACE_S)
    return status


def _wait(pid: int, patience_s: float) -> Optional[int]:
    until, pause = time.monotonic() + patience_s, 0.0005
    status = _collect(pid)
    while status is None and time.monotonic() < until:
        time.sleep(pause)
        pause *= 2
        status = _collect(pid)
    return status


def _collect(pid: int) -> Optional[int]:
    try:
        found, status = os.waitpid(pid, os.WNOHANG)
    except OSError:
        return 0
    return status if found else None


def _answer(text: Optional[bytes], status: Optional[int], at: str) -> Reading[Document]:
    if text is None:
        return missing(Missing.TIMED_OUT, at)
    with contextlib.suppress(ValueError):
        answer = json.loads(text)
        if isinstance(answer, dict):
            why = answer.get(UNASKED)
            return seen(answer, at) if why is None else _unasked(f"{at}: {why}")
    how = f" by signal {os.WTERMSIG(status)}" if status and os.WIFSIGNALED(status) else ""
    return _unasked(f"{at}: the reader was ended{how}")


def _unasked(why: str) -> Reading[Document]:
    return missing(Missing.NOT_READABLE, why)


def _serve(question: Callable[[], Document], writer: int, timeout_s: float) -> NoReturn:
    """The child: ask, write, leave without running anything of the parent's."""
    code = 1
    try:
        _let_go(writer, timeout_s)
        with os.fdopen(3, "wb") as pipe:
            pipe.write(json.dumps(question()).encode())
        code = 0
    finally:
        os._exit(code)


def _let_go(writer: int, timeout_s: float) -> None:
    """Keep only the pipe: a child left behind must not hold the parent's terminal or pipes."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    # Ends the child even if the parent is gone by then.
    signal.alarm(int(timeout_s) + 2)
    os.dup2(writer, 3)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    os.closerange(4, max(map(int, os.listdir("/proc/self/fd"))) + 1)
