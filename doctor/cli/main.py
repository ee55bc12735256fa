"""The entry point: the one place where errors become exit codes.

click is imported inside `run`, so that Ctrl-C while it loads is an interruption like any other.
"""

from __future__ import annotations

import errno
import os
import sys

import doctor
from doctor.errors import DoctorError, ExitCode, UsageError

# What a machine answers that is full, failing, read-only or closed: no fault of doctor.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF, errno.ESTALE)
_REFUSED = (errno.EROFS, errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
# What no file can be called, or nothing leads to: a name that was given.
_NO_NAME = (errno.ENAMETOOLONG, errno.ELOOP)
_OF_THE_MACHINE = (*_FULL, *_REFUSED, errno.EAGAIN)


def main(argv: list[str] | None = None) -> None:
    """Run the command line and exit."""
    sys.exit(run(sys.argv[1:] if argv is None else argv))


def run(argv: list[str]) -> int:
    """Run the command line; return the exit code. Every error ends here, in one line."""
    try:
        _replace_closed_streams()
        return int(_call(argv))
    except DoctorError as fault:
        _say(str(fault), fault.hint)
        return int(fault.exit_code)
    except KeyboardInterrupt:
        _say("interrupted")
        return int(ExitCode.INTERRUPTED)
    except OSError as fault:
        return int(_failed(fault))
    except Exception:
        return int(_bug())


def _replace_closed_streams() -> None:
    """Python has no stream where the caller closed one (`>&-`); what goes there goes nowhere."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            nowhere = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - open to the end
            setattr(sys, name, nowhere)


def _call(argv: list[str]) -> int:
    import click

    from doctor.cli.group import root

    if any(not word or (word.startswith("--") and word.endswith("=")) for word in argv):
        # `--root "$TREE"` with TREE unset would judge another host than was meant.
        raise UsageError("an argument is empty", "is a variable of your shell not set?")
    try:
        answer: object = root.main(args=argv, prog_name="doctor", standalone_mode=False)
        sys.stdout.flush()
        return answer if isinstance(answer, int) else int(ExitCode.OK)
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.exceptions.Abort:
        raise KeyboardInterrupt from None
    except click.exceptions.NoArgsIsHelpError as fault:
        fault.show(file=sys.stderr)
        return int(ExitCode.USAGE)
    except click.ClickException as fault:
        where = getattr(fault, "ctx", None)
        path = where.command_path if where else "doctor"
        raise UsageError(fault.format_message(), f"see `{path} --help`") from None
    except (BrokenPipeError, SystemExit):
        # The reader of a help text went away (`| head`); click answers that with SystemExit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return int(ExitCode.OK)


def _say(message: str, hint: str = "") -> None:
    from doctor.report.clean import clean_line

    text = f"doctor: {clean_line(message, 1000)}"
    print(f"{text}\n  {clean_line(hint, 1000)}" if hint else text, file=sys.stderr)


def _failed(fault: OSError) -> ExitCode:
    """What the machine refuses is said; any other error of the system is a bug."""
    if "temporary directory" in str(fault.strerror):
        _say("no folder for temporary files can be written", "make room, or name one: TMPDIR=/PATH")
    elif fault.errno in _NO_NAME and fault.filename is not None:
        _say(f"{os.fsdecode(fault.filename)[:200]}: {fault.strerror}", "name another path")
        return ExitCode.USAGE
    elif fault.errno not in _OF_THE_MACHINE:
        return _bug()
    elif fault.filename is None:
        _say(f"cannot write the output: {fault.strerror}", "make room, or send it elsewhere")
    else:
        _say(f"{os.fsdecode(fault.filename)}: {fault.strerror}", "mend that, then try again")
    return ExitCode.FAILED


def _bug() -> ExitCode:
    """Write the trace to a private file, ready to paste, and say where it is."""
    import tempfile
    import traceback

    trace = traceback.format_exc()
    try:
        handle, path = tempfile.mkstemp(prefix="doctor-bug-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"doctor {doctor.__version__}, Python {sys.version}\n{trace}")
        hint = f"please report it with the trace in {path}"
    except OSError:
        hint = "set TMPDIR to a folder that can be written, and its trace is kept there"
    _say(f"this is a bug: {trace.strip().splitlines()[-1]}", hint)
    return ExitCode.BUG
