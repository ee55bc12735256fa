"""A CUDA call and a container, tried with stand-ins for libcuda and for a container engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from doctor.facts import Facts
from doctor.matrix import load_matrix
from doctor.provision.driver.use import Use, read_use
from doctor.provision.target import Target
from doctor.resources import resource
from tests.provision.driver.made import driver_set, facts
from tests.provision.machine import IMAGE, call, docker_engine, systemd_image

PROGRAM = resource("playbooks", "roles", "nvidia_driver", "files", "gpu_use.py")
SOURCE = Path(__file__).parents[2] / "fakes" / "cuda.c"
PLAIN, CUDA, LARGE = "sha256:aa", "sha256:bb", "sha256:cc"
ENGINE = f"""\
#!/bin/sh
echo "$*" >> "$0.said"
case "$1 $2" in
"image ls") printf '{PLAIN}\\n{CUDA}\\n{LARGE}\\n' ;;
"image inspect")
  echo '10 {PLAIN} ["PATH=/bin"]'
  echo '90 {LARGE} ["NVIDIA_VISIBLE_DEVICES=all"]'
  echo '20 {CUDA} ["PATH=/bin","NVIDIA_VISIBLE_DEVICES=all"]' ;;
"run --rm") $RUNS ;;
esac
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cuda")
    flags = ("-shared", "-fPIC", "-Wall", "-Wextra", "-Werror")
    command = ["gcc", *flags, "-o", str(folder / "libcuda.so.1"), str(SOURCE)]
    subprocess.run(command, check=True)
    return folder


def ask(folder: Path | None, code: str, **env: str) -> Any:
    """What `code` prints of the program's functions, with that library to be found."""
    path = {"LD_LIBRARY_PATH": str(folder)} if folder else {}
    head = f"import json, sys; sys.path.insert(0, {str(PROGRAM.parent)!r}); import gpu_use\n"
    said = subprocess.run(
        [sys.executable, "-B", "-c", f"{head}print(json.dumps({code}))"],
        env={"PATH": os.environ["PATH"], **path, **env},
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    return json.loads(said.stdout)


@pytest.mark.real
def test_each_gpu_is_written_to_and_read(library: Path) -> None:
    found = ask(library, "gpu_use.call()", FAKE_CUDA="8")
    assert found == {"count": 8, "fault": "", "skipped": "", "code": 0}


@pytest.mark.real
@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("cuInit=803", "cuInit answers 803"),
        ("cuInit=crash", "ended the program"),
        ("cuInit=hang", "did not answer within 1 s"),
        ("cuDeviceGetCount=3", "cuDeviceGetCount answers 3"),
        ("cuDevicePrimaryCtxRetain=802", "answers 802"),
        ("cuMemcpyDtoH_v2=700", "answers 700"),
        ("cuMemsetD8_v2=forget", "GPU 0 gives back other bytes"),
    ],
)
def test_what_fails_is_named(library: Path, fault: str, text: str) -> None:
    found = ask(library, "gpu_use.call(1)", FAKE_CUDA="2", FAKE_CUDA_FAULT=fault)
    assert text in found["fault"]


@pytest.mark.real
@pytest.mark.parametrize("fault", ["cuMemAlloc_v2=2", "cuDevicePrimaryCtxRetain=46"])
def test_a_gpu_that_is_taken_is_no_fault_of_the_driver(library: Path, fault: str) -> None:
    found = ask(library, "gpu_use.call()", FAKE_CUDA="2", FAKE_CUDA_FAULT=fault)
    assert not found["fault"]
    assert "in use" in found["skipped"]


@pytest.mark.real
def test_no_library_is_a_fault() -> None:
    assert "libcuda.so.1" in ask(None, "gpu_use.call()")["fault"]


def container(folder: Path, runs: str) -> Any:
    """What is said of an engine whose containers do `runs`."""
    program = folder / "docker"
    program.write_text(ENGINE)
    program.chmod(0o755)
    path = f"{folder}:{os.environ['PATH']}"
    return ask(None, "gpu_use.container('docker', ['--gpus', 'all'])", PATH=path, RUNS=runs)


@pytest.mark.real
def test_a_container_of_the_smallest_image_that_asks_for_gpus(tmp_path: Path) -> None:
    (tmp_path / "seen").write_text("GPU 0: NVIDIA H200 (UUID: GPU-1)\nGPU 1: NVIDIA H200\n")
    assert container(tmp_path, f"cat {tmp_path}/seen")["count"] == 2
    last = (tmp_path / "docker.said").read_text().splitlines()[-1]
    assert f"--entrypoint nvidia-smi {CUDA} -L" in last
    assert "--pull never --network none --gpus all" in last


@pytest.mark.real
@pytest.mark.parametrize("runs", ["false", "true", "echo No devices were found"])
def test_a_container_that_sees_none(tmp_path: Path, runs: str) -> None:
    found = container(tmp_path, runs)
    assert found["fault"]
    assert found["count"] == 0


@pytest.mark.real
def test_without_an_image_or_an_engine_nothing_is_claimed(tmp_path: Path) -> None:
    (tmp_path / "docker").symlink_to("/bin/true")
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    assert "no image" in ask(None, "gpu_use.container('docker', [])", **path)["skipped"]
    assert "no container engine" in ask(None, "gpu_use.container('', [])")["skipped"]


@pytest.mark.slow
@pytest.mark.docker
def test_a_real_engine_that_has_no_gpu_to_give_says_so(tmp_path: Path) -> None:
    tag = "doctor-test-wants-gpus"
    with docker_engine():
        systemd_image(tmp_path)
        call("docker", "build", "-q", "-t", tag, "-", text=f"FROM {IMAGE}\n"
             "ENV NVIDIA_VISIBLE_DEVICES=all\n")  # fmt: skip
        try:
            found = ask(None, "gpu_use.container('docker', ['--gpus', 'all'])")
        finally:
            call("docker", "rmi", "-f", tag)
    assert "capabilities: [[gpu]]" in found["fault"]


def test_nobody_is_asked_without_a_card_or_where_a_driver_is_only_held() -> None:
    matrix = load_matrix()
    assert read_use(Target(), driver_set(), Facts(), matrix) == Use()
    held = driver_set(scheme="installed")
    assert read_use(Target(), held, facts("NVIDIA H200"), matrix) == Use()


@pytest.mark.real
def test_the_machine_is_asked_in_its_own_python() -> None:
    found = read_use(Target(), driver_set(), facts("NVIDIA H200"), load_matrix())
    assert found.call.fault or found.call.skipped or found.call.count
    assert "no container engine" in found.container.skipped
