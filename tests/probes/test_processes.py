"""Running engines: recognised by command line, placed in their scope, secrets cut."""

from __future__ import annotations

import subprocess
import venv
from pathlib import Path

import pytest

from doctor.facts import Missing
from doctor.probes.collect import Options, collect
from doctor.probes.engine_names import engine_of
from doctor.probes.environment import allowed
from doctor.probes.launch_arguments import hide_secrets, parse_arguments
from doctor.probes.local import LocalHost
from doctor.probes.processes import parse_parent, read
from doctor.probes.rooted import RootedHost
from doctor.probes.workloads import read as read_workloads
from tests.probes.written import write_host


@pytest.mark.parametrize(
    ("command", "engine"),
    [
        ("/v/bin/python3.12 /v/bin/vllm serve Qwen/Qwen3-8B", "vllm"),
        ("vllm serve x", "vllm"),
        ("vllm bench x", ""),
        ("python -u -X dev -m vllm.entrypoints.openai.api_server --model x", "vllm"),
        ("python3 -m sglang.launch_server --model-path x", "sglang"),
        ("/usr/local/bin/text-generation-launcher --model-id x", "tgi"),
        ("./llama-server -m x.gguf", "llama.cpp"),
        ("/v/bin/python /v/bin/trtllm-serve x", "tensorrt-llm"),
        ("/v/bin/python /v/bin/lmdeploy serve api_server x", "lmdeploy"),
        ("python -m lmdeploy serve api_server x", "lmdeploy"),
        ("ollama serve", "ollama"),
        ("bash -c vllm serve x", ""),
        ("vim vllm", ""),
        ("python", ""),
        ("python -m", ""),
        ("", ""),
    ],
)
def test_recognises_engines(command: str, engine: str) -> None:
    assert engine_of(tuple(command.split())) == engine


@pytest.mark.parametrize(
    ("engine", "command", "expected"),
    [
        (
            "vllm",
            "vllm serve org/m -tp 4 --max-model-len=8192 --gpu-memory-utilization 0.9 "
            "--enforce-eager --kv-cache-dtype FP8 --api-key sk-secret",
            {
                "model": "org/m",
                "tensor_parallel_size": 4,
                "max_model_len": 8192,
                "gpu_memory_utilization": 0.9,
                "enforce_eager": True,
                "kv_cache_dtype": "fp8",
                "api_key": "[cut]",
            },
        ),
        (
            "sglang",
            "python -m sglang.launch_server --model-path m --tp 2 --mem-fraction-static 0.8",
            {"model": "m", "tensor_parallel_size": 2, "gpu_memory_utilization": 0.8},
        ),
        (
            "llama.cpp",
            "llama-server -m a.gguf -c 4096 -ngl 99 -ctk q8_0 --parallel 4 -fa",
            {
                "model": "a.gguf",
                "max_model_len": 4096,
                "n_gpu_layers": 99,
                "kv_cache_dtype": "q8_0",
                "max_num_seqs": 4,
                "flash_attn": True,
            },
        ),
        (
            "tensorrt-llm",
            "trtllm-serve org/m --tp_size 2",
            {"model": "org/m", "tensor_parallel_size": 2},
        ),
        (
            "lmdeploy",
            "lmdeploy serve api_server org/m --tp 2",
            {"model": "org/m", "tensor_parallel_size": 2},
        ),
    ],
)
def test_arguments_under_neutral_names(
    engine: str, command: str, expected: dict[str, object]
) -> None:
    assert parse_arguments(engine, tuple(command.split())) == expected


@pytest.mark.parametrize(
    "options",
    [
        "--api-key hunter2 hunter3 --port 1",
        "--api-keys hunter2 hunter3",
        "--api-key=hunter2",
        "--admin-api-key hunter2",
        "--hf-token hunter2",
        "-hft hunter2",
        "--hf_token=hunter2",
        "--ngrok-authtoken hunter2",
        "--ssl-keyfile-password hunter2",
        "--grpc.auth-token hunter2",
        "--secret hunter2",
    ],
)
def test_keys_are_cut_wherever_they_stand(options: str) -> None:
    argv = ("/v/bin/vllm", "serve", "m", *options.split())
    assert "hunter" not in repr(parse_arguments("vllm", argv))
    hidden = hide_secrets(argv)
    assert "hunter" not in " ".join(hidden)
    assert hidden[:3] == argv[:3]
    assert len(hidden) == len(argv)


def test_what_only_sounds_like_a_key_stays() -> None:
    command = "vllm serve m --tokenizer t --max-num-batched-tokens 8192 --key-dtype x"
    argv = tuple(command.split())
    assert hide_secrets(argv) == argv
    assert parse_arguments("vllm", argv)["max_num_batched_tokens"] == 8192


def test_the_name_of_a_process_may_hold_anything() -> None:
    assert parse_parent("12 (a) b (c) S 7 12") == 7
    assert parse_parent("12 (a) S") == 0
    assert parse_parent(None) == 0


def test_environment_is_an_allow_list_without_secrets() -> None:
    found = allowed(
        {
            "CUDA_VISIBLE_DEVICES": "0",
            "HF_TOKEN": "hf_abcdefghijklmn",
            "HF_HOME": "/models",
            "VLLM_API_KEY": "k",
            "VLLM_HOST": "http://me:pass@far/x",
            "OLLAMA_X": "sk-abcdefghijkl",
            "MY_SECRET": "x",
            "TOKENIZERS_PARALLELISM": "true",
            "AWS_ACCESS_KEY_ID": "x",
        }
    )
    assert found == {
        "CUDA_VISIBLE_DEVICES": "0",
        "HF_TOKEN": "[cut]",
        "HF_HOME": "/models",
        "VLLM_API_KEY": "[cut]",
        "VLLM_HOST": "http://[cut]@far/x",
        "OLLAMA_X": "[cut]",
        "TOKENIZERS_PARALLELISM": "true",
    }


CGROUP = "0::/system.slice/docker-" + "ab12" * 16 + ".scope\n"


def test_workloads_lie_in_the_scope_of_their_python(tmp_path: Path) -> None:
    host = write_host(
        tmp_path,
        {
            "/v/pyvenv.cfg": "version = 3.12.3\n",
            "/v/lib/python3.12/site-packages/vllm-0.20.0.dist-info/METADATA": (
                "Name: vllm\nVersion: 0.20.0\n\n"
            ),
            "/proc/10/cmdline": "/v/bin/python\0/v/bin/vllm\0serve\0m\0",
            "/proc/10/environ": "CUDA_VISIBLE_DEVICES=1\0HF_TOKEN=hf_aaaaaaaaaa\0",
            "/proc/10/stat": "10 (vllm) S 1 10",
            "/proc/11/cmdline": "/v/bin/python\0/v/bin/vllm\0serve\0m\0",
            "/proc/11/stat": "11 (vllm) S 10 10",
            "/proc/12/cmdline": "text-generation-launcher\0--model-id\0x\0",
            "/proc/12/stat": "12 (tgi) S 1 12",
            "/proc/12/cgroup": CGROUP,
            "/proc/13/cmdline": "bash\0",
        },
    )
    facts = collect(host, Options())
    assert [(w.id, w.scope, w.pid) for w in facts.workloads] == [
        ("vllm:10", "venv:/v", 10),
        ("tgi:12", "container:ab12ab12ab12", 12),
    ]
    first = facts.workloads[0]
    assert str(first.version.value) == "0.20.0"
    assert first.args.value == {"model": "m"}
    assert first.env.value == {"CUDA_VISIBLE_DEVICES": "1", "HF_TOKEN": "[cut]"}
    assert facts.workloads[1].env.missing is Missing.NOT_THERE
    assert facts.notes == ()


@pytest.mark.real
def test_an_engine_that_really_runs(tmp_path: Path) -> None:
    root = tmp_path / "env"
    venv.create(root, with_pip=False)
    program = root / "bin/vllm"
    program.write_text(f"#!{root}/bin/python\nimport time\nprint(flush=True)\ntime.sleep(60)\n")
    program.chmod(0o755)
    command = [str(program), "serve", "org/m", "--max-model-len", "4096", "--api-key", "k"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as engine:
        try:
            assert engine.stdout is not None
            engine.stdout.readline()
            facts = collect(LocalHost(), Options())
        finally:
            engine.kill()
    work = next(w for w in facts.workloads if w.pid == engine.pid)
    assert (work.engine, work.scope) == ("vllm", f"venv:{root}")
    assert work.args.value == {"model": "org/m", "max_model_len": 4096, "api_key": "[cut]"}


def test_an_engine_in_a_container(tmp_path: Path) -> None:
    root = "/proc/12/root"
    site = f"{root}/opt/venv/lib/python3.12/site-packages"
    host = write_host(
        tmp_path,
        {
            "/proc/12/cmdline": "python3\0-m\0vllm.entrypoints.openai.api_server\0",
            "/proc/12/environ": "PATH=/opt/venv/bin:/bin\0NVIDIA_REQUIRE_CUDA=cuda>=12.8\0",
            "/proc/12/stat": "12 (python3) S 1 12",
            "/proc/12/cgroup": CGROUP,
            "/proc/12/mountinfo": "1 2 0:1 / / rw - overlay overlay rw\n"
            "2 1 0:2 / /proc rw - proc proc rw\n3 1 8:1 /m /models ro - ext4 /dev/sda rw\n",
            f"{root}/proc/version": "Linux",
            f"{root}/opt/venv/pyvenv.cfg": "version = 3.12.3\n",
            f"{root}/usr/bin/python3.12": "",
            f"{root}/data/vllm-0.20.0.dist-info/METADATA": "Name: vllm\nVersion: 0.20.0\n\n",
            "/data/secret": "of the host",
        },
        # Links of the container lead to its own root.
        links={
            f"{root}/opt/venv/bin/python3": "/usr/bin/python3.12",
            f"{site}/vllm-0.20.0.dist-info": "/data/vllm-0.20.0.dist-info",
        },
        paths={f"{root}/dev/nvidia0": {}, f"{root}/dev/nvidiactl": {}},
        disks={f"{root}/dev/shm": {"total_mib": 64, "free_mib": 64}},
    )
    facts = collect(host, Options())
    assert facts.notes == ()
    (work,) = facts.workloads
    box = facts.scope("container:ab12ab12ab12")
    assert box is not None
    assert (work.scope, str(work.version.value)) == (box.id, "0.20.0")
    assert box.devices_visible.value == ("/dev/nvidia0",)
    assert box.mounts.value == ("/models", "/dev/nvidia0", "/dev/nvidiactl")
    assert (box.shm_mib.value, box.image.require_cuda.value) == (64, "cuda>=12.8")
    assert box.python.value is not None
    assert str(box.python.value.version) == "3.12.3"


def test_an_engine_in_the_container_from_which_it_is_looked_at(tmp_path: Path) -> None:
    command = "/opt/venv/bin/python3\0-m\0vllm.entrypoints.openai.api_server\0"
    files = {"/proc/12/cmdline": command, "/proc/12/cgroup": CGROUP, "/proc/self/cgroup": CGROUP}
    (process,) = read(write_host(tmp_path, files)).value or ()
    assert (process.container, process.python) == ("", "/opt/venv/bin/python3")
    other = CGROUP.replace("ab12", "cd34")
    (process,) = read(write_host(tmp_path, {**files, "/proc/self/cgroup": other})).value or ()
    assert process.container.startswith("ab12")


def test_a_container_that_may_not_be_looked_into(tmp_path: Path) -> None:
    host = write_host(
        tmp_path,
        {"/proc/12/cmdline": "vllm\0serve\0m\0", "/proc/12/cgroup": CGROUP},
        paths={"/proc/12/root": "not-permitted", "/proc/12/environ": "not-permitted"},
    )
    box = collect(host, Options()).scope("container:ab12ab12ab12")
    assert box is not None
    assert box.packages.missing is Missing.NOT_PERMITTED
    assert box.devices_visible.missing is Missing.NOT_PERMITTED
    assert box.image.require_cuda.missing is Missing.NOT_PERMITTED


def test_a_tree_has_no_processes(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    assert read_workloads(RootedHost(str(tmp_path)), (), ()) == ((), ())
    assert collect(RootedHost(str(tmp_path)), Options()).workloads == ()


MINDIE = """{"ServerConfig": {"port": 1025}, "BackendConfig": {"ModelDeployConfig": {
 "maxSeqLen": 2560,
 "ModelConfig": [{"modelName": "q", "modelWeightPath": "/data/q", "worldSize": 8}]}}}
"""


def test_mindie_takes_its_options_from_a_file(tmp_path: Path) -> None:
    home = "/usr/local/Ascend/mindie/2.0.RC1/mindie-service"
    host = write_host(
        tmp_path,
        {
            "/proc/12/cmdline": "./bin/mindieservice_daemon\0",
            f"{home}/bin/mindieservice_daemon": "",
            f"{home}/conf/config.json": MINDIE,
            "/data/q/config.json": "{}",
        },
        links={
            "/proc/12/cwd": "/usr/local/Ascend/mindie/latest/mindie-service",
            "/usr/local/Ascend/mindie/latest": "2.0.RC1",
        },
    )
    (work,) = collect(host, Options()).workloads
    assert work.args.value == {
        "model": "/data/q",
        "served_model_name": "q",
        "tensor_parallel_size": 8,
        "max_model_len": 2560,
    }
    assert str(work.version.value) == "2.0.RC1"
    assert work.model.known("model")["missing_files"] == ["model.safetensors"]
