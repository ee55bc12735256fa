"""Where reports go: one format to stdout, others whole into files."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from doctor.errors import UsageError
from doctor.report import Report, Style, renderer

_WIDEST = 120


def terminal_style(stream: TextIO, verbose: bool = False) -> Style:
    """Style for a stream: its width and colour if it is a terminal, and NO_COLOR is not set."""
    if not stream.isatty():
        return Style(verbose=verbose)
    width = min(shutil.get_terminal_size((100, 24)).columns, _WIDEST)
    colour = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Style(max(width, 40), colour, verbose)


def parse_outputs(outputs: Sequence[str], formats: Sequence[str]) -> tuple[tuple[str, Path], ...]:
    """Read `-o FORMAT=FILE` options; raises UsageError for an unknown format."""
    parsed = []
    for text in outputs:
        name, _, file = text.partition("=")
        if name not in formats or not file:
            known = ", ".join(formats)
            raise UsageError(f"-o {text[:80]!r} is not FORMAT=FILE", f"formats: {known}")
        parsed.append((name, Path(file)))
    return tuple(parsed)


def write_all(report: Report, form: str, files: Sequence[tuple[str, Path]], style: Style) -> str:
    """Write the files and return the text for stdout."""
    for name, path in files:
        write_whole(path, renderer(name)(report, Style(verbose=style.verbose)))
    text = renderer(form)(report, style)
    encoding = sys.stdout.encoding or "ascii"
    # A terminal of another encoding must not turn a report into a traceback.
    return text.encode(encoding, "backslashreplace").decode(encoding)


def write_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all; raises UsageError if it cannot be written."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        scratch.write_text(text, encoding="utf-8")
        os.replace(scratch, path)
    except OSError as fault:
        scratch.unlink(missing_ok=True)
        raise UsageError(f"cannot write {path}: {fault.strerror}", "name a writable file") from None
