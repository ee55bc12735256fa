"""Names of processors as people write them: without the maker's words, or with a blank."""

from __future__ import annotations

import re

_MARKS = re.compile(r"\((?:r|tm)\)", re.IGNORECASE)
_CORE = re.compile(r"(?:intel )?(?:core )?(i[3579])[ -]?(\d{3,5}[a-z]{0,3})\b", re.IGNORECASE)
_XEON = re.compile(
    r"(?:intel )?(?:dual |2x ?|2 x )?"
    r"((?:[elwx]\d{4}|e[357]-?\d{4}l?)(?: ?v\d)?)(?: @.*| cpu.*)?",
    re.IGNORECASE,
)


def full_name(text: str) -> str:
    """The name as the processor itself gives it, where a short one can be no other's."""
    plain = _MARKS.sub("", text).strip()
    core = _CORE.match(plain)
    if core is not None:
        rest = plain[core.end() :]
        return f"Intel(R) Core(TM) {core[1].lower()}-{core[2].upper()}{rest}"
    xeon = None if "xeon" in plain.lower() else _XEON.fullmatch(plain)
    if xeon is not None:
        model = re.sub(r"^E([357])(?=\d)", r"E\1-", xeon[1].upper()).replace("V", " v")
        return f"Intel(R) Xeon(R) CPU {re.sub(r' +v', ' v', model)}"
    return text
