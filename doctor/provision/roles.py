"""What the roles say of themselves: which of them no test of this project has run."""

from __future__ import annotations

from functools import cache

import msgspec
import yaml

from doctor.provision.plan import Plan
from doctor.resources import resource

UNVERIFIED = "unverified"
# On whose devices a test runs engines in containers; "" is a goal of an older doctor.
_TRIED = frozenset({"cpu", ""})


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
    """The plan, with a note for what was never run by a test: roles, and engines on devices."""
    if not plan.steps:
        return plan
    notes = [
        f"{UNVERIFIED}: {step.name}: no test has run the vendor's own files by the role {step.role}"
        for step in plan.steps
        if step.role in unverified_roles()
    ]
    box = plan.goal.container
    if box is not None and box.vendor not in _TRIED:
        what = f"{plan.goal.engine} on {box.vendor} devices"
        notes.append(f"{UNVERIFIED}: no test of this project has run {what}")
    return msgspec.structs.replace(plan, notes=(*plan.notes, *notes))
