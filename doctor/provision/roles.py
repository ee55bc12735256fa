"""What the roles say of themselves: which of them no test of this project has run."""

from __future__ import annotations

from functools import cache

import msgspec
import yaml

from doctor.provision.plan import Plan
from doctor.resources import resource

UNVERIFIED = "unverified"


@cache
def unverified_roles() -> frozenset[str]:
    """Roles whose meta carries the tag `unverified`: nothing here could run them."""
    found = set()
    for path in resource("playbooks", "roles").glob("*/meta/main.yml"):
        meta = yaml.safe_load(path.read_text(encoding="utf-8"))
        if UNVERIFIED in meta["galaxy_info"].get("galaxy_tags", []):
            found.add(path.parent.parent.name)
    return frozenset(found)


def with_unverified(plan: Plan) -> Plan:
    """The plan, with a note for each step whose role was never run by a test."""
    if not plan.steps:
        return plan
    notes = tuple(
        f"{step.name}: no test of this project has run the role {step.role}"
        for step in plan.steps
        if step.role in unverified_roles()
    )
    return msgspec.structs.replace(plan, notes=(*plan.notes, *notes))
