"""Run a command so that it ends when its parent ends, even by SIGKILL. Linux; run by path.

    python -I -S tied.py COMMAND [ARGUMENT...]

The kernel sends SIGTERM to the command when the process that started this one is gone.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_SET_PARENT_DEATH_SIGNAL = 1


def main() -> None:
    """Tie this process to its parent, then become the command."""
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(1)
    try:
        os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606 - no shell is wanted
    except OSError as fault:
        sys.exit(f"error: cannot run {sys.argv[1]}: {fault.strerror}")


if __name__ == "__main__":
    main()
