"""The processor, as the kernel shows it to this host."""

from __future__ import annotations

import re
from dataclasses import replace

from doctor.facts import Cpu, HostFacts, Missing, Reading, missing, seen
from doctor.probes.host import Host

_CPUINFO = "/proc/cpuinfo"
_PROCESSOR = re.compile(r"^processor\s*:", re.MULTILINE)
_LINE = re.compile(r"^([\w ()-]+?)\s*:[ \t]*(.*)$", re.MULTILINE)


def read(host: Host, facts: HostFacts) -> HostFacts:
    """Fill model, instruction set flags and number of processors."""
    text = host.read_text(_CPUINFO)
    if text.value is None:
        reason = missing(text.missing or Missing.NOT_READABLE, text.at)
        return replace(facts, cpu=Cpu(model=reason, flags=reason, count=reason))
    return replace(facts, cpu=parse_cpuinfo(text.value))


def parse_cpuinfo(text: str) -> Cpu:
    """Read /proc/cpuinfo: the first processor stands for all."""
    first, _, rest = text.partition("\n\n")
    stated = dict(_LINE.findall(first))
    if "model name" not in stated and "Model" in text:
        # Arm boards name the machine once, after the last processor.
        stated.update(dict(_LINE.findall(rest.rpartition("\n\n")[2])))
    count = len(_PROCESSOR.findall(text))
    return Cpu(
        model=_text(stated.get("model name") or stated.get("Model") or _arm_part(stated)),
        flags=_flags(stated.get("flags") or stated.get("Features") or ""),
        count=seen(count, _CPUINFO) if count else missing(Missing.NOT_READABLE, _CPUINFO),
    )


def _arm_part(stated: dict[str, str]) -> str:
    """Arm servers state numbers only: "implementer 0x41 part 0xd4f" is a Neoverse V2."""
    implementer, part = stated.get("CPU implementer"), stated.get("CPU part")
    return f"implementer {implementer} part {part}" if implementer and part else ""


def _text(text: str) -> Reading[str]:
    return seen(text.strip(), _CPUINFO) if text.strip() else missing(Missing.NOT_THERE, _CPUINFO)


def _flags(text: str) -> Reading[tuple[str, ...]]:
    flags = tuple(text.split())
    return seen(flags, _CPUINFO) if flags else missing(Missing.NOT_READABLE, _CPUINFO)
