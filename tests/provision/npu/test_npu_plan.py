"""Driver, firmware, CANN and runtime of NPUs, planned on recorded machines. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml

from doctor.errors import UsageError
from doctor.facts import seen
from doctor.profile.read import find_profile, parse_profile
from doctor.provision.asked import Asked
from doctor.provision.goal import goal_text, parse_goal
from doctor.provision.noted import goal_before
from doctor.provision.npu.drift import differences
from doctor.provision.npu.ordering import MEANS, npu_proof
from doctor.provision.npu.sets import KINDS, NpuPart, NpuState
from doctor.provision.plan import make_plan
from doctor.provision.step import Step
from doctor.resources import resource
from tests.provision.npu.made import HASHES, VERSIONS, facts_of, planned, profile_of, state_with
from tests.provision.test_hostile import EVIL

BOARD, CARD = "ascend-910b3x8", "ascend-310p3"
BARE = "h200x8-fabricmanager"


def fits_its_role(step: Step) -> None:
    path = resource("playbooks", "roles", step.role, "meta", "argument_specs.yml")
    specs: dict[str, Any] = yaml.safe_load(path.read_text())["argument_specs"]["main"]["options"]
    assert step.variables.keys() <= specs.keys(), step.name
    assert {n for n, o in specs.items() if o.get("required")} <= step.variables.keys()


@pytest.mark.parametrize("host", [BOARD, BARE])
def test_a_filled_in_profile_becomes_steps_that_say_unverified(host: str) -> None:
    plan = planned(profile_of(), facts_of(host), devices=8)
    assert not [b for b in plan.blockers if "aarch64" not in b]
    names = [step.name for step in plan.steps]
    assert names == [
        "install_npu_driver", "install_cann", "install_npu_runtime", "note_applied", "verify",
    ]  # fmt: skip
    for step in plan.steps[:-1]:
        fits_its_role(step)
    for role in ("ascend_driver", "ascend_cann", "ascend_container_runtime"):
        assert any(note.startswith("unverified: ") and note.endswith(role) for note in plan.notes)
    assert {step.undo for step in plan.steps[:3]} == {"none"}
    assert plan.steps[0].reboots
    assert "reboots: 1" in plan.notes


def test_a_first_driver_goes_before_its_firmware_and_an_upgrade_after_it() -> None:
    first = planned(profile_of(), facts_of(BARE)).steps[0]
    assert first.title == "install driver 25.5.1, then firmware 7.8.0.2.212"
    assert first.variables["ascend_driver_first"] is True
    later = planned(profile_of(), facts_of(BOARD)).steps[0]
    assert later.title == "install firmware 7.8.0.2.212, then driver 25.5.1"
    assert later.variables["ascend_driver_first"] is False
    assert "driver is 25.2.0" in later.reason


def test_only_what_differs_is_installed() -> None:
    same = profile_of("driver", "toolkit", driver={"version": "25.2.0"})
    (cann, *_) = planned(same, facts_of(BOARD)).steps
    assert cann.name == "install_cann"
    assert [row["version"] for row in cann.variables["ascend_cann_installers"]] == ["9.0.0"]
    whole = planned(profile_of("ops"), facts_of(BOARD), versions={"ops": "9.0.0"})
    assert [step.name for step in whole.steps] == ["note_applied", "verify"]
    firmware = planned(profile_of("firmware"), facts_of(BOARD)).steps[0]
    assert firmware.variables["ascend_driver_installer"] == ""


@pytest.mark.parametrize(
    ("platform", "kinds", "note"),
    [
        ("vm", ["install driver 25.5.1"], "the firmware is the host's"),
        ("container", [], "driver and firmware are the host's"),
    ],
)
def test_what_belongs_to_the_host_is_left_to_it(platform: str, kinds: list[str], note: str) -> None:
    facts = facts_of(BOARD)
    facts = replace(facts, host=replace(facts.host, platform=seen(platform, "x")))
    plan = planned(profile_of("driver", "firmware"), facts)
    assert [step.title for step in plan.steps if step.role == "ascend_driver"] == kinds
    assert any(note in text for text in plan.notes)


@pytest.mark.parametrize(
    ("host", "changes", "state", "says"),
    [
        (BOARD, {"driver": {"sha256": ""}}, {}, "ascend.driver needs the version"),
        (BOARD, {"driver": {"version": ""}}, {}, "ascend.driver needs the version"),
        (BOARD, {}, {"hashes": {}}, "is not there: fetch it from the vendor"),
        (BOARD, {"ops": {"sha256": "0" * 64}}, {"hashes": {"/srv/ascend/ops_linux-aarch64.run":
         "f" * 64}}, "not the one of the profile"),
        (BOARD, {}, {"users": ("python3",)}, "programs use the NPUs: python3"),
        (BOARD, {}, {"versions": {}}, "driver that is there cannot be read"),
        (CARD, {}, {}, "is for aarch64, the machine is x86_64"),
    ],
)  # fmt: skip
def test_what_stands_in_the_way(
    host: str, changes: dict[str, Any], state: dict[str, Any], says: str
) -> None:
    plan = planned(profile_of(**changes), facts_of(host), **state)
    assert any(says in blocker for blocker in plan.blockers), plan.blockers
    assert plan.steps, "what would be done is shown all the same"


def test_the_shipped_profile_says_what_a_person_must_fill_in() -> None:
    plan = planned(find_profile("ascend-driver"), facts_of(BOARD), hashes={})
    assert {b.split()[0] for b in plan.blockers} >= {f"ascend.{kind}" for kind in KINDS}
    assert [step.role for step in plan.steps][:3] == [
        "ascend_driver", "ascend_cann", "ascend_container_runtime",
    ]  # fmt: skip


def test_a_goal_is_kept_and_read_back() -> None:
    goal = planned(profile_of(), facts_of(BOARD)).goal
    assert parse_goal(goal_text(goal), "x") == goal
    assert not goal.is_nothing


def test_what_was_there_before_cannot_be_had_back_and_rollback_says_so() -> None:
    plan = planned(profile_of("driver", "ops"), facts_of(BOARD))
    was = NpuState(versions={"driver": "25.2.0", "ops": ""})
    before = goal_before(plan.goal, state_with(plan, was))
    assert make_plan("local", before, state_with(plan, was), MEANS).is_empty
    now = NpuState(versions={"driver": "25.5.1", "ops": "9.0.0"})
    back = make_plan("local", before, state_with(plan, now), MEANS)
    assert any("driver was 25.2.0, and installers cannot be undone" in b for b in back.blockers)
    assert any("ops was not there" in b for b in back.blockers)


def test_drift_and_proof_go_by_what_the_machine_says() -> None:
    facts = facts_of(BOARD)
    plan = planned(profile_of("driver", "toolkit"), facts)
    assert plan.goal.npu is not None
    good = NpuState(versions={"driver": "25.5.1", "toolkit": "9.0.0"}, devices=8)
    assert list(differences(plan.goal, state_with(plan, good))) == []
    shown, words = npu_proof(plan.goal.npu, facts, state_with(plan, good))
    assert (shown, "8 NPUs" in words) == (True, True)
    none = NpuState(versions=good.versions)
    assert "only in part" in npu_proof(plan.goal.npu, facts, state_with(plan, none))[1]
    old = NpuState(versions={"driver": "25.2.0"}, devices=8)
    rows = {(kind, subject) for kind, subject, _ in differences(plan.goal, state_with(plan, old))}
    assert rows == {("npu", "driver"), ("npu", "toolkit")}
    assert npu_proof(plan.goal.npu, facts, state_with(plan, old))[0] is False
    ascend = replace(facts.ascend, compatibility=seen("NOK", "npu-smi"))
    apart = replace(facts, ascend=ascend)
    assert npu_proof(plan.goal.npu, apart, state_with(plan, good))[0] is False


@pytest.mark.parametrize(
    ("there", "wanted", "same"),
    [
        ("25.5.1", "25.5.1", True), ("25.5.1", "25.5.0", False), ("", "25.5.1", False),
        ("", "", True), ("24.1.rc3", "24.1.RC3", True), ("25.5.1", "", False),
        (None, "25.5.1", False), (None, "", False),
    ],
)  # fmt: skip
def test_versions_of_parts(there: str | None, wanted: str, same: bool) -> None:
    state = NpuState(versions={} if there is None else {"driver": there})
    assert state.has(NpuPart(kind="driver", version=wanted)) is same


def test_the_driver_of_a_profile_with_npus_is_theirs() -> None:
    assert Asked("ascend-driver").wants_driver
    assert Asked("ascend-driver").service == "ascend-driver"
    assert Asked("vllm-ascend", driver=True).service == "ascend-driver"
    assert Asked("vllm-nvidia", driver=True).service == "nvidia-driver"
    assert not Asked("vllm-ascend").wants_driver


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("accelerator: {vendor: nvidia}\nascend: {driver: {path: /a.run}}", "vendor ascend"),
        ("accelerator: {vendor: ascend}\ndriver: {policy: install}", "names no installer"),
        ("accelerator: {vendor: ascend}\ndriver: {policy: install, branch: 580}\n"
         "ascend: {driver: {path: /a.run}}", "NVIDIA's"),
        ("accelerator: {vendor: ascend}\ndriver: {policy: install}\n"
         "ascend: {driver: {path: /srv/../etc/a.run}}", "climb"),
    ],
)  # fmt: skip
def test_contradictions_are_refused(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse_profile(f"schema: doctor/profile/v1\nname: x\n{text}\n", "p.yaml")


@pytest.mark.parametrize("key", ["path", "version", "sha256"])
def test_hostile_values_are_refused(key: str) -> None:
    for text in EVIL:
        with pytest.raises(UsageError):
            profile_of("driver", driver={key: text})


def test_every_part_has_a_version_and_a_hash_of_its_own() -> None:
    assert VERSIONS.keys() == HASHES.keys() == set(KINDS)
