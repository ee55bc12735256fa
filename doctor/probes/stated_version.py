"""Versions as tools and people write them: short ones, candidates, one inside a phrase."""

from __future__ import annotations

import re
from typing import Optional

from doctor.facts import Version

_NEWER = re.compile(r"(\S{1,40}?)\s*(?:\+|(?:or|and) (?:newer|later|above|higher))")
_TOKEN = re.compile(r"(?<![\w.])[vV]?\d{1,18}(?:\.\d{1,18})+[\w.+-]{0,80}")
_LEADING = re.compile(r"[vV]?\d{1,9}(?![\w.])")
_PREVIEW = re.compile(r"(.{0,40}?rc\.?\d{1,4})\.(alpha|beta)?\.?(\d{1,9})", re.IGNORECASE)
# A vendor's mark behind a release, which PEP 440 would set off by "+".
_MARKED = re.compile(
    r"([vV]?\d{1,9}(?:\.\d{1,9}){1,3})[-._](?!(?:pre|rc|alpha|beta|dev|nightly|snapshot))"
    r"([0-9]{0,12}[a-z][\w.+-]{0,60})",
    re.IGNORECASE,
)
_BUILD = re.compile(r"b\d+", re.IGNORECASE)


def version(text: str, width: int = 3) -> Optional[Version]:
    """Read a version as people state it: exact, a prefix, bounds, or one inside a phrase.

    A version with fewer than `width` numbers is short for any that begins with it:
    "2.8" becomes "2.8.*". None if no single version is named.
    """
    text = text.strip()[:200]
    newer = _NEWER.fullmatch(text)
    if newer:
        return Version.maybe(f">={newer[1]}")
    if re.fullmatch(r"[\d.]+\.[xX]", text):
        return Version.maybe(text[:-1] + "*")
    found = Version.maybe(text) or _in_phrase(text)
    return widened(found, width) if found else None


def _in_phrase(text: str) -> Optional[Version]:
    """The version in "2.1.0 (from source)"; None if there are several or none."""
    numbered = _PREVIEW.fullmatch(text)
    if numbered:
        # CANN and HDK number candidates: RC1.alpha003 comes before RC1, rc3.10 after rc3.
        label = "dev" if numbered[2] else "post"
        return Version.maybe(f"{numbered[1]}.{label}{int(numbered[3])}")
    tokens = {match[0].rstrip(".-+") for match in _TOKEN.finditer(text)}
    if not tokens and (leading := _LEADING.match(text)):
        tokens = {leading[0]}
    if len(tokens) != 1:
        return None
    token = tokens.pop()
    found, marked = Version.maybe(token), _MARKED.fullmatch(token)
    if found or not marked:
        return found
    return Version.maybe(f"{marked[1]}+{marked[2]}") or Version.maybe(marked[1])


def widened(exact: Version, width: int) -> Version:
    """Turn a version of fewer than `width` numbers into the prefix that it stands for."""
    digits = exact.public.lstrip("vV")
    short = exact.is_exact and len(exact.release) < width and not _BUILD.fullmatch(digits)
    if not short or not re.fullmatch(r"[\d.]+", digits):
        return exact
    return Version.maybe(digits + ".*") or exact
