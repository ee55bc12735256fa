"""A host described in one line: "H100x8,driver=550.54,python=3.11,ubuntu=22.04".

What is not stated stays unknown. A key that is not known, or a value that cannot be
read, is a usage error: nothing here may be guessed, for plans are made from it.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from typing import Any

from doctor.errors import UsageError
from doctor.facts import (
    UNSTATED,
    ContainerEngine,
    Facts,
    Missing,
    Reading,
    Scope,
    missing,
    seen,
)
from doctor.intake.card_names import apart, counted
from doctor.intake.devices import stated_devices
from doctor.intake.names import os_release, system_names
from doctor.intake.report_host import stated_ascend, stated_host, stated_nvidia, stated_rocm
from doctor.intake.report_packages import sort_packages
from doctor.intake.report_scope import stated_scope
from doctor.intake.stated import Stated, truth

AT = "--host"
_MAX_CHARS = 2000
_MOST = 1024
_SYSTEMS = ("ubuntu", "debian", "rhel", "rocky", "almalinux", "centos", "fedora", "sles",
            "opensuse", "amzn", "openeuler", "kylin", "alpine", "windows", "macos")  # fmt: skip
_ARCHS = ("x86_64", "aarch64", "ppc64le", "s390x", "riscv64")
_FLAVOURS = ("open", "proprietary")
_PYTHON = 3
_NO = ("none", "no", "absent", "false", "0")

# Where each key stands in a field report, which is read the same way.
_PLACES: dict[str, tuple[str, ...]] = {
    "driver": ("driver",),
    "cuda": ("cuda_driver_api",),
    "module": ("kernel_module",),
    "fabric_manager": ("packages", "fabric-manager"),
    "toolkit": ("cuda_toolkit",),
    "python": ("python",),
    "arch": ("os", "arch"),
    "glibc": ("os", "glibc"),
    "kernel": ("os", "kernel"),
    "jetpack": ("os", "jetpack"),
    "l4t": ("os", "l4t"),
    "cpu": ("cpu", "model"),
    "cpus": ("cpu", "count"),
    "flags": ("cpu", "flags"),
    "ram": ("memory", "ram_gib"),
    "hdk": ("npu_driver",),
    "cann": ("packages", "cann"),
    "firmware": ("packages", "firmware"),
    "rocm": ("packages", "rocm"),
}
# Of the card that stands before them.
_CARD_KEYS = {"cc": "compute_capability", "memory": "memory_gib", "mig": "mig"}
_OTHER_KEYS = ("gpu", "npu", "soc", "os", "platform", "docker", "podman", "container", "wsl")

# Keys that state the same fact.
_SAME = (("os", *_SYSTEMS), ("platform", "wsl"), ("docker", "podman", "container"))


@dataclass
class _Line:
    """What was read so far: cards, and the tables of a field report."""

    cards: list[dict[str, str]]
    report: dict[str, Any]
    box: Reading[ContainerEngine] = UNSTATED
    platform: str = ""
    no_driver: bool = False


def parse_host(text: str) -> Facts:
    """Read the line; raises UsageError, with the nearest names, for what is not understood."""
    line = _Line([], {})
    if len(text) > _MAX_CHARS:
        raise UsageError(f"--host has more than {_MAX_CHARS} characters", _EXAMPLE)
    given: dict[str, str] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        key, is_pair, value = part.partition("=")
        key = key.strip().lower().replace("-", "_")
        if is_pair:
            _expect_once(key, given)
            _read(line, key, value.strip())
        else:
            _add_card(line, part)
    if not line.cards and not line.report:
        raise UsageError("--host describes nothing", _EXAMPLE)
    return _facts(line)


_EXAMPLE = 'for example: --host "H100x8,driver=550.54,python=3.11,ubuntu=22.04,arch=x86_64"'


def _expect_once(key: str, given: dict[str, str]) -> None:
    """Refuse a second value of what a host has one of: which of the two was meant?"""
    if key in ("gpu", "npu", "soc", *_CARD_KEYS):
        return
    fact = next((names[0] for names in _SAME if key in names), key)
    if fact in given:
        twice = f"--host: {given[fact][:40]} and then {key[:40]}"
        raise UsageError(twice, "a host has one of these: state it once")
    given[fact] = key


def _add_card(line: _Line, text: str) -> None:
    if text.lower() in ("cpu", *_NO):
        line.report.setdefault("gpus", [])
        return
    for part in apart(text):
        name, count = counted(part)
        count = 1 if count is None else count
        if not 1 <= count <= _MOST:
            raise UsageError(f"--host: {text[:60]!r}: from 1 to {_MOST} cards", _EXAMPLE)
        line.cards.append({"name": name, "count": str(count)})


def _read(line: _Line, key: str, value: str) -> None:
    if not value:
        raise UsageError(f"--host: {key[:40]} has no value", _EXAMPLE)
    if key in ("gpu", "npu"):
        _add_card(line, value)
    elif key in _CARD_KEYS:
        _describe_card(line, key, value)
    elif key == "soc":
        _name_chip(line, value)
    elif key in ("docker", "podman", "container"):
        line.box = _container(key, value)
    elif key in ("os", *_SYSTEMS):
        _system(line, value if key == "os" else f"{key} {value}")
    elif key in ("platform", "wsl"):
        line.platform = "wsl2" if key == "wsl" else value.lower()
    elif key == "driver" and value.lower() in _NO:
        line.no_driver = True
    elif key in _PLACES:
        _place(line.report, _PLACES[key], value)
    else:
        raise _unknown(key)


def _unknown(key: str) -> UsageError:
    known = (*_PLACES, *_CARD_KEYS, *_OTHER_KEYS, *_SYSTEMS)
    near = difflib.get_close_matches(key, known, n=2)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    return UsageError(f"--host: no key {key[:40]!r}", f"{hint}Keys: {', '.join(known)}")


def _describe_card(line: _Line, key: str, value: str) -> None:
    if not line.cards:
        raise UsageError(f"--host: {key} stands before any card", _EXAMPLE)
    line.cards[-1][_CARD_KEYS[key]] = value


def _name_chip(line: _Line, value: str) -> None:
    """A SoC name says more than the name that npu-smi prints."""
    if not line.cards:
        raise UsageError("--host: soc stands before any card", _EXAMPLE)
    name = line.cards[-1]["name"]
    line.cards[-1]["name"] = value if name.lower() in value.lower() else f"{name} {value}"


def _system(line: _Line, text: str) -> None:
    name, _, version = text.replace("-", " ").partition(" ")
    known = system_names()
    read = os_release(name, version)
    if read is None or read.id not in known:
        near = difflib.get_close_matches(name.lower(), known, n=2)
        hint = f"did you mean {' or '.join(near)}? " if near else ""
        raise UsageError(f"--host: no system {name[:40]!r}", f"{hint}Known: {', '.join(known)}")
    _place(line.report, ("os", "distro"), name)
    _place(line.report, ("os", "version"), version)


def _container(key: str, value: str) -> Reading[ContainerEngine]:
    word = value.lower()
    if word in _NO:
        return missing(Missing.NOT_THERE, AT)
    name = word if key == "container" and truth(word) is None else key
    runtimes = ("nvidia", "runc")
    return seen(
        ContainerEngine("docker" if name == "container" else name, runtimes=seen(runtimes, AT)), AT
    )


def _place(report: dict[str, Any], path: tuple[str, ...], value: str) -> None:
    table = report
    for name in path[:-1]:
        table = table.setdefault(name, {})
    table[path[-1]] = value.split("+") if path == ("cpu", "flags") else value


def _facts(line: _Line) -> Facts:
    notes: list[str] = []
    cards: list[dict[str, str]] = line.cards
    report = Stated({**line.report, "gpus": cards}, "", notes)
    packages = sort_packages(report.table("packages"))
    facts = Facts(
        host=stated_host(report, packages),
        nvidia=stated_nvidia(report, packages),
        ascend=stated_ascend(report, packages),
        rocm=stated_rocm(packages),
        devices=_devices(report),
        container_engine=line.box,
        scopes=(_scope(report),),
    )
    _check(facts, notes)
    return _adjusted(facts, line)


def _check(facts: Facts, notes: list[str]) -> None:
    """Raise UsageError for a value that says nothing."""
    if notes:
        raise UsageError(f"--host: cannot read {notes[0][:120]}", _EXAMPLE)
    arch, python = facts.host.arch.value, facts.scopes[0].python.value
    if arch is not None and arch not in _ARCHS:
        raise UsageError(f"--host: arch={arch[:40]}", f"known: {', '.join(_ARCHS)}")
    if python is not None and python.version.major != _PYTHON:
        raise UsageError(f"--host: python={python.version}", "write python=3.12")
    flavour = facts.nvidia.module_flavour.value
    if flavour is not None and flavour not in _FLAVOURS:
        raise UsageError(f"--host: module={flavour[:40]}", f"known: {', '.join(_FLAVOURS)}")


def _devices(report: Stated) -> Reading[Any]:
    read = stated_devices(report)
    return read if read.is_known else seen((), AT)


def _scope(report: Stated) -> Scope:
    stated = stated_scope(report, ())
    return Scope("host", "host", python=stated.python)


def _adjusted(facts: Facts, line: _Line) -> Facts:
    if line.platform:
        facts = replace(facts, host=replace(facts.host, platform=seen(line.platform, AT)))
    if line.no_driver:
        nothing = missing(Missing.NOT_THERE, AT)
        facts = replace(facts, nvidia=replace(facts.nvidia, driver=nothing))
    if facts.devices.value and any(d.vendor == "ascend" for d in facts.devices.value):
        driver = facts.nvidia.driver
        if driver.is_known and not facts.ascend.driver.is_known:
            ascend = replace(facts.ascend, driver=driver)
            facts = replace(facts, ascend=ascend, nvidia=replace(facts.nvidia, driver=UNSTATED))
    return facts
