"""Recorded hosts: NVML answers as the real pynvml reads them, facts as the probes make them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import hosts, nvml

AGAIN = "python -m tests.fakes.hosts"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return nvml.build(tmp_path_factory.mktemp("nvml"))


@pytest.mark.real
def test_nvml_answers_are_what_pynvml_reads(library: Path) -> None:
    folders = hosts.with_fake_nvml()
    answers = nvml.ask(library, [folder / "nvml.conf" for folder in folders])
    for folder, found in zip(folders, answers, strict=True):
        recorded = json.loads((folder / "nvml.json").read_text())
        assert found["answer"]["value"] == recorded, f"{folder.name}: {AGAIN}"


@pytest.mark.parametrize("folder", hosts.folders(), ids=lambda folder: folder.name)
def test_facts_are_as_recorded(folder: Path) -> None:
    assert hosts.facts_of(folder) == json.loads((folder / "facts.json").read_text()), AGAIN


@pytest.mark.parametrize("folder", hosts.folders(), ids=lambda folder: folder.name)
def test_every_host_says_what_should_be_found(folder: Path) -> None:
    expected = json.loads((folder / "findings.json").read_text())
    assert set(expected) == {"verdict", "primary"}
    assert expected["verdict"] in ("pass", "fail", "cannot-tell", "nothing-to-judge")


def facts(name: str) -> Any:
    return json.loads((hosts.HOSTS / name / "facts.json").read_text())


def test_shared_memory_is_unknown_and_not_the_hosts() -> None:
    for name in ("gb10-580", "orin-jetpack6"):
        (device,) = facts(name)["devices"]["value"]
        assert device["memory_mib"] == {
            "missing": "not-readable",
            "at": "NVML device 0 memory: error 3",
        }


def test_a_card_that_nvml_does_not_list_is_still_a_device() -> None:
    listed, hidden = facts("v100-a10-595")["devices"]["value"]
    assert (listed["id"], listed["index"], listed["pci"]["value"]) == ("gpu0", 0, "0000:5e:00.0")
    assert (hidden["id"], hidden["pci_id"]["value"]) == ("gpu1", "10de:1db5")
    assert "index" not in hidden
    assert hidden["name"] == {"missing": "not-readable", "at": "NVML does not list it"}


def test_nothing_is_asked_without_a_module() -> None:
    found = facts("nouveau-bound")
    for name in ("nvml_error", "nvml_devices", "smi_driver"):
        assert found["nvidia"][name]["missing"] == "not-stated"
    (device,) = found["devices"]["value"]
    assert device["pci_driver"]["value"] == "nouveau"


def test_a_hang_is_its_own_answer_and_spares_nvidia_smi() -> None:
    found = facts("nvml-hangs")
    assert found["nvidia"]["nvml_error"] == {"missing": "timed-out", "at": "NVML"}
    assert found["nvidia"]["smi_driver"]["at"] == "not asked: NVML hangs"
    assert found["devices"]["value"][0]["name"]["value"] == "NVIDIA A100-SXM4-80GB"


def test_a_lost_device_keeps_its_place_on_the_bus() -> None:
    found = facts("a100x2-one-lost")
    lost = found["devices"]["value"][1]
    assert lost["pci"]["value"] == "0000:0f:00.0"
    assert lost["health"]["value"]["nvml_error"] == found["nvidia"]["nvml_error"]["value"] == 15
    assert found["nvidia"]["xid"]["value"][0]["number"] == 79


def test_instances_and_their_profiles() -> None:
    devices = facts("a100-mig")["devices"]["value"]
    assert [device["id"] for device in devices] == [
        "gpu0",
        "gpu0/mig0",
        "gpu0/mig1",
        "gpu0/mig2",
        "gpu1",
    ]
    assert devices[1]["mig"]["value"] == {
        "enabled": True,
        "parent": "gpu0",
        "profile": "3g.40gb",
    }
    assert devices[4]["mig"]["value"] == {"enabled": True, "instances": 0}


def test_wsl_has_the_driver_of_windows() -> None:
    found = facts("wsl2-4090")["nvidia"]
    assert found["driver"] == {"value": "581.42", "at": "nvmlSystemGetDriverVersion"}
    assert found["userspace"]["missing"] == "not-readable"
    assert found["libcuda"]["value"][0]["path"] == "/usr/lib/wsl/lib/libcuda.so.1"


def test_switched_links_and_a_process_without_its_arguments() -> None:
    found = facts("h100x2-580")
    assert found["topology"]["value"] == [{"a": "gpu0", "b": "gpu1", "link": "NV18", "p2p": True}]
    (process,) = found["devices"]["value"][0]["processes"]["value"]
    assert process == {"pid": 4242, "memory_mib": 71234, "name": "VLLM::EngineCore"}
    assert found["nvidia"]["libcuda"]["value"][1]["compat"] is True


def test_makers_are_told_apart_and_the_display_of_a_server_left_out() -> None:
    devices = facts("amd-intel")["devices"]["value"]
    assert [(device["id"], device["vendor"]) for device in devices] == [
        ("intel0", "intel"),
        ("amd0", "amd"),
    ]
