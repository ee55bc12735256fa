"""What notes tell of several devices or hosts that work together, or do not."""

from __future__ import annotations

import re

_ONE = (
    r"(?:only )?(?:one|a single|single|1|two adjacent) (?:of (?:the|them) )?"
    r"(?:[\w-]{1,12} ){0,2}?(?:gpus?|cards?|devices?|npus?|l40s?|a\d0{1,2}|h\d00|rtx \w{4,8})\b"
)
_WORKS = r"\b(?:works?|worked|runs?|ran|loads?|starts?|(?:is|are) fine|no problems?|answers?)\b"
_TP_ONE = r"(?:tensor[-_ ]parallel[-_ ]size|tp(?:[-_ ]size)?|num[-_]shard)[ =:]{1,3}(?:of )?1\b"
_NOT = re.compile(
    r"\b(?:not|no longer|neither|n't|only a part|fails?|refused|slow)\b|n't\b", re.IGNORECASE
)
_HANGS = re.compile(
    r"\b(?:hangs?|hung|hanging|stuck|freezes?|froze\w?|deadlocks?|blocks for ?ever|"
    r"never (?:ends|returns|finishes|comes back|gets past)|waits? (?:for ?ever|endlessly))\b",
    re.IGNORECASE,
)
# Of these a hang says nothing about the devices.
_ELSEWHERE = re.compile(
    r"\b(?:pip|apt|download\w*|pull\w*|install\w*|build\w*|compil\w+|desktop|boots?|git)\b"
    r"|\b(?:does|do|did) not (?:hang|freeze)|\bno (?:hang|freeze)|"
    r"\bafter (?:\w{1,10} ){0,2}(?:hours?|days?|weeks?|while|time|requests?|steps?|epochs?)\b",
    re.IGNORECASE,
)
_ONE_WORKS = re.compile(
    rf"\b(?:{_ONE}|{_TP_ONE})[^;\n]{{0,30}}?{_WORKS}|{_WORKS}[^;\n]{{0,25}}?"
    rf"(?:\b(?:with|on|using|for|if)\b[^;\n]{{0,12}})?(?:\b{_ONE}|{_TP_ONE})",
    re.IGNORECASE,
)
_RATE = r"(\d{1,3}(?:\.\d{1,2})?)(?: ?(?:to|-) ?\d{1,3}(?:\.\d{1,2})?)? ?gb/s"
_WITHOUT = r"(?:p2p|peer[- ]to[- ]peer|peer access) (?:is )?(?:disabled|off)"
_WITH = r"(?:p2p|peer[- ]to[- ]peer|peer access) (?:is )?(?:enabled|on)\b"
_RATES = (
    (rf"{_RATE}[^;\n]{{0,12}}{_WITHOUT}", rf"{_RATE}[^;\n]{{0,12}}{_WITH}"),
    (rf"{_WITHOUT}[^;\n]{{0,12}}?{_RATE}", rf"{_WITH}[^;\n]{{0,12}}?{_RATE}"),
)
_HOSTS = re.compile(
    r"\b(?:two|three|four|2|3|4|several|both|multiple) (?:\w{1,10} )?(?:nodes|hosts|machines|"
    r"servers|computers)\b|\bmulti-?node\b|\b(?:across|between) (?:the )?(?:nodes|hosts|"
    r"machines)\b|"
    r"\bsecond (?:node|host|machine|server)\b",
    re.IGNORECASE,
)
_INTERFACE = r"(?:GLOO|NCCL|HCCL|TP)_SOCKET_IFNAME"
_OPEN = re.compile(
    rf"\b(?:no|without|neither|missing)\b[^;\n]{{0,8}}\b{_INTERFACE}|"
    rf"{_INTERFACE}\b[^;\n]{{0,40}}?\b(?:not set|unset|missing|(?:is|are) not)\b|"
    rf"\b(?:variables?|{_INTERFACE})\b[^;\n]{{0,30}}\b(?:only )?on the (?:first|head|main) "
    r"(?:node|host|machine)\b|"
    r"\b(?:several|many|multiple|two|three) (?:\w{1,10} ){0,2}(?:interfaces|nics|"
    r"network (?:cards|adapters))\b|\bdocker(?:0| bridge)\b[^;\n]{0,30}\beth\w{1,4}\b|"
    r"\bloopback\b",
    re.IGNORECASE,
)


def told_together(notes: tuple[str, ...]) -> dict[str, str]:
    """What is told of several devices or hosts, by name, each with the words that tell it."""
    checks = {
        "hangs": lambda note: _HANGS.search(note) and not _ELSEWHERE.search(note),
        "one_works": lambda note: _ONE_WORKS.search(note) and not _NOT.search(note),
        "slower_peers": _peers_are_slower,
        "several_hosts": _HOSTS.search,
        "interface_open": _OPEN.search,
    }
    return {
        name: note.strip()[:200]
        for name, check in checks.items()
        for note in notes
        if check(note)  # type: ignore[operator]
    }


def _peers_are_slower(note: str) -> bool:
    """Both rates are told, and that with peer access is lower by half or more."""
    for without, with_peers in _RATES:
        slow = re.search(with_peers, note, re.IGNORECASE)
        fast = re.search(without, note, re.IGNORECASE)
        if slow and fast and float(slow[1]) * 2 < float(fast[1]):
            return True
    return False
