"""Where reports go: one format to stdout, others whole into files."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from doctor.errors import DoctorError, UsageError
from doctor.named_files import write_named
from doctor.report import Fleet, Report, Style, fleet_renderer, renderer

_WIDEST = 120
_USUAL = 100


def _columns(stream: TextIO) -> int:
    """Columns of a terminal, as COLUMNS says or the terminal itself."""
    stated = os.environ.get("COLUMNS", "")
    if stated.isdecimal() and len(stated) < 6 and int(stated):
        return int(stated)
    try:
        return os.get_terminal_size(stream.fileno()).columns or _USUAL
    except (OSError, ValueError):
        return _USUAL


def terminal_style(stream: TextIO, verbose: bool = False, quiet: bool = False) -> Style:
    """Style for a stream: its width and colour if it is a terminal, and NO_COLOR is not set."""
    if not stream.isatty():
        return Style(verbose=verbose, quiet=quiet)
    width = min(_columns(stream), _WIDEST)
    colour = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Style(max(width, 40), colour, verbose, quiet, cut=True)


def parse_outputs(outputs: Sequence[str], formats: Sequence[str]) -> tuple[tuple[str, Path], ...]:
    """Read `-o FORMAT=FILE` options; raises UsageError for an unknown format, or one file."""
    parsed = []
    for text in outputs:
        name, _, file = text.partition("=")
        if name not in formats or not file:
            known = ", ".join(formats)
            raise UsageError(f"-o {text[:80]!r} is not FORMAT=FILE", f"formats: {known}")
        parsed.append((name, Path(file)))
    files = [path for _, path in parsed]
    if len(set(files)) < len(files):
        raise UsageError("-o names one file twice", "name a file for each format")
    return tuple(parsed)


def write_all(
    report: Report | Fleet, form: str, files: Sequence[tuple[str, Path]], style: Style
) -> str:
    """Write the files and return the text for stdout."""
    for name, path in files:
        write_whole(path, _render(name, report, Style(verbose=style.verbose, quiet=style.quiet)))
    return _render(form, report, style)


def _render(name: str, report: Report | Fleet, style: Style) -> str:
    if isinstance(report, Fleet):
        return fleet_renderer(name)(report, style)
    return renderer(name)(report, style)


def emit(text: str) -> None:
    """Write to standard output, in whatever encoding it has; raises DoctorError if it is full.

    That its reader went away (`| head`) is no fault: the exit code still tells the answer.
    """
    stream = sys.stdout
    encoding = stream.encoding or "ascii"
    try:
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except OSError as fault:
        # What is left in the buffer must not be tried again when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if not isinstance(fault, BrokenPipeError):
            raise DoctorError(
                f"cannot write the output: {fault.strerror}", "make room, or send it elsewhere"
            ) from None


def write_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all; raises UsageError if it cannot be written."""
    try:
        write_named(path, text)
    except OSError as fault:
        raise UsageError(f"cannot write {path}: {fault.strerror}", "name a writable file") from None
