"""From an order for the software of NPUs to a plan, and the proof of it. Changes nothing."""

from __future__ import annotations

import msgspec

from doctor.diagnose import Request, diagnose
from doctor.errors import UsageError
from doctor.facts import Facts
from doctor.matrix import Matrix
from doctor.provision.goal import Goal
from doctor.provision.npu.ask import npu_state, read_npu_state
from doctor.provision.npu.goals import npu_goal, npu_set, refused
from doctor.provision.npu.sets import KINDS, NpuSet
from doctor.provision.order import Order, Prepared
from doctor.provision.plan import Plan, make_plan
from doctor.provision.survey import REMOTE_PYTHON, State, read_facts
from doctor.provision.variables import Means

MEANS = Means(python=REMOTE_PYTHON, wheels="", fetched=True)


def prepare_npus(order: Order, matrix: Matrix) -> Prepared:
    """Survey the machine and plan its NPU software. Raises UsageError or RemoteError."""
    if order.host_lock is not None:
        raise UsageError(
            "NPU software has no host's lock", "its profile names each installer by sha256"
        )
    facts = read_facts(order.target)
    wanted, left = npu_set(order.profile, facts)
    goal = npu_goal(wanted)
    state = read_npu_state(order.target, goal, facts)
    plan = npu_plan(order, goal, state, facts, left)
    diagnosis = diagnose(facts, matrix, Request(scopes=("host",)))
    return Prepared(order, None, facts, state, diagnosis, MEANS, plan)


def npu_plan(order: Order, goal: Goal, state: State, facts: Facts, left: tuple[str, ...]) -> Plan:
    """The plan for a machine of which facts and state were read. Pure."""
    wanted, there = goal.npu, state.npu
    blockers: tuple[str, ...] = ()
    if wanted is not None and there is not None:
        arch = facts.host.arch.value or ""
        blockers = tuple(refused(wanted, there, arch, state.uid, order.busy))
    plan = make_plan(order.target.name, goal, state, MEANS, blockers)
    count = sum(step.reboots for step in plan.steps)
    boots = (f"reboots: {count or 'none'}",) if plan.steps else ()
    seen = () if there and there.devices else ("no NPU is seen on this machine",)
    return msgspec.structs.replace(plan, notes=(*plan.notes, *boots, *left, *seen))


def npu_proof(wanted: NpuSet, facts: Facts, state: State) -> tuple[bool, str]:
    """Whether the machine itself says what was wanted, and in words what was seen."""
    there = state.npu or npu_state(facts, state.files, {})
    other = [p for p in wanted.parts if not there.has(p)]
    if other:
        said = (
            f"{p.kind} is {there.versions.get(p.kind, 'unknown') or 'not there'}" for p in other
        )
        return False, f"not as wanted: {', '.join(said)}"
    together = facts.ascend.compatibility.value or ""
    if together and together.upper() == "NOK":
        return False, "npu-smi says that driver and firmware do not go together"
    named = ", ".join(f"{p.kind} {p.version}" for k in KINDS for p in wanted.of(k))
    if not there.devices:
        return True, f"{named}; only in part: no NPU is there that could answer"
    return True, f"{named}; {there.devices} NPUs are seen"
