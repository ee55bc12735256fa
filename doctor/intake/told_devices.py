"""The state of devices that notes tell of: heat, power limits, narrow links, faults, other work."""

from __future__ import annotations

import re
from dataclasses import replace

from doctor.facts import Device, DeviceHealth, Link, Reading, seen
from doctor.facts.accelerators import DeviceProcess
from doctor.intake.stated import Stated, number, plain_text
from doctor.intake.told_mig import with_told_instances

_AT = "notes"
_NOT = re.compile(r"\b(?:no|not|never|nothing|nobody|without|isn't|doesn't)\b", re.IGNORECASE)
_SLOW = re.compile(r"\bslow\w*|\bthrottl\w+|\bclocks?\b|\bmhz\b|\bdrops?\b|\bfalls?\b", re.I)
_UNHEATED = re.compile(
    r"\b(?:no|not|never|without|isn't|doesn't|nor) (?:\w{1,12} ){0,2}"
    r"(?:throttl|overheat|thermal|too hot)",
    re.IGNORECASE,
)
_DEGREES = re.compile(r"\b(\d{2,3}) ?(?:°|degrees?|deg)? ?C(?:elsius)?\b")
_HOT_FROM, _HOT_TO = 83, 120
_HEAT = re.compile(
    r"\bthermal(?:ly)? (?:throttl\w+|limit\w*|slowdown)|\boverheat\w*|\btoo hot\b|"
    r"\bthrottl\w+ (?:for|by|due to|because of|from) (?:heat|temperature|thermal)",
    re.IGNORECASE,
)
_WATTS = re.compile(
    r"\bpower(?:[- ](?:limit|cap|target|mode|profile))?[^.;\n]{0,20}?\b(\d{1,3}) ?w(?:atts?)?\b|"
    r"(?:^|\s)-pl[ =](\d{2,3})\b|\bnvpmodel\b[^.;\n]{0,20}?\b(\d{1,2}) ?w\b|"
    r"\b(?:capped|limited|locked|restricted) (?:at|to) (\d{1,3}) ?w(?:atts?)?\b",
    re.IGNORECASE,
)
_BATTERY = re.compile(r"\bon battery\b|\bbattery (?:mode|power)\b|\bunplugged\b", re.IGNORECASE)
_LOW_CLOCK = re.compile(
    r"\bclocks?\b[^.;\n]{0,30}\b(?:stuck|stays?|locked|fixed|capped|never)\b[^.;\n]{0,25}"
    r"(?<!\d)\d{3} ?mhz\b",
    re.IGNORECASE,
)
_BRAKE = re.compile(r"\bpower[- ]brake\b|\bhw[- _]slowdown\b", re.IGNORECASE)
_NUMBERS = {"one": 1, "single": 1, "two": 2, "four": 4}
_LANES = re.compile(
    r"(?<![\w.])(?:pcie ?|gen ?\d ?)?x ?(1|2|4)\b|\b(1|2|4|one|two|four|single) (?:pcie )?lanes?\b|"
    r"\bwidth(?:\.current)?\W{1,4}(?:is )?x?(1|2|4)\b",
    re.IGNORECASE,
)
_GENERATION = re.compile(
    r"\b(?:pcie|link)\b[^.;\n]{0,20}\b(?:gen ?|pcie ?)([12])(?:\.[01])?\b[^;\n]{0,20}"
    r"\b(?:under load|while|stuck|stays)\b",
    re.IGNORECASE,
)
_OF_A_LINK = re.compile(
    r"\brisers?\b|\bslots?\b|\bchipset\b|\bpch\b|\bpcie\b|\blinks?\b|\blanes?\b|\bm\.2\b|"
    r"\bmining\b|\badapters?\b|\bnvidia-smi\b|\blspci\b",
    re.IGNORECASE,
)
_CABLE = re.compile(r"\be-?gpu\b|\bthunderbolt\b|\boculink\b|\busb ?4\b", re.IGNORECASE)
_CABLE_LANES, _CARD_LANES = 4, 16
_LATER = 3  # the oldest generation of a card that an engine is used on
_MIB = 1024
_SECOND = re.compile(r"\b(?:second|2nd|other|last) (?:card|gpu)\b|\bgpu ?1\b", re.IGNORECASE)
_PENDING = re.compile(
    r"\bremap\w*[^.;\n]{0,20}\bpending\b(?!\W{0,3}(?:no|0|none)\b)", re.IGNORECASE
)
_FAILED = re.compile(
    r"\bremap\w*[^.;\n]{0,20}\bfail\w*\b(?!(?: occurred)?\W{0,5}(?:no|0|none)\b)", re.IGNORECASE
)
_UNCORRECTED = re.compile(
    r"\buncorrect\w+[^.;\n\d]{0,40}?\b([1-9]\d{0,5})\b|\b([1-9]\d{0,5}) (?:\w+ )?uncorrect\w+",
    re.IGNORECASE,
)
_SPECIFIC = (
    r"(?:an?other|a second|second|other|an? old(?:er)?|a previous|the (?:old|previous)) "
    r"(?:\w{1,20} )?(?:process|job|program|server|container|service|engine|instance|model|"
    r"python|training|user|run|application|app|workload|task|pod|deployment)(?:e?s)?"
)
_PROGRAMS = (
    r"comfyui|ollama|vllm|sglang|lmdeploy|tgi|llama-server|stable diffusion|automatic1111|"
    r"lm studio|whisper|jupyter|notebook|blender|games?|frigate|plex"
)
_DOES = (
    r"(?:runs?|ran|(?:is|are) (?:still )?(?:running|open|loaded|there)|uses?|(?:is|are) using|"
    r"shares?|holds?|occup\w+|keeps?|takes?|has)\b"
)
_BY_OTHERS = (
    r"(?:used|use|held|taken|occupied|full) by (?:an? |the )?(?:\w{1,20} )?(?:another|other|"
    r"others\b|other (?:people|users)|somebody|someone|process|job|container|program|service)"
)
_OTHERS = re.compile(
    rf"\b{_BY_OTHERS}|\b(?:runs?|running|loaded) on the same (?:card|gpu|npu|device|chip)s?\b|"
    r"\b(?:second|other) (?:container|server|instance|pod) on the same "
    r"(?:host|machine|card|gpu|npu|device)\b|"
    rf"\b(?:{_SPECIFIC}|training (?:job|run)s?|colleagues?|somebody else|"
    r"other (?:users|people))"
    rf"\b[^.;\n]{{0,40}}\b{_DOES}|\bshared (?:server|host|machine|workstation|node)\b",
    re.IGNORECASE,
)
_ON_DEVICE = re.compile(
    r"\b(?:npu|chip)s?\b|davinci|\b(?:all|same) devices\b|\b(?:same|this|that|the|both|"
    r"all) (?:gpu|card|device)s?\b|\bmemory\b|\bvram\b|\bgi?b\b|"
    r"\bthere\b|\bit too\b",
    re.IGNORECASE,
)
_HELD = re.compile(r"\b(\d{1,3}(?:\.\d{1,2})?) ?gi?b\b", re.IGNORECASE)
_FREE = ("free_gib", "free_memory_gib", "gpu_free_gib", "available_gib", "free_gpu_gib")
_PROGRAM = re.compile(rf"\b({_PROGRAMS})\b[^.;\n]{{0,20}}\b{_DOES}", re.IGNORECASE)
# What shows a picture takes little, and belongs to the machine.
_DESKTOP = re.compile(r"\b(?:desktop|display|monitor|screen|gnome|kde|xorg|x server)s?\b", re.I)
_LEFT_OVER = re.compile(
    r"\bno process\w*[^.;\n]{0,30}\bnvidia-smi\b|\bnvidia-smi\b[^.;\n]{0,30}\bno process|"
    r"\bzombies?\b|\borphan\w*|\bleft-?overs?\b|\bafter a crash\b|"
    r"\b(?:killed|dead|stopped|terminated|crashed|finished|removed|ended|previous|"
    r"old) (?:\w{1,14} )?"
    r"(?:process|run|job|server|program|script|model|deployment|container|kernel)(?:e?s)?\b"
    r"[^.;\n]{0,30}\b(?:holds?|keeps?|occup\w+|takes?|use|uses)\b[^.;\n]{0,20}"
    r"(?:\bgi?b\b|\bmi?b\b|\bmemory\b|\bvram\b)|"
    r"(?:\bmemory|\bvram|\bgi?b|\bmib)\b[^.;\n]{0,25}\b(?:taken|used|occupied|in use|held|full|"
    r"not (?:released|freed|given back))\b[^.;\n]{0,12}\b(?:although|though|but|while|even|after|"
    r"without|with)\b[^.;\n]{0,30}\b(?:nothing|no (?:other )?(?:process\w*|jobs?|programs?)|nobody|"
    r"idle|killed|end(?:s|ed|ing)|stop\w*|interrupt\w*|ctrl)|"
    r"\b(?:two|three|four|five|six|several|\d) (?:\w{1,14} )?processes (?:hold|keep|take|use|"
    r"occupy)\b",
    re.IGNORECASE,
)
_MODE = re.compile(
    r"\bcompute[- _]mode\b[^.;\n]{0,20}?\b(e\. ?process|exclusive\w*|prohibited)|"
    r"\b(exclusive[-_ ]process|exclusive compute mode|e\. ?process)\b",
    re.IGNORECASE,
)


def with_told_state(
    devices: Reading[tuple[Device, ...]], report: Stated
) -> Reading[tuple[Device, ...]]:
    """The devices with what notes tell of their state; of which one they mostly do not say."""
    listed, notes = list(devices.value or ()), report.strings("notes")
    if not listed:
        return devices
    health = _health(notes)
    if health != DeviceHealth():
        listed[0] = replace(listed[0], health=seen(health, _AT, partial=True))
    link, place = _link((*notes, report.text("topology")))
    if link is not None:
        place = min(place, len(listed) - 1)
        listed[place] = replace(listed[place], link=seen(link, _AT, partial=True))
    listed[0] = _with_others(listed[0], notes, report)
    listed = with_told_instances(listed, (*notes, report.table("container").text("text")))
    return seen(tuple(listed), devices.at, devices.partial)


def _health(notes: tuple[str, ...]) -> DeviceHealth:
    plain = [note for note in notes if not _NOT.search(note)]
    heat = [degrees for note in notes if (degrees := _hot(note)) is not None]
    found = next(filter(None, map(_UNCORRECTED.search, plain)), None)
    return DeviceHealth(
        ecc_uncorrected=int(found[1] or found[2]) if found else None,
        remap_pending=any(map(_PENDING.search, notes)) or None,
        remap_failed=any(map(_FAILED.search, notes)) or None,
        throttle=(*(("sw-thermal",) if heat else ()), *_power(plain)),
        temperature_c=max(heat, default=0) or None,
    )


def _hot(note: str) -> int | None:
    """Degrees at which a card is said to slow down; 0 where only heat is spoken of."""
    if _UNHEATED.search(note):
        return None
    match = _DEGREES.search(note)
    degrees = int(match[1]) if match else 0
    if _HOT_FROM <= degrees <= _HOT_TO and _SLOW.search(note):
        return degrees
    return degrees if _HEAT.search(note) else None


def _power(notes: list[str]) -> tuple[str, ...]:
    """A limit of power by which somebody explains slow work, or beside which he tells of it."""
    if any(map(_BRAKE.search, notes)):
        return ("hw-power-brake",)
    if any(map(_LOW_CLOCK.search, notes)):
        return ("low-clocks",)
    limited = any(_WATTS.search(note) or _BATTERY.search(note) for note in notes)
    on_battery = any(_WATTS.search(note) and _BATTERY.search(note) for note in notes)
    return ("power-limit",) if on_battery or (limited and any(map(_SLOW.search, notes))) else ()


def _link(notes: tuple[str, ...]) -> tuple[Link | None, int]:
    """A link that a note calls narrow or slow, and which device it means."""
    for note in notes:
        place = 1 if _SECOND.search(note) else 0
        match, old = _LANES.search(note), _GENERATION.search(note)
        if _NOT.search(note):
            continue
        if match and _OF_A_LINK.search(note):
            text = match[1] or match[2] or match[3]
            return Link(_NUMBERS.get(text.lower()) or int(text), _CARD_LANES), place
        if _CABLE.search(note):
            return Link(_CABLE_LANES, _CARD_LANES), place
        if old:
            return Link(gen=int(old[1]), gen_max=_LATER), place
    return None, 0


def _with_others(device: Device, notes: tuple[str, ...], report: Stated) -> Device:
    """Other work on the device, with what is free of it, and a mode that admits one process."""
    texts = (*notes, report.table("container").text("text"))
    told = next(filter(None, (_others(note, report.text("engine")) for note in texts)), "")
    mode = next(filter(None, map(_MODE.search, notes)), None)
    if mode:
        word = "prohibited" if "prohib" in mode[0].lower() else "exclusive-process"
        device = replace(device, compute_mode=seen(word, _AT))
    measured = report.table("measured").data
    free = next((number(plain_text(measured[key])) for key in _FREE if key in measured), None)
    if not told or (free is None and not mode and not _ON_DEVICE.search(told)):
        return device
    held = _HELD.search(told)
    memory = round(float(held[1]) * _MIB) if held else None
    if memory and _LEFT_OVER.search(told):
        # What is left over does not go away by itself, however little it holds.
        memory = memory if memory * 4 > (device.memory_mib.value or 0) else None
    process = DeviceProcess(pid=0, memory_mib=memory, name=told)
    device = replace(device, processes=seen((process,), _AT, partial=True))
    if free is None or device.memory_free_mib.is_known:
        return device
    return replace(device, memory_free_mib=seen(round(free * _MIB), "measured"))


def _others(note: str, engine: str) -> str:
    """The words by which somebody says that other work holds the device, "" if nobody does."""
    if _LEFT_OVER.search(note):
        return note
    if _NOT.search(note) or _DESKTOP.search(note):
        return ""
    program = _PROGRAM.search(note)
    is_other = program is not None and program[1].lower() not in engine.lower()
    return note if is_other or _OTHERS.search(note) else ""
