"""The border that all text from outside crosses before a person's terminal sees it."""

from __future__ import annotations

import unicodedata

_KEPT = {"\n", "\t"}


def clean(text: str, limit: int = 4000) -> str:
    """Make control and direction characters visible and cut what is too long.

    An escape sequence in a package name must not move the reader's cursor.
    """
    cut = text if len(text) <= limit else f"{text[:limit]} ... ({len(text)} characters)"
    if cut.isascii() and cut.isprintable():
        return cut
    return "".join(char if _is_plain(char) else _visible(char) for char in cut)


def clean_line(text: str, limit: int = 400) -> str:
    """Clean, and on one line."""
    return clean(text, limit).replace("\n", " ").replace("\t", " ")


def _is_plain(char: str) -> bool:
    return char in _KEPT or unicodedata.category(char) not in {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}


def _visible(char: str) -> str:
    return f"\\x{ord(char):02x}" if ord(char) < 256 else f"\\u{ord(char):04x}"
