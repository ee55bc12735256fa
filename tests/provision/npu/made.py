"""Profiles of NPU software, recorded machines, and what plan makes of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from doctor.facts import Facts
from doctor.intake.snapshot import read_snapshot
from doctor.profile.read import find_profile, parse_profile
from doctor.profile.schema import Profile
from doctor.provision.npu.ask import npu_state
from doctor.provision.npu.goals import npu_goal, npu_set
from doctor.provision.npu.ordering import npu_plan
from doctor.provision.npu.sets import HOME, KINDS, NpuState
from doctor.provision.order import Order
from doctor.provision.plan import Plan
from doctor.provision.roles import with_unverified
from doctor.provision.survey import State
from doctor.provision.target import Target

VERSIONS = {"driver": "25.5.1", "firmware": "7.8.0.2.212", "toolkit": "9.0.0", "ops": "9.0.0",
            "nnal": "9.0.0", "runtime": "7.2.0"}  # fmt: skip
HASHES = {kind: f"{number:x}" * 64 for number, kind in enumerate(KINDS, 1)}


def facts_of(host: str) -> Facts:
    """The facts of a recorded machine."""
    path = Path("tests/hosts", host, "facts.json")
    return read_snapshot(path.read_text(), str(path))


def profile_of(*kinds: str, **changes: dict[str, str]) -> Profile:
    """The shipped profile, filled in for these parts (all of them if none is named)."""
    data: dict[str, Any] = json.loads(
        json.dumps(msgspec.to_builtins(find_profile("ascend-driver")))
    )
    data["ascend"] = {
        kind: {
            "path": f"/srv/ascend/{kind}_linux-aarch64.run",
            "version": VERSIONS[kind],
            "sha256": HASHES[kind],
            **changes.get(kind, {}),
        }
        for kind in kinds or KINDS
    }
    return parse_profile(json.dumps(data), "mine")


def planned(profile: Profile, facts: Facts, **changes: Any) -> Plan:
    """What plan says there; all installers lie on the machine unless `there` says otherwise."""
    wanted, left = npu_set(profile, facts)
    hashes = {part.path: part.sha256 for part in wanted.parts}
    found = npu_state(facts, {}, hashes)
    state = State(home=HOME, uid=0, npu=msgspec.structs.replace(found, **changes))
    order = Order(profile, Target(), False, driver=True)
    return with_unverified(npu_plan(order, npu_goal(wanted), state, facts, left))


def state_with(plan: Plan, npu: NpuState) -> State:
    """A machine of that software on which nothing else of doctor is."""
    return State(home=plan.goal.home, uid=0, npu=npu)
