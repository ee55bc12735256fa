"""What stands in the way of a service is about the place where it will run, and no other."""

from __future__ import annotations

from doctor.facts import Facts, Package, Reading, Scope, Version
from doctor.matrix import load_matrix
from doctor.provision.order import judge_goal
from tests.provision.made import make_goal


def test_a_container_with_the_same_engine_is_not_judged() -> None:
    package = Package("xllamacpp", Version("2026.10.11549"))
    beside = Scope(
        id="container:c1",
        kind="container",
        packages=Reading(value=(package,), at="metadata"),
        shm_mib=Reading(value=64, at="df"),
    )
    host = Scope(id="host", kind="host", packages=Reading(value=(), at="metadata"))
    goal = make_goal(engine="xllamacpp", version="2026.10.11549")
    found = judge_goal(Facts(scopes=(beside, host)), goal, load_matrix())
    codes = {finding.code for target in found.targets for finding in target.findings}
    assert "HST171" not in codes, "the container's shared memory is small, not the host's"
