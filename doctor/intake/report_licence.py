"""The licence of a virtual GPU, where somebody tells of it."""

from __future__ import annotations

import re

from doctor.facts import UNSTATED, Reading, seen

_LICENCE = r"licen[cs]e"
_WITHOUT = re.compile(
    rf"\bunlicen[cs]ed\b|\bnot (?:been )?licen[cs]ed\b|\bno (?:vgpu |grid |valid )?{_LICENCE}\b|"
    rf"\b(?:without|lacks?|missing|forgot) (?:a |an |the |its |any )?(?:vgpu |grid |"
    rf"valid )?{_LICENCE}\b|"
    rf"\b{_LICENCE}(?: server| status| state| token)?\b[^.;\n]{{0,30}}(?:\b(?:expired|"
    rf"unlicen[cs]ed|"
    r"missing|denied|refused|unreachable|restricted|n/a)\b|\b(?:not|never|fail|cannot|can't)\w*)|"
    rf"\bfail\w* to (?:acquire|renew|fetch|get)\b[^.;\n]{{0,30}}\b{_LICENCE}|"
    r"\b(?:nvidia-)?gridd\b(?! is running)[^.;\n]{0,40}\b(?:not|no|fail\w*|inactive|dead|disabled|"
    r"missing|never|stopped)\b|\b(?:no|without|missing) (?:nvidia-)?(?:gridd|client config\w*|"
    r"token)\b",
    re.IGNORECASE,
)
_WITH = re.compile(
    rf"\b{_LICENCE} (?:status|state)\s?[:=]?\s?licensed\b|\b(?:is|are|gets|was|properly|"
    rf"fully) licen[cs]ed\b|"
    rf"\b{_LICENCE} (?:was |is |has been )?(?:acquired|granted|valid|served|in place|ok)\b|"
    rf"\b(?:with|has|have) (?:a|an|its|the) (?:valid |vgpu |grid )*{_LICENCE}\b",
    re.IGNORECASE,
)


def licensed(texts: tuple[str, ...]) -> Reading[bool]:
    """Whether a virtual GPU has its licence; no other thing here has one that people speak of."""
    if any(map(_WITHOUT.search, texts)):
        return seen(False, "notes")
    return seen(True, "notes") if any(map(_WITH.search, texts)) else UNSTATED
