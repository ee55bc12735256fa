"""What is there of the software of NPUs: the machine's facts, doctor's own notes, installers."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from doctor.facts import Facts, Missing, Reading, Version
from doctor.facts.reading import UNSTATED
from doctor.provision.goal import Goal
from doctor.provision.npu.sets import HOME, KINDS, SEEN, NpuState, mark_of
from doctor.provision.survey import FileState, State, read_facts, read_home
from doctor.provision.target import Target


def read_npu_state(target: Target, goal: Goal, facts: Facts | None = None) -> State:
    """The state of a goal's NPU software. Raises RemoteError."""
    parts = goal.npu.parts if goal.npu else ()
    paths = [part.path for part in parts if part.path]
    state = read_home(target, HOME, files=[mark_of(kind) for kind in KINDS], hashes=paths)
    found = npu_state(facts or read_facts(target), state.files, state.hashes)
    return msgspec.structs.replace(state, npu=found)


def npu_state(facts: Facts, files: dict[str, FileState | None], hashes: dict[str, str]) -> NpuState:
    """The same from what was read. Pure."""
    read = (facts.ascend.driver, facts.ascend.firmware, facts.ascend.cann)
    seen = dict(zip(SEEN, read, strict=True))
    versions = {kind: stated for kind, reading in seen.items() for stated in _stated(reading)}
    for kind in KINDS:
        if kind not in seen:
            note = files.get(mark_of(kind))
            versions[kind] = (note.text or "").strip() if note else ""
    devices = [d for d in facts.devices.value or () if d.vendor == "ascend"]
    users = {p.name or str(p.pid) for d in devices for p in d.processes.value or ()}
    return NpuState(
        versions=versions, hashes=hashes, users=tuple(sorted(users)), devices=len(devices)
    )


def _stated(reading: Reading[Version]) -> Iterable[str]:
    """The version; "" for what is not there; nothing where that is not known.

    A machine without any trace of NPUs is not asked for more, so its facts say nothing.
    """
    if reading.value is not None:
        yield str(reading.value)
    elif reading.missing is Missing.NOT_THERE or reading == UNSTATED:
        yield ""
