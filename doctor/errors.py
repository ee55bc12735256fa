"""The errors that a person sees, and the exit codes of the command.

A broken host is never an exception: it is a missing `Reading` or a `Finding`.
These errors are for what stops the work itself: bad input, a bad matrix, an
unreachable machine, a failed action. They are caught once, in `cli.main`.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What the process answers; documented in `doctor --help`."""

    OK = 0
    NO = 1
    USAGE = 2
    CANNOT_TELL = 3
    FAILED = 4
    SUSPENDED = 5
    BUG = 70
    INTERRUPTED = 130


class DoctorError(Exception):
    """Work cannot go on. `hint` says what to do next, in one line."""

    exit_code: ExitCode = ExitCode.FAILED

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class UsageError(DoctorError):
    """What was asked for, or handed over, cannot be understood."""

    exit_code = ExitCode.USAGE


class NoneFoundError(DoctorError):
    """What was asked for is understood, and there is none."""

    exit_code = ExitCode.NO


class MatrixError(DoctorError):
    """The compatibility matrix breaks its own rules (schema, sources, conflicts)."""

    exit_code = ExitCode.USAGE


class RemoteError(DoctorError):
    """Another machine, registry or index could not be reached or lied."""

    exit_code = ExitCode.FAILED


class ProvisionError(DoctorError):
    """A step that changes a machine failed; the journal says how far it came."""

    exit_code = ExitCode.FAILED
