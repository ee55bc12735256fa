"""From a profile to the goal for a machine's NPUs, and what stands in its way. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.errors import UsageError
from doctor.facts import Facts
from doctor.profile.schema import Installer, Profile
from doctor.provision.goal import SYSTEM, SYSTEMD, Goal
from doctor.provision.npu.sets import DRIVER, FIRMWARE, HOME, KINDS, NAME, NpuPart, NpuSet, NpuState

_ARCH = re.compile(r"(aarch64|x86_64)")
# Where the software of the device is another machine's: of a host, or of both.
_ELSEWHERE = {
    "vm": {FIRMWARE: "in a virtual machine the firmware is the host's"},
    "container": dict.fromkeys(
        (DRIVER, FIRMWARE), "in a container driver and firmware are the host's"
    ),
}


def npu_set(profile: Profile, facts: Facts) -> tuple[NpuSet, tuple[str, ...]]:
    """What a profile wants there, and what of it belongs elsewhere, in words. Raises UsageError."""
    named: dict[str, Installer | None] = {k: getattr(profile.ascend, k) for k in KINDS}
    wanted = {kind: item for kind, item in named.items() if item is not None}
    if not wanted:
        raise UsageError(
            f"{profile.name} names no installers", "write ascend: {driver: {path: ...}}"
        )
    apart = _ELSEWHERE.get(facts.host.platform.value or "", {})
    parts = tuple(
        NpuPart(kind=kind, version=item.version, path=item.path, sha256=item.sha256)
        for kind, item in wanted.items()
        if kind not in apart
    )
    left = tuple(dict.fromkeys(apart[kind] for kind in wanted if kind in apart))
    return NpuSet(parts=parts), left


def npu_goal(wanted: NpuSet) -> Goal:
    """The goal around a set."""
    driver = next((part.version for part in wanted.of(DRIVER)), "")
    return Goal(profile=NAME, home=HOME, scope=SYSTEM, supervisor=SYSTEMD, npu=wanted,
                engine=NAME, version=driver, lock="")  # fmt: skip


def npu_before(goal: Goal, state: NpuState) -> NpuSet:
    """What was there of all that a goal names; without installers, so it cannot be brought back."""
    parts = goal.npu.parts if goal.npu else ()
    return NpuSet(
        parts=tuple(NpuPart(kind=p.kind, version=state.versions.get(p.kind, "")) for p in parts)
    )


def refused(wanted: NpuSet, state: NpuState, arch: str, uid: int, busy: bool) -> Iterator[str]:
    """What a person must settle first."""
    if uid != 0:
        yield "installers need root on that machine"
    for part in wanted.parts:
        yield from _of_installer(part, state, arch)
    lacking = [part for part in wanted.of(DRIVER, FIRMWARE) if not state.has(part)]
    if lacking and state.users and not busy:
        names = ", ".join(state.users[:5])
        yield f"programs use the NPUs: {names}. End them, or say --busy"


def _of_installer(part: NpuPart, state: NpuState, arch: str) -> Iterator[str]:
    if part.kind not in state.versions:
        yield f"the version of the {part.kind} that is there cannot be read"
    if state.has(part):
        return  # its installer is needed no more
    if not (part.version and part.sha256):
        yield (
            f"ascend.{part.kind} needs the version in the name of its installer, and the sha256 "
            "that the vendor states for it"
        )
    named = _ARCH.search(part.path)
    if named and arch and named[1] != arch:
        yield f"{part.path} is for {named[1]}, the machine is {arch}"
    there = state.hashes.get(part.path, "")
    if not there:
        yield f"{part.path} is not there: fetch it from the vendor, doctor does not"
    elif part.sha256 and there != part.sha256:
        yield f"{part.path} has the sha256 {there}, not the one of the profile"


def stuck(goal: Goal, state: NpuState | None) -> Iterator[str]:
    """Parts that were there before and cannot be had back."""
    if goal.npu is None or state is None:
        return
    for part in goal.npu.parts:
        if not part.path and not state.has(part):
            was = f"was {part.version}" if part.version else "was not there"
            yield (
                f"{part.kind} {was}, and installers cannot be undone: name the older installers "
                "in a profile"
            )
