"""The words that run a container, and what is compared with them. Pure."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.errors import UsageError
from doctor.facts import ContainerEngine, Facts, Missing, Version, missing, seen
from doctor.facts.host import OsRelease
from doctor.matrix import load_matrix
from doctor.profile.lock import SCHEMA, Lock
from doctor.profile.read import builtin_names, find_profile, parse_profile
from doctor.profile.schema import DriftTimer, Profile
from doctor.provision.container_site import EngineThere, engine_there
from doctor.provision.drift import compare
from doctor.provision.goal import SYSTEM, SYSTEMD, Container, FileRecord, Goal, Model, Release
from doctor.provision.plan import make_plan
from doctor.provision.service import Site, service_goal
from doctor.provision.survey import probe_module
from doctor.provision.variables import Means
from tests.provision.made import MEANS, make_goal, state_of

MATRIX = load_matrix()
DIGEST = "sha256:" + "a" * 64
PROFILE = """\
schema: doctor/profile/v1
name: boxed
engine: {name: vllm, version: '==0.33.0'}
accelerator: {vendor: nvidia, count: 2}
install: {method: container, image: 'vllm/vllm-openai:v0.33.0'}
model: {source: path, id: /srv/models/m}
serving: {port: 8000, host: 10.0.0.1}
"""


def profile_of(**changes: Any) -> Profile:
    data = json.loads(json.dumps(msgspec.to_builtins(parse_profile(PROFILE, "p"))))
    for place, value in changes.items():
        table, _, key = place.partition("__")
        data[table][key] = value
    return parse_profile(json.dumps(data), "p")


def goal_of(
    profile: Profile, client: str = "/usr/bin/docker", uid: int = 0, rootless: bool = False
) -> Goal:
    name, _, tag = profile.install.image.rpartition(":")
    lock = Lock(schema=SCHEMA, profile=profile.name, engine=profile.engine.name,
                version=profile.engine.version.lstrip("=") or "", image=f"{name}@{DIGEST}",
                tag=tag)  # fmt: skip
    site = Site(SYSTEM, f"/opt/doctor/{profile.name}", SYSTEMD, "/etc/systemd/system", uid,
                EngineThere((client,), is_rootless=rootless))  # fmt: skip
    model = Model(profile.model.id or "/m", {"": FileRecord(1, "0" * 64)})
    return service_goal(profile, lock, site, model, MATRIX)


def has(goal: Goal, *words: str) -> bool:
    """Whether the words stand in the command line, side by side."""
    argv = goal.argv
    return any(argv[at : at + len(words)] == words for at in range(len(argv)))


def test_an_engine_runs_without_rights_on_files_that_it_cannot_change() -> None:
    goal = goal_of(profile_of())
    assert has(goal, "--user", "10001:10001")
    assert has(goal, "--cap-drop", "ALL")
    assert has(goal, "--security-opt", "no-new-privileges")
    assert "--read-only" in goal.argv
    assert has(goal, "--publish", "10.0.0.1:8000:8000")
    assert has(goal, "--stop-signal", "SIGTERM")
    assert has(goal, "--mount", "type=bind,source=/srv/models/m,target=/model/m,readonly")
    at = goal.argv.index(f"vllm/vllm-openai@{DIGEST}")
    assert goal.argv[at + 1 : at + 3] == ("serve", "/model/m")
    assert has(goal, "--entrypoint", "vllm")
    assert has(goal, "--host", "0.0.0.0")  # noqa: S104
    assert (goal.account, goal.owner) == ("", "10001")


@pytest.mark.parametrize(
    ("vendor", "count", "client", "words"),
    [
        ("nvidia", 2, "docker", ("--gpus", "2")),
        ("nvidia", 0, "docker", ("--gpus", "all")),
        ("nvidia", 2, "podman", ("--device", "nvidia.com/gpu=1")),
        ("nvidia", 0, "podman", ("--device", "nvidia.com/gpu=all")),
        ("amd", 1, "docker", ("--device", "/dev/kfd")),
        ("ascend", 2, "docker", ("--device", "/dev/davinci1")),
    ],
)
def test_devices_are_shown_as_the_vendor_says(
    vendor: str, count: int, client: str, words: tuple[str, ...]
) -> None:
    goal = goal_of(
        profile_of(accelerator__vendor=vendor, accelerator__count=count), f"/usr/bin/{client}"
    )
    assert has(goal, *words)


def test_devices_can_be_chosen_where_the_vendor_has_a_way() -> None:
    goal = goal_of(profile_of(install__device_ids=["1", "3"]))
    assert has(goal, "--gpus", '"device=1,3"')
    with pytest.raises(UsageError, match="one by one"):
        goal_of(profile_of(install__device_ids=["1"], accelerator__vendor="amd"))
    with pytest.raises(UsageError, match="not known"):
        goal_of(profile_of(accelerator__vendor="apple"))
    with pytest.raises(UsageError, match="count is missing"):
        goal_of(profile_of(accelerator__vendor="ascend", accelerator__count=0))


def test_a_profile_decides_user_network_and_memory() -> None:
    goal = goal_of(
        profile_of(install__user="0", install__network="host", install__shm_gib=2,
                   install__read_only="false")
    )  # fmt: skip
    assert has(goal, "--user", "0:0")
    assert has(goal, "--network", "host")
    assert has(goal, "--host", "10.0.0.1")
    assert has(goal, "--shm-size", str(2 << 30))
    assert "--read-only" not in goal.argv
    assert "--publish" not in goal.argv
    assert has(goal_of(profile_of(), uid=1000), "--user", "1000:1000")
    assert has(goal_of(profile_of(), uid=1000, rootless=True), "--user", "0:0")


def test_a_key_is_named_and_not_given() -> None:
    goal = goal_of(profile_of(serving__api_key="file:/run/key"))
    assert has(goal, "--env", "VLLM_API_KEY")
    assert not any(word.startswith("VLLM_API_KEY=") for word in goal.argv)
    config = json.loads(goal.files[0].text)
    assert config["secrets"] == {"VLLM_API_KEY": "credential:api-key"}
    unit = goal.files[1].text
    assert "LoadCredential=api-key:/run/key" in unit
    assert "run_service.py tidy" in unit


@given(st.text(st.characters(blacklist_categories=["Cs", "Cc", "Cf", "Zl", "Zp"]), max_size=60))
def test_any_value_stays_one_word(value: str) -> None:
    plain = profile_of()
    serving = msgspec.structs.replace(plain.serving, env={"EVIL": value})
    goal = goal_of(msgspec.structs.replace(plain, serving=serving))
    at = goal.argv.index(f"EVIL={value}")
    assert goal.argv[at - 1] == "--env"


@pytest.mark.parametrize(
    "name", [n for n in builtin_names() if find_profile(n).install.method == "container"]
)
def test_each_shipped_profile_of_a_container_has_a_command_line(name: str) -> None:
    profile = find_profile(name)
    goal = goal_of(profile)
    assert goal.argv[:2] == ("/usr/bin/docker", "run")
    assert any(word.endswith(f"@{DIGEST}") for word in goal.argv)
    assert goal.proof_s == profile.smoke.timeout_s


@pytest.mark.parametrize("client", ["docker", "podman"])
def test_units_are_held_unless_their_client_makes_the_container(client: str) -> None:
    profile = msgspec.structs.replace(profile_of(), drift_timer=DriftTimer())
    goal = goal_of(profile, f"/usr/bin/{client}")
    files = [*goal.files, *(file for extra in goal.extras for file in extra.files)]
    units = [file.text for file in files if file.path.endswith(".service")]
    assert len(units) == 2
    assert {"ProtectSystem=strict" in text for text in units} == {client == "docker"}


def test_what_inspect_says_is_held_against_what_was_asked() -> None:
    goal = goal_of(profile_of())
    assert goal.container is not None
    wanted = goal.container.inspected
    says = {
        "Config": {"Image": wanted["image"], "Cmd": wanted["command"], "User": wanted["user"]},
        "HostConfig": {
            "ReadonlyRootfs": True,
            "CapDrop": ["ALL"],
            "NetworkMode": "default",
            "PortBindings": wanted["ports"],
            "Mounts": [{"Source": s, "Target": t, "ReadOnly": r} for s, t, r in wanted["mounts"]],
            "ShmSize": wanted["shm"],
        },
    }
    described = probe_module().described(says)
    assert {key: described[key] for key in wanted} == wanted


BOX = Container(("/usr/bin/docker",), "doctor-demo-1", f"i@{DIGEST}", {"user": "1:1"})


def boxed_goal() -> Goal:
    release = Release("aaaa", "", "x86_64-linux", "", image=BOX.image)
    return make_goal(release=release, container=BOX)


@pytest.mark.parametrize(
    ("change", "kinds", "steps"),
    [
        ({}, set(), []),
        ({"image": ("not there",)}, {"image"}, ["make_release", "verify"]),
        ({"container": ("user is 0",)}, {"container"}, ["switch_service", "verify"]),
        ({"releases": ()}, set(), ["make_release", "verify"]),
    ],
)
def test_image_and_container_are_part_of_the_one_plan(
    change: dict[str, Any], kinds: set[str], steps: list[str]
) -> None:
    goal = boxed_goal()
    state = state_of(goal, **change)
    plan = make_plan("local", goal, state, MEANS)
    assert [step.name for step in plan.steps] == steps
    assert {difference.kind for difference in compare(goal, state)} == kinds
    switched = [step for step in plan.steps if step.name == "switch_service"]
    assert all(step.variables["service_again"] for step in switched)


def test_an_engine_is_installed_only_where_none_is() -> None:
    goal = boxed_goal()
    means = msgspec.structs.replace(MEANS, engine_packages=("docker.io",))
    step = make_plan("local", goal, state_of(goal), means).steps[0]
    assert (step.name, step.role, step.undo) == (
        "install_container_engine", "container_engine", "none",
    )  # fmt: skip
    assert isinstance(means, Means)


def facts_of(engine: Any, system: str = "debian") -> Facts:
    from dataclasses import replace

    facts = Facts(container_engine=engine)
    release = OsRelease(id=system, version="12")
    return replace(facts, host=replace(facts.host, os=seen(release)))


DOCKER = ContainerEngine(name="docker", version=seen(Version("20.10")))
SILENT = ContainerEngine(name="docker", version=missing(Missing.NOT_PERMITTED, "/run/docker.sock"))
PODMAN = ContainerEngine(name="podman")
NONE = missing(Missing.NOT_THERE)


@pytest.mark.parametrize(
    ("engine", "programs", "user", "host", "client", "lacking"),
    [
        (seen(DOCKER), {"docker": "/x/docker"}, True, "", ("/x/docker",), ""),
        (seen(DOCKER), {"docker": "/x/docker"}, True, "unix:///s",
         ("/x/docker", "--host", "unix:///s"), ""),
        (seen(DOCKER), {"docker": "/x/docker"}, True, "tcp://h:1", (), "another machine"),
        (seen(SILENT), {"docker": "/x/docker"}, True, "", ("/x/docker",), "does not answer"),
        (seen(PODMAN), {"podman": "/x/podman"}, True, "", ("/x/podman",), ""),
        (seen(ContainerEngine(name="containerd")), {}, False, "", (), "containerd is there"),
        (NONE, {}, True, "", (), "no container engine"),
        (NONE, {}, False, "", ("/usr/bin/docker",), ""),
        (missing(Missing.NOT_PERMITTED), {}, False, "", (), "not known"),
    ],
)  # fmt: skip
def test_an_engine_of_another_source_is_never_replaced(
    engine: Any,
    programs: dict[str, str],
    user: bool,
    host: str,
    client: tuple[str, ...],
    lacking: str,
) -> None:
    found = engine_there(facts_of(engine), programs, MATRIX, user, host)
    assert found.client == client
    assert (lacking in found.lacking) if lacking else not found.lacking
    assert bool(found.packages) == (engine is NONE and not user)


def test_nothing_is_guessed_for_an_unknown_distribution() -> None:
    found = engine_there(facts_of(NONE, "plan9"), {}, MATRIX, False)
    assert found.lacking
    assert not found.packages
