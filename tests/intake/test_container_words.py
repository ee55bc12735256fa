"""What a report's prose says about Docker, the IOMMU and devices that were not handed over."""

from __future__ import annotations

from typing import Any

import pytest

from doctor.intake.field_report import read_field_report


def _container(text: str, topology: str = "") -> Any:
    return read_field_report({"container": {"runtime": text}, "topology": topology})


@pytest.mark.parametrize(
    ("text", "runtimes"),
    [
        ("daemon.json: nvidia; docker info: runc only", ("runc",)),
        ("docker info lists nvidia and runc", ("nvidia", "runc")),
        ("docker info: runc, no nvidia", ("runc",)),
    ],
)
def test_runtimes_of_docker_info(text: str, runtimes: tuple[str, ...]) -> None:
    engine = _container(text).container_engine.value
    assert engine is not None
    assert engine.runtimes.value == runtimes


def test_daemon_file_names_the_runtime() -> None:
    engine = _container("daemon.json: nvidia; docker info: runc only").container_engine.value
    assert engine is not None
    assert engine.config.value == {"runtimes": "nvidia"}


@pytest.mark.parametrize("text", ["docker without --gpus", "docker run, no --gpus flag"])
def test_container_without_devices(text: str) -> None:
    assert _container(text).scopes[0].devices_visible.value == ()


def test_container_of_which_nothing_is_said() -> None:
    assert not _container("docker --gpus all").scopes[0].devices_visible.is_known


@pytest.mark.parametrize(
    ("topology", "mode"),
    [
        ("PHB, AMD-Vi IOMMU translated mode", "translated"),
        ("SYS, iommu=pt", "passthrough"),
        ("NODE, IOMMU off", "off"),
        ("NODE and SYS only", None),
    ],
)
def test_iommu(topology: str, mode: str | None) -> None:
    assert _container("docker", topology).host.iommu.value == mode
