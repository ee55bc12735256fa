"""vLLM and MindIE on recorded machines with NPUs: locked, planned, rendered; never run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.cli.main import run
from doctor.errors import DoctorError, UsageError
from doctor.facts import ContainerEngine, Facts, Version, seen
from doctor.findings import Severity
from doctor.intake.snapshot import read_snapshot
from doctor.matrix import load_matrix
from doctor.profile.lock import Lock
from doctor.profile.read import find_profile, parse_profile
from doctor.profile.schema import Profile
from doctor.provision.container_site import engine_there
from doctor.provision.goal import SYSTEM, SYSTEMD, FileRecord, Goal, Model
from doctor.provision.locks import lock_profile
from doctor.provision.order import judge_goal
from doctor.provision.plan import make_plan
from doctor.provision.roles import with_unverified
from doctor.provision.service import Site, service_goal
from doctor.provision.wanted_devices import other_devices
from doctor.smoke.launch import LaunchError
from tests.provision.made import MEANS, bare_state

MATRIX = load_matrix()
DIGEST = "sha256:" + "b" * 64
HWHIAIUSER = 1000
NEWER = f"swr.cn-south-1.myhuaweicloud.com/ascendhub/mindie:3.0.0-800I-A2@{DIGEST}"
NODES = ("/dev/davinci_manager", "/usr/local/Ascend/driver/lib64", "/usr/local/sbin/npu-smi")
GROUPS = dict.fromkeys(NODES, HWHIAIUSER)


def recorded(host: str, *runtimes: str) -> Facts:
    """A recorded machine, with a docker beside what was recorded."""
    path = Path("tests/hosts", host, "facts.json")
    engine = ContainerEngine("docker", seen(Version("27.3.1")), seen(runtimes, "daemon.json"))
    facts = read_snapshot(path.read_text(), str(path))
    return replace(facts, container_engine=seen(engine, "/usr/bin/docker"))


def profile_of(name: str, **changes: Any) -> Profile:
    """A shipped profile by digest, so that no registry is asked, with changes."""
    data = json.loads(json.dumps(msgspec.to_builtins(find_profile(name))))
    data["install"]["image"] += f"@{DIGEST}"
    data["model"] = {"source": "path", "id": "/srv/models/model"}
    for place, value in changes.items():
        table, _, key = place.partition("__")
        data[table][key] = value
    return parse_profile(json.dumps(data), name)


def locked(profile: Profile) -> Lock:
    return lock_profile(profile, "", "aarch64-linux", MATRIX)


def goal_on(profile: Profile, facts: Facts, groups: dict[str, int] | None = None) -> Goal:
    """The service on a machine where doctor is root."""
    there = engine_there(facts, {"docker": "/usr/bin/docker"}, MATRIX, False)
    home = f"/opt/doctor/{profile.name}"
    site = Site(SYSTEM, home, SYSTEMD, "/etc/systemd/system", 0, there, groups or GROUPS)
    model = Model(profile.model.id, {"config.json": FileRecord(1, "0" * 64)})
    return service_goal(profile, locked(profile), site, model, MATRIX)


def has(goal: Goal, *words: str) -> bool:
    argv = goal.argv
    return any(argv[at : at + len(words)] == words for at in range(len(argv)))


def settings_of(goal: Goal) -> Any:
    """The file that MindIE reads, as it lies in the release."""
    assert goal.release is not None
    (file,) = [file for file in goal.release.files if file.path == "config.json"]
    assert file.mode == 0o640, "MindIE refuses what others may read"
    return json.loads(file.text)


@pytest.mark.parametrize("host", ["ascend-910b3x8", "ascend-firmware-too-new", "ascend-310p3"])
@pytest.mark.parametrize("name", ["vllm-ascend", "mindie-ascend"])
def test_shipped_profiles_are_planned_on_recorded_hosts_and_say_unverified(
    name: str, host: str
) -> None:
    profile, facts = profile_of(name), recorded(host)
    goal = goal_on(profile, facts)
    plan = with_unverified(make_plan("local", goal, bare_state(goal), MEANS))
    assert [step.name for step in plan.steps] == ["make_release", "switch_service", "verify"]
    said = f"unverified: no test of this project has run {goal.engine} on ascend devices"
    assert said in plan.notes


@pytest.mark.parametrize(
    ("name", "host", "code"),
    [
        ("vllm-ascend", "ascend-910b3x8", ""),
        ("vllm-ascend", "ascend-firmware-too-new", "NPU103"),
        ("vllm-ascend", "ascend-310p3", "NPU402"),
        ("mindie-ascend", "ascend-910b3x8", ""),
        ("mindie-ascend", "ascend-firmware-too-new", "NPU103"),
    ],
)
def test_the_one_judge_stands_in_the_way(name: str, host: str, code: str) -> None:
    facts = recorded(host)
    (target,) = judge_goal(facts, goal_on(profile_of(name), facts), MATRIX).targets
    errors = {finding.code for finding in target.findings if finding.severity is Severity.ERROR}
    assert (code in errors) if code else not errors


@pytest.mark.parametrize(
    ("host", "changes", "says"),
    [
        ("ascend-910b3x8", {}, ""),
        ("ascend-910b3x8", {"accelerator__count": 9}, "wants 9 ascend devices, 8 are there"),
        ("ascend-310p3", {}, "for A2, this machine has 310P"),
        ("h200x8-fabricmanager", {}, ""),
    ],
)
def test_devices_are_those_of_the_profile(host: str, changes: dict[str, Any], says: str) -> None:
    found = list(other_devices(profile_of("mindie-ascend", **changes), recorded(host), MATRIX))
    assert (says in found[0]) if says else not found


@pytest.mark.real
@pytest.mark.parametrize("name", ["vllm-ascend", "mindie-ascend"])
def test_the_resolver_names_the_image_of_the_shipped_profile(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = find_profile(name)
    run(["resolve", profile.engine.name, "--facts", "tests/hosts/ascend-910b3x8/facts.json"])
    assert profile.install.image in capsys.readouterr().out.replace("\n", " ")


@pytest.mark.parametrize("name", ["vllm-ascend", "mindie-ascend"])
def test_devices_come_by_node_and_the_engine_is_in_their_group(name: str) -> None:
    goal = goal_on(profile_of(name, accelerator__count=2), recorded("ascend-910b3x8"))
    for node in ("davinci_manager", "devmm_svm", "hisi_hdc", "davinci0", "davinci1"):
        assert has(goal, "--device", f"/dev/{node}")
    assert has(goal, "--user", "0:0")
    assert has(goal, "--group-add", str(HWHIAIUSER))
    assert goal.container is not None
    assert goal.container.inspected["groups"] == [str(HWHIAIUSER)]
    mounted = {source for source, _, _ in goal.container.inspected["mounts"]}
    assert "/usr/local/sbin/npu-smi" in mounted
    assert "/usr/local/bin/npu-smi" not in mounted, "it is not there"


def test_the_vendors_runtime_is_used_where_it_is_registered() -> None:
    profile = profile_of("vllm-ascend", accelerator__count=2)
    goal = goal_on(profile, recorded("ascend-910b3x8", "runc", "ascend"))
    assert has(goal, "--runtime", "ascend")
    assert has(goal, "--env", "ASCEND_VISIBLE_DEVICES=0,1")
    assert not has(goal, "--device", "/dev/davinci0")
    chosen = profile_of("vllm-ascend", accelerator__count=2, install__device_ids=["4", "6"])
    goal = goal_on(chosen, recorded("ascend-910b3x8", "ascend"))
    assert has(goal, "--env", "ASCEND_VISIBLE_DEVICES=4,6")


def test_the_image_s_own_entry_point_sets_the_paths_of_cann() -> None:
    goal = goal_on(profile_of("vllm-ascend"), recorded("ascend-910b3x8"))
    assert "--entrypoint" not in goal.argv
    at = goal.argv.index(f"quay.io/ascend/vllm-ascend@{DIGEST}")
    assert goal.argv[at + 1 : at + 4] == ("vllm", "serve", "/model/model")


def test_mindie_gets_its_settings_in_a_file_and_none_on_the_command_line() -> None:
    profile = profile_of("mindie-ascend", accelerator__count=4)
    goal = goal_on(profile, recorded("ascend-910b3x8"))
    found = settings_of(goal)
    server, backend = found["ServerConfig"], found["BackendConfig"]
    assert (server["ipAddress"], server["port"], server["httpsEnabled"]) == (
        "127.0.0.1", 1025, False,
    )  # fmt: skip
    assert server["allowAllZeroIpListening"] is False
    assert backend["npuDeviceIds"] == [[0, 1, 2, 3]]
    deployed = backend["ModelDeployConfig"]
    assert (deployed["maxSeqLen"], deployed["maxInputTokenLen"]) == (8192, 6144)
    assert backend["ScheduleConfig"]["maxIterTimes"] == 2048
    (model,) = deployed["ModelConfig"]
    assert (model["modelName"], model["modelWeightPath"], model["worldSize"]) == (
        "model", "/model/model", 4,
    )  # fmt: skip
    assert goal.argv[-1].endswith("/mindieservice_daemon")
    assert has(goal, "--env", "MIES_CONFIG_JSON_PATH=/doctor/config.json")
    assert goal.release is not None
    source = f"/opt/doctor/mindie-ascend/releases/{goal.release.name}/config.json"
    mount = f"type=bind,source={source},target=/doctor/config.json,readonly"
    assert has(goal, "--mount", mount)
    assert "--init" in goal.argv
    assert goal.health == "/v1/models"


def test_another_setting_is_another_release() -> None:
    facts = recorded("ascend-910b3x8")
    one = goal_on(profile_of("mindie-ascend"), facts)
    other = profile_of("mindie-ascend", serving__args={"tls": "false", "max_model_len": "4096"})
    assert one.release
    assert goal_on(other, facts).release != one.release


def test_in_a_network_of_its_own_it_may_listen_on_all_addresses() -> None:
    profile = profile_of("mindie-ascend", install__network="bridge")
    server = settings_of(goal_on(profile, recorded("ascend-910b3x8")))["ServerConfig"]
    assert (server["ipAddress"], server["allowAllZeroIpListening"]) == ("0.0.0.0", True)  # noqa: S104


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"serving__args": {"tensor_parallel_size": "8"}}, "needs as many devices, not 1"),
        ({"accelerator__count": 0}, "accelerator.count"),
        ({"serving__args": {"gpu_memory_utilization": "0.9"}}, "NPU_MEMORY_FRACTION"),
        ({"serving__args": {"max_num_seqs": "4"}}, "max_batch_size"),
        ({"serving__args": {"tls": "perhaps"}}, "nothing that it takes"),
        ({"serving__port": 80}, "nothing that it takes"),
        ({"serving__api_key": "file:/run/key"}, "takes no key"),
        ({"serving__args": {"unheard_of": "1"}}, "nothing like it"),
        ({"engine__version": "==3.0", "install__image": NEWER}, "images of known versions alone"),
    ],
)
def test_what_mindie_would_choke_on_is_refused_before_it_starts(
    changes: dict[str, Any], says: str
) -> None:
    with pytest.raises((UsageError, LaunchError)) as fault:
        goal_on(profile_of("mindie-ascend", **changes), recorded("ascend-910b3x8"))
    assert says in f"{fault.value} {fault.value.hint}"


PRINTED = st.text(st.characters(blacklist_categories=["Cs", "Cc", "Cf", "Zl", "Zp"]), max_size=60)
PLAIN = profile_of("mindie-ascend")
MACHINE = recorded("ascend-910b3x8")
SHAPE = goal_on(PLAIN, MACHINE)


def skeleton(node: Any) -> Any:
    """Keys and kinds of a JSON value, without its texts and numbers."""
    if isinstance(node, dict):
        return {key: skeleton(value) for key, value in node.items()}
    return [skeleton(item) for item in node] if isinstance(node, list) else type(node).__name__


@given(PRINTED, st.sampled_from(["name", "max_model_len", "tls", "host"]))
def test_any_value_stays_data_in_the_file_or_is_refused(text: str, place: str) -> None:
    serving = PLAIN.serving
    args = dict(serving.args)
    if place in ("max_model_len", "tls"):
        args[place] = text
    named = text if place == "name" else serving.name
    changed = msgspec.structs.replace(serving, name=named, args=args)
    try:
        goal = goal_on(msgspec.structs.replace(PLAIN, serving=changed), MACHINE)
    except DoctorError:
        return
    assert skeleton(settings_of(goal)) == skeleton(settings_of(SHAPE))
    own = [word for word in goal.argv if word not in SHAPE.argv]
    assert all("/releases/" in word for word in own), "nothing of it is on the command line"
