"""Devices as people name them: "8x H100 80GB", "Atlas 300I Duo (310P)", "MI300X"."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import combinations
from typing import Any

from doctor.facts import (
    UNSTATED,
    ComputeCapability,
    Device,
    Mig,
    Reading,
    TopologyLink,
    seen,
)
from doctor.intake.card_names import apart, counted, memory_in, vendor_of
from doctor.intake.stated import Stated, plain_text, truth
from doctor.probes.npu_smi import soc_name
from doctor.probes.tool_text import reading

_MAX_DEVICES = 1024
_GFX = re.compile(r"\bgfx\d{2,4}[a-f]?\b", re.I)
# Also by the type of a virtual GPU, its memory and series: A40-24Q, A100-1-5C, RTX6000-6Q.
_VIRTUAL = re.compile(
    r"\bvGPU\b|\bGRID\b|\b[A-Z][A-Z\d]{0,9}-(?:\d-)?\d{1,3}[ABCQ](?:ME)?\b",
)
_MIG = re.compile(r"\bMIG\W{0,3}(?:mode )?(?:is )?(?:on|enabled)\b", re.I)
_LINK = re.compile(r"\b(NV\d{1,2}|PIX|PXB|PHB|NODE|SYS)\b")
_LISTED = re.compile(r"(?:PIX|PXB|PHB|NODE|SYS)(?:(?:,| and|/|,? or)? ?(?:PIX|PXB|PHB|NODE|SYS))+")
_EVERY = re.compile(r"\b(?:all|every|each|any|only)\b|topology\b", re.I)
_ALONE = re.compile(r"\s{0,4}(?:NV\d{1,2}|PIX|PXB|PHB|NODE|SYS)\s{0,4}(?:[;,]|$)")
_PAIR = 2
_NO_NVLINK = re.compile(r"\bno nvlink\b|\bnvlink:? (?:none|no|not|absent)\b", re.I)
_PEER = re.compile(
    r"(?:canaccesspeer|p2p|peer access)[^;:=]{0,20}[:= ]\s?(0|1|ok|yes|no|true|false)\b", re.I
)
_NVIDIA_DRIVER = re.compile(r"[3-9]\d\d(?:\.\d|$)")
_MOBILE = re.compile(r"\d{3}M", re.I)


def stated_devices(report: Stated) -> Reading[tuple[Device, ...]]:
    """The devices under `gpus` and `npus`; partial if for one of them no count is stated."""
    found: list[Device] = []
    partial = False
    keys = [key for key in ("gpus", "npus") if report.raw(key) is not None]
    for key in keys:
        for entry in _entries(report, key):
            devices, is_counted = _expanded(entry, key[:3], len(found))
            found.extend(devices)
            partial = partial or not is_counted
    if not keys:
        return UNSTATED
    if _speaks_of_nvidia(report):
        found = [replace(d, vendor="nvidia") if _is_bare(d) else d for d in found]
    return seen(tuple(found[:_MAX_DEVICES]), report.at(keys[0]), partial)


def _speaks_of_nvidia(report: Stated) -> bool:
    """CUDA, or a driver numbered as NVIDIA's are, stands beside the cards."""
    has_cuda = bool(report.text("cuda_toolkit") or report.text("cuda_driver_api"))
    return has_cuda or _NVIDIA_DRIVER.match(report.text("driver")) is not None


def _is_bare(device: Device) -> bool:
    """A number that both makers have used for chips of laptops, as "840M"."""
    return device.vendor == "amd" and _MOBILE.fullmatch(device.name.value or "") is not None


def _entries(report: Stated, key: str) -> list[Stated]:
    """Entries as tables, whether they were written as tables or as texts."""
    value = report.raw(key)
    items = value if isinstance(value, list) else [value]
    tables = [item if isinstance(item, dict) else {"name": plain_text(item)} for item in items]
    single = (one for table in tables for one in _each_named(table))
    named = [table for table in single if any(map(plain_text, table.values()))]
    return [Stated(table, f"{report.at(key)}[{i}]", report.notes) for i, table in enumerate(named)]


def _each_named(table: dict[str, Any]) -> list[dict[str, Any]]:
    """One table a card where the name is all that a table states, and holds several."""
    names = apart(plain_text(table.get("name"))) if set(table) == {"name"} else []
    if len(names) < 2:
        return [table]
    return [{"name": name if counted(name)[1] else f"1x {name}"} for name in names]


def _expanded(entry: Stated, prefix: str, taken: int) -> tuple[list[Device], bool]:
    """The devices of one entry, and whether their number was stated."""
    name, count = counted(entry.text("name"))
    stated = entry.number("count")
    count = int(stated) if stated and stated >= 1 else count or None
    device = _device(entry, name, prefix)
    entry.note_unread()
    numbers = range(taken, taken + min(count or 1, _MAX_DEVICES))
    return [_numbered(device, prefix, number) for number in numbers], count is not None


def _numbered(device: Device, prefix: str, number: int) -> Device:
    return replace(device, id=f"{prefix}{number}", index=number)


def _device(entry: Stated, name: str, prefix: str) -> Device:
    vendor = vendor_of(name)
    if prefix == "npu" and vendor == "nvidia":
        vendor = "ascend"
    gfx = _GFX.search(name)
    soc = soc_name(name) if vendor == "ascend" else None
    memory = entry.number("memory_gib")
    in_name = None if memory else memory_in(name)
    mig = truth(entry.text("mig"))
    if mig is None and _MIG.search(name):
        mig = True
    return Device(
        id="",
        vendor=vendor,
        name=reading(name or None, entry.at("name")),
        compute_capability=_capability(entry),
        gfx=reading(gfx[0].lower() if gfx else None, entry.at("name")),
        soc=reading(soc, entry.at("name")),
        memory_mib=reading(in_name, entry.at("name"))
        if in_name
        else reading(round(memory * 1024) if memory else None, entry.at("memory_gib")),
        mig=reading(None if mig is None else Mig(enabled=mig), entry.at("mig")),
        virtual=reading(True if _VIRTUAL.search(name) else None, entry.at("name")),
    )


def _capability(entry: Stated) -> Reading[ComputeCapability]:
    text = entry.text("compute_capability").removeprefix("sm_")
    if not text:
        return UNSTATED
    try:
        dotted = text if "." in text else f"{text[:-1]}.{text[-1:]}"
        return seen(ComputeCapability.parse(dotted), entry.at("compute_capability"))
    except ValueError:
        entry.note(entry.at("compute_capability"), text)
        return UNSTATED


def stated_topology(text: str, devices: tuple[Device, ...]) -> Reading[tuple[TopologyLink, ...]]:
    """Links of all pairs, where a sentence speaks of all; else unstated.

    "NODE and SYS only" leaves both open for each pair: "NODE|SYS".
    """
    link = _link_of_all(text, len(devices))
    if not link:
        return UNSTATED
    peer = _PEER.search(text)
    p2p = None if peer is None else peer[1].lower() in ("1", "ok", "yes", "true")
    pairs = combinations((d.id for d in devices[:64]), 2)
    return seen(tuple(TopologyLink(a, b, link, p2p) for a, b in pairs), "topology")


def _link_of_all(text: str, count: int) -> str:
    kinds = list(dict.fromkeys(_LINK.findall(text)))
    if len(kinds) > 1 and re.search(r"\bonly\b", text):
        return "|".join(kinds)
    if len(kinds) > 1 and (_NO_NVLINK.search(text) or _LISTED.fullmatch(text.strip())):
        return "" if any(kind.startswith("NV") for kind in kinds) else "|".join(kinds)
    is_all = _EVERY.search(text) or _ALONE.match(text) or count == _PAIR
    if len(kinds) == 1 and is_all:
        return str(kinds[0])
    return "PIX|PXB|PHB|NODE|SYS" if _NO_NVLINK.search(text) and not kinds else ""


def memory_of(value: Any) -> int | None:
    """MiB of a size such as "80GB", "64M" or "1g" (binary units); None for anything else."""
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,6})?)\s?([kmgt])i?b?", str(value).strip(), re.I)
    if match is None:
        return None
    scale = {"k": 1 / 1024, "m": 1, "g": 1024, "t": 1 << 20}[match[2].lower()]
    return int(float(match[1]) * scale)
