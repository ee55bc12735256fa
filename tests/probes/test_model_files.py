"""What is there of a model: folders, caches of the hub, parts of a GGUF file, pointers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from doctor.checkup import check
from doctor.examine import Sources
from doctor.facts import Missing, Reading
from doctor.probes.collect import Options, collect
from doctor.probes.local import LocalHost
from doctor.probes.model_files import condense_index, parse_index, read
from tests.probes.written import write_host

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
CONFIG = {"architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "_name_or_path": "/me/x"}
SHARDS = [f"model-0000{n}-of-00003.safetensors" for n in (1, 2, 3)]
INDEX = {
    "metadata": {"total_size": 9000},
    "weight_map": {f"layer.{n}": SHARDS[n % 3] for n in range(9)},
}
WHOLE = "x" * 2000


def _model(folder: Path, files: dict[str, str]) -> Path:
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def _read(name: object, env: dict[str, str] | None = None, **args: Any) -> Reading[dict[str, Any]]:
    return read(LocalHost(), "vllm", {"model": str(name), **args}, env or {})


def _sharded(tmp_path: Path, **states: str) -> Path:
    files = dict.fromkeys(SHARDS, WHOLE)
    files["config.json"], files[f"{SHARDS[0].split('-')[0]}.safetensors.index.json"] = (
        json.dumps(CONFIG),
        json.dumps(INDEX),
    )
    return _model(tmp_path / "m", {**files, **states})


def test_a_whole_model(tmp_path: Path) -> None:
    found = _read(_sharded(tmp_path)).known("model")
    assert found == {
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 4096,
        "missing_files": [],
        "lfs_pointers": [],
        "unreadable_files": [],
    }


def test_shards_that_are_missing_pointers_or_empty(tmp_path: Path) -> None:
    folder = _sharded(tmp_path, **{SHARDS[1]: POINTER, SHARDS[2]: ""})
    (folder / SHARDS[0]).unlink()
    found = _read(folder).known("model")
    assert found["missing_files"] == [SHARDS[0]]
    assert found["lfs_pointers"] == [SHARDS[1]]
    assert found["unreadable_files"] == [SHARDS[2]]
    assert found["total_size"] == 9000 - len(POINTER)


@pytest.mark.parametrize(
    ("files", "kind", "names"),
    [
        ({"config.json": "{}"}, "missing_files", ["model.safetensors"]),
        (
            {"config.json": "{}", "model.safetensors": POINTER},
            "lfs_pointers",
            ["model.safetensors"],
        ),
        ({"rank0.engine": WHOLE}, "missing_files", []),
        ({"config.json": "not JSON", "pytorch_model.bin": WHOLE}, "unreadable_files", []),
    ],
)
def test_folders_without_an_index(
    tmp_path: Path, files: dict[str, str], kind: str, names: list[str]
) -> None:
    assert _read(_model(tmp_path / "m", files)).known("model")[kind] == names


def test_parts_of_a_gguf_file(tmp_path: Path) -> None:
    folder = _model(
        tmp_path / "g", {"a-00001-of-00003.gguf": WHOLE, "a-00003-of-00003.gguf": WHOLE}
    )
    found = read(LocalHost(), "llama.cpp", {"model": f"{folder}/a-00001-of-00003.gguf"}, {})
    assert found.known("model")["missing_files"] == [f"{folder}/a-00002-of-00003.gguf"]


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    assert _read(tmp_path / "none").known("model") == {"missing_files": [f"{tmp_path}/none"]}


def test_a_name_of_the_hub(tmp_path: Path) -> None:
    env = {"HF_HOME": str(tmp_path), "HOME": "/nowhere"}
    assert _read("org/m", env).known("model") == {"cached": False}
    base = tmp_path / "hub/models--org--m"
    _model(base / "refs", {"main": "abc"})
    blob = _model(base / "blobs", {"b": WHOLE}) / "b"
    folder = _model(base / "snapshots/abc", {"config.json": json.dumps(CONFIG)})
    (folder / "model.safetensors").symlink_to(blob)
    found = _read("org/m", env).known("model")
    assert (found["cached"], found["missing_files"]) == (True, [])
    blob.unlink()
    assert _read("org/m", env).known("model")["missing_files"] == ["model.safetensors"]
    assert _read("org/m", env, revision="other").known("model") == {"cached": False}
    assert _read("org/m", env, revision="../../..").known("model") == {"cached": False}


def test_what_is_not_looked_for(tmp_path: Path) -> None:
    assert _read("s3://bucket/m").missing is Missing.NOT_STATED
    assert _read("org/m").missing is Missing.NOT_STATED, "no cache is known"
    env = {"HOME": str(tmp_path)}
    assert read(LocalHost(), "ollama", {"model": "org/m"}, env).missing is Missing.NOT_STATED
    assert read(LocalHost(), "vllm", {}, env).missing is Missing.NOT_STATED


def test_a_cache_that_may_not_be_read(tmp_path: Path) -> None:
    host = write_host(tmp_path, paths={"/hub/models--org--m": "not-permitted"})
    found = read(host, "vllm", {"model": "org/m"}, {"HF_HUB_CACHE": "/hub"})
    assert found.missing is Missing.NOT_PERMITTED


def test_an_index_leads_nowhere_else() -> None:
    weights = {"a": "../../etc/shadow", "b": "/etc/shadow", "c": 7, "d": "ok.safetensors"}
    text = json.dumps({"metadata": {"total_size": "x"}, "weight_map": weights})
    assert parse_index(text) == (["ok.safetensors"], 0)
    assert parse_index(condense_index(json.dumps(INDEX))) == (SHARDS, 9000)


def test_a_running_engine_in_a_container(tmp_path: Path) -> None:
    root = "/proc/12/root"
    host = write_host(
        tmp_path,
        {
            "/proc/12/cmdline": "/usr/bin/python3\0-m\0vllm.entrypoints.openai.api_server\0"
            "--model\0/models/m\0",
            "/proc/12/environ": "HF_HOME=/cache\0",
            "/proc/12/cgroup": "0::/docker/" + "ab12" * 16,
            f"{root}/proc/version": "Linux",
            f"{root}/models/m/config.json": json.dumps(CONFIG),
            f"{root}/models/m/model.safetensors": POINTER,
            "/models/m/model.safetensors": WHOLE,
        },
    )
    (work,) = collect(host, Options()).workloads
    assert work.model.known("model")["lfs_pointers"] == ["model.safetensors"]
    assert work.model.at == "/models/m"


def test_a_model_that_is_asked_about(tmp_path: Path) -> None:
    folder = _sharded(tmp_path)
    assert "model-incomplete" not in _causes(tmp_path)
    (folder / SHARDS[2]).unlink()
    assert "model-incomplete" in _causes(tmp_path)


def _causes(tree: Path) -> set[str]:
    """What `doctor check --engine vllm --model /m` finds on a mounted tree."""
    diagnosis = check(Sources(root=str(tree)), "vllm", "/m").diagnosis
    return {finding.cause for target in diagnosis.targets for finding in target.findings}
