"""From the software of NPUs that shall be and what is there to steps. Pure.

A first driver goes in before its firmware; where one is there, the firmware goes first. CANN's
toolkit comes before what is laid into it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from doctor.provision.goal import Goal
from doctor.provision.npu.sets import (
    CANN,
    DRIVER,
    FIRMWARE,
    RUNTIME,
    NpuPart,
    NpuState,
    mark_of,
)
from doctor.provision.step import NONE, FileDiff, Step
from doctor.provision.survey import State
from doctor.provision.variables import applied_file

_RISK = "unverified: doctor's tests have not run it on a machine with NPUs"


def npu_steps(goal: Goal, state: State) -> tuple[Step, ...]:
    """What is to be done; nothing if the machine is just so."""
    wanted, there = goal.npu, state.npu
    if wanted is None or there is None:
        return ()
    lacking = [p for p in wanted.parts if p.path and not there.has(p)]
    steps = [*_driver(lacking, there), *_cann(lacking, there), *_runtime(lacking, there)]
    steps += _note(goal, state)
    return (*steps, _verify()) if steps else ()


def _driver(lacking: Sequence[NpuPart], there: NpuState) -> Iterator[Step]:
    parts = {p.kind: p for p in lacking if p.kind in (DRIVER, FIRMWARE)}
    if not parts:
        return
    first = there.versions.get(DRIVER) == ""
    order = [k for k in ((DRIVER, FIRMWARE) if first else (FIRMWARE, DRIVER)) if k in parts]
    named = ", then ".join(f"{kind} {parts[kind].version}".strip() for kind in order)
    variables: dict[str, Any] = {"ascend_driver_first": first}
    for kind, name in ((DRIVER, "ascend_driver"), (FIRMWARE, "ascend_driver_firmware")):
        part = parts.get(kind)
        variables[f"{name}_installer"] = part.path if part else ""
        variables[f"{name}_sha256"] = part.sha256 if part else ""
    yield Step(
        name="install_npu_driver",
        role="ascend_driver",
        title=f"install {named}",
        reason=_why(parts.values(), there),
        risk=f"{_RISK}; programs on the NPUs end, and firmware may be a way without return",
        undo=NONE,
        downtime="until the machine has booted",
        reboots=True,
        variables=variables,
    )


def _cann(lacking: Sequence[NpuPart], there: NpuState) -> Iterator[Step]:
    parts = [p for kind in CANN for p in lacking if p.kind == kind]
    if not parts:
        return
    rows = [
        {"path": p.path, "sha256": p.sha256, "mark": mark_of(p.kind), "version": p.version}
        for p in parts
    ]
    yield Step(
        name="install_cann",
        role="ascend_cann",
        title=f"install CANN: {', then '.join(f'{p.kind} {p.version}'.strip() for p in parts)}",
        reason=_why(parts, there),
        risk=f"{_RISK}; programs that run keep what they have loaded",
        undo=NONE,
        variables={"ascend_cann_installers": rows},
    )


def _runtime(lacking: Sequence[NpuPart], there: NpuState) -> Iterator[Step]:
    for part in lacking:
        if part.kind == RUNTIME:
            yield Step(
                name="install_npu_runtime",
                role="ascend_container_runtime",
                title=f"let docker show the NPUs: runtime {part.version}".strip(),
                reason=_why([part], there),
                risk=f"{_RISK}; it becomes docker's default runtime",
                undo=NONE,
                downtime="docker starts again, and its containers with it",
                variables={
                    "ascend_container_runtime_installer": part.path,
                    "ascend_container_runtime_sha256": part.sha256,
                    "ascend_container_runtime_mark": mark_of(RUNTIME),
                    "ascend_container_runtime_version": part.version,
                },
            )


def _note(goal: Goal, state: State) -> list[Step]:
    """The machine's own note of what is applied, by which drift goes."""
    file = applied_file(goal)
    there = state.files.get(file.path)
    if not _has_installers(goal) or (there is not None and there.text == file.text):
        return []
    return [
        Step(
            name="note_applied",
            role="ascend_note",
            title="write down on the machine what is applied",
            reason="drift is looked for by it",
            diffs=(FileDiff(file.path, there.text if there else None, file.text),),
            variables={"ascend_note_files": [msgspec.to_builtins(file)]},
        )
    ]


def _has_installers(goal: Goal) -> bool:
    return bool(goal.npu and any(part.path for part in goal.npu.parts))


def _verify() -> Step:
    return Step(
        name="verify",
        role="",
        title="ask the machine: versions, NPUs, whether driver and firmware go together",
        reason="what an installer prints proves no driver",
    )


def _why(parts: Iterable[NpuPart], there: NpuState) -> str:
    found = []
    for part in parts:
        version = there.versions.get(part.kind)
        state = f"is {version}" if version else "is not there" if version == "" else "is not known"
        found.append(f"{part.kind} {state}")
    return "; ".join(found)
