"""Outputs of tools in notes and logs of a report: read as the tool's own, prose left alone."""

from __future__ import annotations

import pytest

from doctor.intake.field_report import read_field_report

TABLE = """Every 1.0s: nvidia-smi
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.120                Driver Version: 550.120        CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
"""


def test_a_node_that_is_not_there() -> None:
    note = "ls: cannot access '/dev/nvidia*': No such file or directory"
    assert read_field_report({"notes": [note]}).nvidia.device_nodes.value == ()


def test_a_list_of_nodes_over_several_lines() -> None:
    note = (
        "$ ls -l /dev/kfd /dev/dri/renderD128\n"
        "crw-rw---- 1 root render 236,   0 Nov 30 08:00 /dev/kfd\n"
        "crw-rw---- 1 root render 226, 128 Nov 30 08:00 /dev/dri/renderD128\n"
    )
    facts = read_field_report({"engine": "vllm", "notes": [note]})
    assert facts.rocm.nodes.value == ("/dev/kfd", "/dev/dri/renderD128")
    assert facts.rocm.nodes.partial


def test_modules_and_their_files() -> None:
    facts = read_field_report(
        {"notes": ["nouveau 2494464 4", "modinfo: ERROR: Module nvidia not found."]}
    )
    assert facts.host.modules.value == ("nouveau",)
    assert facts.nvidia.module_on_disk.is_absent


def test_a_table_in_a_log() -> None:
    facts = read_field_report({"engine": "vllm", "log": f"INFO start\n{TABLE}ERROR stop\n"})
    assert str(facts.nvidia.driver.value) == "550.120"
    assert len(facts.logs) == 1


def test_what_the_report_itself_states_comes_first() -> None:
    facts = read_field_report({"driver": "535.161.08", "log": TABLE})
    assert str(facts.nvidia.driver.value) == "535.161.08"


@pytest.mark.parametrize(
    "note",
    [
        "I looked at /dev/nvidia0 and it is there",
        "export CUDA_VISIBLE_DEVICES=1 makes no difference",
        "gcc is too old they say, 7.5 or so",
        "docker was installed as the manual says, with its runtimes",
        "set LD_LIBRARY_PATH to /usr/lib",
    ],
)
def test_prose_is_no_output(note: str) -> None:
    facts = read_field_report({"engine": "vllm", "notes": [note]})
    assert not facts.nvidia.device_nodes.is_known
    assert not facts.host.packages.is_known
    assert not facts.scopes[0].env.is_known
    assert not facts.container_engine.is_known


def test_a_sentence_may_say_that_a_runtime_is_missing() -> None:
    facts = read_field_report({"engine": "vllm", "notes": ["docker info shows no nvidia runtime"]})
    assert facts.container_engine.known("container_engine").runtimes.value == ("runc",)


@pytest.mark.parametrize(
    ("note", "driver", "cuda"),
    [
        ("nvidia-smi says CUDA Version: 12.2", None, "12.2"),
        (
            "| NVIDIA-SMI 535.54.03  Driver Version: 535.54.03  CUDA Version: 12.2 |",
            "535.54.03",
            "12.2",
        ),
        ("Driver Version: 550.120", "550.120", None),
        ("my CUDA Version: 12.2", None, None),
    ],
)
def test_the_head_of_the_table(note: str, driver: str | None, cuda: str | None) -> None:
    nvidia = read_field_report({"engine": "vllm", "notes": [note]}).nvidia
    found = (nvidia.driver.value, nvidia.cuda_driver_api.value)
    assert tuple(None if v is None else str(v) for v in found) == (driver, cuda)


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        ("docker run, default shm size of 64MB", 64),
        ("pod without an emptyDir at /dev/shm", 64),
        ("--shm-size=16g", 16384),
    ],
)
def test_shared_memory_in_words(text: str, mib: int) -> None:
    facts = read_field_report({"engine": "vllm", "container": {"text": text}})
    assert facts.scopes[0].shm_mib.value == mib


@pytest.mark.parametrize(
    ("text", "flavour"),
    [("closed", "proprietary"), ("nvidia-open", "open"), ("the open kernel modules", "open")],
)
def test_the_flavour_of_the_modules_in_words(text: str, flavour: str) -> None:
    assert read_field_report({"kernel_module": text}).nvidia.module_flavour.value == flavour


def test_a_version_without_end_is_none() -> None:
    note = f"ollama version is 0.5.1{'0' * 300}"
    assert read_field_report({"engine": "ollama", "notes": [note]}).workloads[0].version.missing


@pytest.mark.parametrize(
    "note",
    [
        "built from source, with the check taken out",
        "pip install -e .",
        "pip3 install --no-build-isolation git+https://example.org/a.git@v2",
        "we compiled vllm from source",
        "python setup.py develop",
        "installing a CUDA extension from source",
        "make -j16",
        "cmake --build build --config Release",
    ],
)
def test_words_of_a_build(note: str) -> None:
    facts = read_field_report({"engine": "vllm", "notes": [note]})
    assert facts.workloads[0].building.value


@pytest.mark.parametrize(
    "note", ["pip install vllm", "the source of the model", "pip list .", "make sure it is seen"]
)
def test_words_of_no_build(note: str) -> None:
    facts = read_field_report({"engine": "vllm", "notes": [note]})
    assert not facts.workloads[0].building.is_known


def test_a_command_says_nothing_of_what_it_names() -> None:
    command = "pip install --no-build-isolation git+https://example.org/flash-attention.git"
    assert not any(log.prose for log in read_field_report({"notes": [command]}).logs)
    said = "flash-attention does not work on this T4"
    assert any(log.prose for log in read_field_report({"notes": [command, said]}).logs)


@pytest.mark.parametrize(
    ("note", "is_said"),
    [
        ("pip finds no wheel for this Python", True),
        ("pip says that the versions contradict each other", True),
        ("pip install torch", False),
        ("$ uv pip install -U vllm", False),
        ("conda install cudatoolkit", False),
    ],
)
def test_what_an_installer_does_is_said_and_a_command_is_not(note: str, is_said: bool) -> None:
    said = [log for log in read_field_report({"notes": [note]}).logs if log.prose]
    assert bool(said) is is_said
