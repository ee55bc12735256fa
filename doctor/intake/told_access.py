"""Rights over devices that people tell of: who may open them, and containers that lost them."""

from __future__ import annotations

import re

from doctor.facts import UNSTATED, Reading, seen
from doctor.intake.stated import Stated

_AT = "notes"
_GROUPS = r"[`'\"]?(?:render|video)\b"
_CLOSED = re.compile(
    r"\bworks? (?:only )?(?:as|with|under) (?:root|sudo)\b|"
    r"\bonly (?:works? |runs? |visible )?(?:as|with|for|to|under) (?:root|sudo)\b|"
    r"\b(?:root|sudo) (?:works|sees it|sees the|can see|can open)\b|"
    rf"\b(?:not|isn't|aren't) (?:yet )?(?:a member of|in|part of|"
    rf"added to)(?: the)?(?: groups?)? {_GROUPS}|"
    rf"\b(?:no|without|missing|lacks?)(?: the)? (?:group )?{_GROUPS}(?: group)?|"
    r"\b(?:no|without|missing|lacks?|forgot)(?: the)? --?group-add\b|"
    r"\bworks? (?:fine |well )?for (?:one|another|the other|some|a different|root|the first|"
    r"user \w{1,20})"
    r"[^.;\n]{0,40}\bnot\b|"
    r"\b(?:another|the other|one|the service) user\b[^.;\n]{0,30}\b(?:cannot|can't|may not|"
    r"does not|doesn't) "
    r"(?:see|open|use|find|access)\b|"
    r"\b(?:true|works?|visible|seen|found|fine)\b[^.;\n]{0,15}\bfor (?:user|account) \w{1,20}\b"
    r"[^.;\n]{0,12}\b(?:false|not|fails|nothing)\b[^.;\n]{0,15}\bfor (?:user|account) \w{1,20}\b|"
    # A node of a group that the container does not have.
    r"\bno group of (?:that|this) (?:number|id|gid)\b|"
    r"/dev/(?:dri|kfd)\S{0,20}\b[^.;\n]{0,12}\b(?:belongs to|owned by) group \d{1,5}\b|"
    # Units and packages that are confined, and see no device unless they are given it.
    r"\bPrivateDevices\b(?!=(?:no|false|0))|\bDevicePolicy=(?:closed|strict)|\bDeviceAllow\b|"
    r"\b(?:snap|flatpak)\b[^.;\n]{0,40}\b(?:confin\w{1,6}|sandbox\w{0,3}|not connected|"
    r"interface)\b|\b(?:confined|sandboxed|strict) (?:\w{1,12} )?(?:snap|flatpak)\b",
    re.IGNORECASE,
)
# Rights over programs, packages and the engine's socket are another matter.
_ELSEWHERE = re.compile(r"\b(?:docker\.sock|docker group|pip3?|conda|apt|socket)\b", re.IGNORECASE)
_SELINUX = re.compile(
    r"\bselinux\b[^.;\n]{0,12}\b(?:enforcing|enabled|on|blocks|denies|denied)\b", re.IGNORECASE
)
_RELABELLED = re.compile(r"label=disable|container_use_devices|permissive", re.IGNORECASE)
_CONFINED = re.compile(r"\bpodman\b|\brootless\b|/dev/kfd", re.IGNORECASE)

_GPU = r"\b(?:gpus?|cuda|nvidia-smi|nvml|cards?|devices?|cpu)\b"
_SPAN = (
    r"(?:(?:some|a few|several|many|two|three|four|\d{1,3}) )?"
    r"(?:hours?|days?|weeks?|minutes?|time|while)"
)
_GONE = (
    r"(?:fails?|failed|stops?|lost|loses?|lose|gone|disappears?|vanish\w*|no longer|not any more|"
    r"cannot|can't|unknown error|(?:only|just|uses?|on) (?:on )?(?:the )?cpu|falls back|until)"
)
_LOST = (
    re.compile(
        rf"\b(?:at first|initially)\b[^.\n]{{0,30}}{_GPU}[^.\n]{{0,40}}\b(?:later|afterwards?|"
        rf"after (?:an? )?{_SPAN})\b[^.\n]{{0,30}}\b(?:{_GONE}|does not|is not|not)",
        re.IGNORECASE,
    ),
    # It was there for a while, or at first, and then it was not.
    re.compile(
        rf"{_GPU}[^.\n]{{0,40}}\b(?:for|at first|initially|in the beginning|until)\b[^.\n]{{0,50}}"
        rf"(?:\b(?:then|later|afterwards?|and|but|after)\b[^.\n]{{0,40}}\b{_GONE}|\bdaemon-reload)",
        re.IGNORECASE,
    ),
    re.compile(
        rf"\b(?:after|later|every) (?:an? (?:idle )?)?(?:{_SPAN}|\w{{1,10}} day|overnight)\b"
        rf"[^.\n]{{0,50}}"
        rf"(?:{_GPU}[^.\n]{{0,30}}\b{_GONE}|\b{_GONE}[^.\n]{{0,30}}{_GPU})",
        re.IGNORECASE,
    ),
    re.compile(
        rf"{_GPU}[^.\n]{{0,40}}\b{_GONE}[^.\n]{{0,30}}\bafter (?:an? )?(?:{_SPAN}|daemon-reload|"
        rf"systemctl)",
        re.IGNORECASE,
    ),
    # Packages or units of the host were renewed while it ran.
    re.compile(
        r"\bafter (?:an? |the )?(?:apt|dnf|yum|package|unattended|automatic|system|systemd|"
        r"systemctl)\b"
        rf"[^.\n]{{0,30}}\b(?:upgrades?|updates?|install|daemon-reload)\b"
        rf"[^.\n]{{0,60}}\b(?:container|pod)s?\b"
        rf"[^.\n]{{0,40}}(?:{_GONE}|\bcpu\b)",
        re.IGNORECASE,
    ),
    # It fails inside, works outside, and did not from the start.
    re.compile(
        r"\b(?:later|then|afterwards?|suddenly|meanwhile)\b[^.\n]{0,30}\bnvidia-smi\b"
        r"[^.\n]{0,30}\b(?:in|inside)"
        r" (?:of )?(?:the |a )?(?:container|pod)s?\b[^.\n]{0,15}\b(?:fails?|no longer|unknown)",
        re.IGNORECASE,
    ),
    # A new start of the container brings it back.
    re.compile(
        rf"\brestart\w*\b[^.\n]{{0,30}}\b(?:container|pod|docker)s?\b[^.\n]{{0,25}}\b(?:brings?|"
        rf"mends?|fixes|"
        rf"helps)\b[^.\n]{{0,15}}{_GPU}|"
        r"\bworks?(?: again)? after (?:an? |the )?(?:docker|container|pod)(?: is| was)? "
        r"re-?(?:start|creat)",
        re.IGNORECASE,
    ),
)


def _texts(report: Stated) -> tuple[str, ...]:
    box = report.table("container")
    return (*report.strings("notes"), box.text("text"), box.text("runtime"))


def told_closed(report: Stated) -> Reading[str]:
    """The words by which somebody says that a user, or a container, may not open the devices."""
    texts = _texts(report)
    whole = " ".join(texts)
    for text in texts:
        if _CLOSED.search(text) and not _ELSEWHERE.search(text):
            return seen(text, _AT)
        if _SELINUX.search(text) and _CONFINED.search(whole) and not _RELABELLED.search(whole):
            return seen(text, _AT)
    return UNSTATED


def told_lost(report: Stated) -> Reading[str]:
    """The words by which somebody says that a container had its devices, and lost them."""
    found = (text for text in _texts(report) if any(words.search(text) for words in _LOST))
    text = next(found, "")
    return seen(text, _AT) if text else UNSTATED
