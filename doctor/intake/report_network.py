"""Hosts without a way to the hub or the internet, as people tell of them."""

from __future__ import annotations

import re

from doctor.facts import UNSTATED, Reading, seen

_OFFLINE = re.compile(
    r"\b(?:host|machine|server|node|cluster|site|container|pod|system|computer|environment|"
    r"network|vm)s? "
    r"(?:is|are|has|have|had|runs?)(?: been)? (?:completely |fully |strictly )?"
    r"(?:offline\b|air-?gapped\b|isolated\b|behind an? (?:corporate |company )?firewall|"
    r"(?:no|not) [^.;]{0,20}(?:internet|connection|network|route|outbound|egress)\b)|"
    r"\bair-?gapped (?:host|machine|server|node|cluster|site|network|environment|kubernetes|"
    r"install\w*)|"
    r"\b(?:offline|isolated) (?:host|machine|server|node|cluster|site|network)\b|"
    r"\b(?:pod|container|cluster|node|host|server|machine)s? behind an? (?:corporate |"
    r"company )?firewall\b|"
    r"\b(?:no|without)(?: an?| any)?(?: outbound)?(?: (?:route|access|way|path|"
    r"connection) to the)? internet\b|"
    r"\b(?:no|without) (?:outbound|egress)\b|"
    r"\b(?:egress|outbound(?: traffic| access)?)(?: is| was)? (?:denied|blocked|restricted|"
    r"disabled|not allowed)\b|"
    r"\b(?:cannot|can't|can not) reach (?:huggingface|the hub|the internet)",
    re.IGNORECASE,
)
_NO_HUB = re.compile(
    r"\b(?:huggingface\.co|hf\.co|the hub|hugging face) (?:times out|timed out|is (?:blocked|down|"
    r"unreachable|not (?:reachable|accessible))|cannot be (?:reached|resolved)|does not resolve)\b|"
    r"\b(?:no|without|lacks?) (?:any )?(?:access|route|connection) to (?:huggingface(?:\.co)?|"
    r"hf\.co|"
    r"the hub|hugging face)\b|\b(?:cannot|can't|could not|couldn't|unable to) (?:access|connect to|"
    r"open|download from) (?:huggingface(?:\.co)?|hf\.co|the hub|hugging face)\b|"
    r"\b(?:in|from|within|inside) (?:mainland )?china\b(?! (?:telecom|mobile|unicom))|"
    r"\bgreat firewall\b|\bGFW\b",
    re.IGNORECASE,
)
_INTERNET = "the internet"
_HUB = "huggingface.co"


def unreachable(notes: tuple[str, ...], container: str) -> Reading[tuple[str, ...]]:
    """What cannot be reached, by notes or by what is said of the container."""
    for texts, at in ((notes, "notes"), ((container,), "container")):
        if any(map(_OFFLINE.search, texts)):
            return seen((_INTERNET,), at, partial=True)
        if any(map(_NO_HUB.search, texts)):
            return seen((_HUB,), at, partial=True)
    return UNSTATED
