"""A Mac: system and chip, whose GPU shares the memory of the machine.

Sources: sysctl(3) of macOS; the property list of the system's version.
"""

from __future__ import annotations

import re
from dataclasses import replace

from doctor.facts import Device, Facts, HostFacts, Missing, OsRelease, Reading, missing, seen
from doctor.probes.files import relay
from doctor.probes.host import Host

VERSION = "/System/Library/CoreServices/SystemVersion.plist"
_STATED = re.compile(
    r"<key>(ProductVersion|ProductName)</key>\s{0,20}<string>([^<]{1,60})</string>"
)
_NAMES = ("machdep.cpu.brand_string", "hw.memsize", "hw.ncpu", "kern.osrelease")
_COMMAND = ("sysctl", *_NAMES)
_LINE = re.compile(r"^([a-z_.]{1,60}): ([^\n]{1,200})$", re.MULTILINE)
_MACHINES = {"arm64": "aarch64"}


def read(host: Host, facts: Facts) -> Facts:
    """Fill what names the machine, and its GPU where the chip is Apple's own."""
    text = host.read_text(VERSION, 1 << 14)
    answer = host.run(_COMMAND)
    told = parse_sysctl(answer.value.stdout if answer.value is not None else "")
    facts = replace(facts, host=_host(facts.host, text, told))
    chip = told.get("machdep.cpu.brand_string", "")
    if not chip.startswith("Apple "):
        return facts
    # Memory is the machine's: how much of it the GPU may take is for the system to decide.
    gpu = Device(
        id="gpu0",
        vendor="apple",
        index=0,
        name=seen(chip, _COMMAND[0]),
        memory_mib=missing(Missing.NOT_STATED, "shared with the machine"),
    )
    return replace(facts, devices=seen((*(facts.devices.value or ()), gpu), _COMMAND[0]))


def parse_version(text: str, at: str = VERSION) -> Reading[OsRelease]:
    """Read the property list; it is `not-readable` without a version."""
    stated = dict(_STATED.findall(text))
    version = stated.get("ProductVersion")
    if version is None:
        return missing(Missing.NOT_READABLE, at)
    return seen(OsRelease("macos", version, (), stated.get("ProductName", "macOS")), at)


def parse_sysctl(text: str) -> dict[str, str]:
    """The values by name; names that the system does not know are left out."""
    return {name: value.strip() for name, value in _LINE.findall(text)}


def _host(facts: HostFacts, text: Reading[str], told: dict[str, str]) -> HostFacts:
    system = relay(text) if text.value is None else parse_version(text.value, text.at)
    arch, memory = facts.arch.value or "", told.get("hw.memsize", "")
    chip, count = told.get("machdep.cpu.brand_string"), told.get("hw.ncpu", "")
    cpu = facts.cpu
    if chip:
        cpu = replace(cpu, model=seen(chip, _COMMAND[0]))
    if count.isdecimal():
        cpu = replace(cpu, count=seen(int(count[:6]), _COMMAND[0]))
    return replace(
        facts,
        os=system,
        kernel=_stated(told, "kern.osrelease", facts.kernel),
        arch=seen(_MACHINES[arch], facts.arch.at) if arch in _MACHINES else facts.arch,
        cpu=cpu,
        memory_mib=seen(int(memory[:18]) >> 20, _COMMAND[0])
        if memory.isdecimal()
        else facts.memory_mib,
    )


def _stated(told: dict[str, str], name: str, otherwise: Reading[str]) -> Reading[str]:
    return seen(told[name], _COMMAND[0]) if name in told else otherwise
