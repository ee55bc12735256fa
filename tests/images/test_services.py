"""Compose files and Kubernetes objects: valid by their schemas, and what the profile says."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.errors import UsageError
from doctor.examine import Sources
from doctor.profile.lock import Lock, write_lock
from doctor.profile.read import find_profile, parse_profile
from doctor.profile.schema import Profile
from doctor.report import Style
from doctor.report.emit_services import of_profile
from doctor.resolving import Question, render, resolve_for

SCHEMAS = Path(__file__).parent / "schemas"
DIGEST = "@sha256:" + "cd" * 32
SERVED = ("vllm-nvidia-container", "tgi-nvidia", "tensorrt-llm-nvidia", "vllm-ascend", "vllm-rocm")
# A user without a line in the image's passwd ends its collectives.
MUST_BE_ROOT = ("vllm-ascend",)
KINDS = {"Deployment": "io.k8s.api.apps.v1.Deployment", "Service": "io.k8s.api.core.v1.Service"}


@cache
def validator(kind: str) -> Any:
    """Reading a schema takes longer than using it."""
    if kind == "compose":
        return jsonschema.Draft7Validator(json.loads((SCHEMAS / "compose-spec.json").read_text()))
    known = json.loads((SCHEMAS / "kubernetes-1.33.json").read_text())
    return jsonschema.Draft202012Validator({"$ref": f"#/$defs/{KINDS[kind]}", **known})


def compose(text: str) -> Any:
    """The file, held against the Compose specification."""
    data = yaml.safe_load(text)
    validator("compose").validate(data)
    return data


def objects(text: str) -> dict[str, Any]:
    """The objects by kind, held against the strict schemas of Kubernetes."""
    found = {item["kind"]: item for item in yaml.safe_load_all(text)}
    for kind, item in found.items():
        validator(kind).validate(item)
    return found


@pytest.mark.parametrize("name", SERVED)
def test_shipped_profiles_as_compose(name: str) -> None:
    profile = find_profile(name)
    data = compose(of_profile(profile, "", "compose"))
    service = data["services"][name]
    assert service["image"] == profile.install.image
    is_root = service["user"].partition(":")[0] in ("0", "root")
    assert is_root == (name in MUST_BE_ROOT)
    assert int(service["shm_size"]) >= 1 << 30
    assert service["healthcheck"]["start_period"] == f"{profile.service.start_s}s"
    assert f"{profile.serving.port}" in " ".join(service["command"])
    assert service["ports"] == [f"127.0.0.1:{profile.serving.port}:{profile.serving.port}"]


@pytest.mark.parametrize("name", SERVED)
def test_shipped_profiles_as_kubernetes_objects(name: str) -> None:
    profile = find_profile(name)
    pod = objects(of_profile(profile, "", "k8s"))["Deployment"]["spec"]["template"]["spec"]
    engine = pod["containers"][0]
    assert engine["image"] == profile.install.image
    assert list(engine["resources"]["limits"].values()) == [str(max(profile.accelerator.count, 1))]
    assert engine["startupProbe"]["failureThreshold"] * 10 >= profile.service.start_s - 10
    assert {v["name"]: v.get("emptyDir") for v in pod["volumes"]}["shm"]["medium"] == "Memory"
    assert pod["securityContext"]["runAsNonRoot"] is (name not in MUST_BE_ROOT)


def test_devices_of_a_group_are_reached_without_more_rights_than_needed() -> None:
    profile = find_profile("vllm-ascend")
    text = of_profile(profile, "", "compose")
    service = compose(text)["services"][profile.name]
    assert service["group_add"] == ["${DEVICE_GROUP:?}"]
    assert service["cap_drop"] == ["ALL"]
    assert "stat -c %g /dev/davinci_manager" in text
    for name, added in (("vllm-ascend", ["DAC_OVERRIDE"]), ("tgi-nvidia", None)):
        pod = objects(of_profile(find_profile(name), "", "k8s"))["Deployment"]
        engine = pod["spec"]["template"]["spec"]["containers"][0]
        found = engine["securityContext"]["capabilities"]
        assert (found["drop"], found.get("add")) == (["ALL"], added)


def test_strict_schemas_refuse_what_they_do_not_know() -> None:
    text = of_profile(find_profile("tgi-nvidia"), "", "k8s").replace("startupProbe", "startProbe")
    with pytest.raises(jsonschema.ValidationError):
        objects(text)
    text = of_profile(find_profile("tgi-nvidia"), "", "compose").replace("shm_size", "shmsize")
    with pytest.raises(jsonschema.ValidationError):
        compose(text)


def test_a_lock_gives_the_digest(tmp_path: Path) -> None:
    image = f"vllm/vllm-openai{DIGEST}"
    lock = Lock(schema="doctor/lock/v1", profile="vllm-nvidia-container", engine="vllm",
                version="0.33.0", image=image, tag="v0.33.0")  # fmt: skip
    write_lock(tmp_path / "stack.lock", lock)
    profile = find_profile("vllm-nvidia-container")
    text = of_profile(profile, str(tmp_path / "stack.lock"), "compose")
    assert compose(text)["services"][profile.name]["image"] == image
    assert "published again" not in text
    assert "published again" in of_profile(profile, "", "compose")
    with pytest.raises(UsageError, match="the lock is of"):
        of_profile(find_profile("tgi-nvidia"), str(tmp_path / "stack.lock"), "k8s")


PROFILE = """
schema: doctor/profile/v1
name: mine
engine: {name: vllm, version: '==0.33.0'}
accelerator: {vendor: nvidia, count: 2}
install: {method: container, image: 'vllm/vllm-openai:v0.33.0'}
model: {source: hub, id: Qwen/Qwen3-8B, token: 'env:MY_TOKEN'}
serving: {port: 8000, api_key: 'env:MY_KEY', name: NAME, env: {A: VALUE}}
"""


def mine(name: str = "n", value: str = "v") -> Profile:
    return parse_profile(
        PROFILE.replace("NAME", json.dumps(name)).replace("VALUE", json.dumps(value)), "mine"
    )


def test_secrets_are_references() -> None:
    service = compose(of_profile(mine(), "", "compose"))["services"]["mine"]
    assert service["environment"]["HF_TOKEN"] == "${HF_TOKEN:?}"  # noqa: S105 - a reference
    assert service["environment"]["VLLM_API_KEY"] == "${VLLM_API_KEY:?}"
    found = objects(of_profile(mine(), "", "k8s"))
    env = found["Deployment"]["spec"]["template"]["spec"]["containers"][0]["env"]
    key = next(row for row in env if row["name"] == "VLLM_API_KEY")
    assert key["valueFrom"]["secretKeyRef"] == {"name": "mine", "key": "api-key"}


def test_the_engine_may_fetch_its_model() -> None:
    service = compose(of_profile(mine(), "", "compose"))["services"]["mine"]
    assert "HF_HUB_OFFLINE" not in service["environment"]
    assert service["deploy"]["resources"]["reservations"]["devices"][0]["count"] == 2


TEXTS = st.text(st.characters(categories=("L", "N", "P", "S", "Zs"), max_codepoint=0x2FF),
                min_size=1, max_size=30)  # fmt: skip


@settings(max_examples=30)
@given(TEXTS, TEXTS)
def test_no_text_of_a_profile_becomes_anything_but_text(name: str, value: str) -> None:
    try:
        profile = mine(name, value)
    except UsageError:
        return
    service = compose(of_profile(profile, "", "compose"))["services"]["mine"]
    assert service["environment"]["A"].replace("$$", "").count("$") == 0
    assert service["environment"]["A"].replace("$$", "$") == value
    words = [word.replace("$$", "$") for word in service["command"]]
    assert words[words.index("--served-model-name") + 1] == name
    found = objects(of_profile(profile, "", "k8s"))["Deployment"]
    engine = found["spec"]["template"]["spec"]["containers"][0]
    assert {"name": "A", "value": value.replace("$(", "$$(")} in engine["env"]


@pytest.mark.parametrize(("name", "words"), [
    ("llamacpp-cpu", "not from an image"),
    ("llamacpp-cuda", "known-answer model"),
])  # fmt: skip
@pytest.mark.parametrize("form", ["compose", "k8s"])
def test_what_cannot_be_said_is_refused(name: str, words: str, form: str) -> None:
    with pytest.raises(UsageError, match=words):
        of_profile(find_profile(name), "", form)


def test_a_resolved_stack() -> None:
    host = Sources(host="H100x2,driver=580.95.05,python=3.12,ubuntu=24.04")
    found = resolve_for(Question("vllm", host, model="Qwen/Qwen3-8B", artifact="image",
                                 with_unlocks=False))  # fmt: skip
    style = Style(100, False)
    service = next(iter(compose(render(found, "compose", style))["services"].values()))
    assert service["image"].startswith("vllm/vllm-openai:")
    assert "Qwen/Qwen3-8B" in service["command"]
    assert set(objects(render(found, "k8s", style))) == {"Deployment", "Service"}


OWN = """
schema: doctor/profile/v1
name: own
engine: {name: xllamacpp}
accelerator: {vendor: cpu}
install: {method: venv, requirements: [xllamacpp]}
model: {source: path, id: /srv/model.gguf, format: gguf}
serving: {port: 8081, args: {max_model_len: 2048}}
"""


def test_an_image_of_our_own_takes_the_engines_arguments() -> None:
    image = f"registry.example/llama{DIGEST}"
    own = parse_profile(OWN, "own")
    service = compose(of_profile(own, "", "compose", image))["services"]["own"]
    assert service["image"] == image
    assert "entrypoint" not in service
    assert service["command"][:2] == ["--model", "/model/model.gguf"]
    assert service["command"][service["command"].index("--host") + 1] == "0.0.0.0"  # noqa: S104
    assert "deploy" not in service
    pod = objects(of_profile(own, "", "k8s", image))["Deployment"]["spec"]["template"]["spec"]
    assert "command" not in pod["containers"][0]
    assert "resources" not in pod["containers"][0]


@pytest.mark.parametrize(("name", "first"), [
    ("tgi-nvidia", ["--model-id", "Qwen/Qwen3-8B", "--hostname"]),
    ("tensorrt-llm-nvidia", ["Qwen/Qwen3-8B", "--host"]),
    ("vllm-nvidia-container", ["Qwen/Qwen3-8B", "--host"]),
])  # fmt: skip
def test_images_of_our_own_take_what_follows_the_program(name: str, first: list[str]) -> None:
    image = f"registry.example/x{DIGEST}"
    service = compose(of_profile(find_profile(name), "", "compose", image))["services"][name]
    assert service["command"][: len(first)] == first
