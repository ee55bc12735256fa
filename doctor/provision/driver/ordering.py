"""From an order for a driver to a plan that can be shown and carried out. Changes nothing."""

from __future__ import annotations

import msgspec

from doctor.diagnose import Request, diagnose
from doctor.matrix import Matrix
from doctor.provision.driver.prepare import Asking, draft
from doctor.provision.order import Order, Prepared
from doctor.provision.plan import make_plan
from doctor.provision.survey import REMOTE_PYTHON, read_facts, read_state
from doctor.provision.variables import Means

MEANS = Means(python=REMOTE_PYTHON, wheels="", fetched=True)


def prepare_driver(order: Order, matrix: Matrix) -> Prepared:
    """Survey the machine and plan its driver. Raises UsageError or RemoteError."""
    facts = read_facts(order.target)
    asking = Asking(order.target, order.profile, order.host_lock, order.busy)
    order.say("asking the machine and its repositories for drivers")
    found = draft(asking, facts, matrix)
    state = read_state(order.target, found.goal)
    plan = make_plan(order.target.name, found.goal, state, MEANS, found.blockers)
    if found.blockers:
        plan = msgspec.structs.replace(plan, steps=found.rendered)
    count = sum(step.reboots for step in plan.steps)
    boots = [f"reboots: {count or 'none'}"] if plan.steps and not found.blockers else []
    plan = msgspec.structs.replace(plan, notes=(*plan.notes, *boots, *found.notes))
    diagnosis = diagnose(facts, matrix, Request(scopes=("host",)))
    return Prepared(order, None, facts, state, diagnosis, MEANS, plan)
