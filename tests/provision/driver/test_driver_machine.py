"""A driver as one set on a real machine: installed, held, switched, drifted, taken back.

The packages are made up and bear NVIDIA's names; apt, dpkg, systemd and Ansible are real.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from doctor.provision.playbook import Playbook
from doctor.provision.target import DOCKER, Target
from tests.provision.driver.driven import Driven
from tests.provision.driver.repository import (
    kernel_headers,
    monitor,
    monitor_before,
    suffixed,
    toolkit,
    unsuffixed,
)
from tests.provision.machine import PREPARED, Machine, docker_engine, machine, prepared_image

pytestmark = [pytest.mark.slow, pytest.mark.docker]

OLD, OLDER, NEW, NEXT = "570.86.10", "570.172.08", "580.95.05", "595.71.05"
DAEMON = "/etc/docker/daemon.json"
PREFERENCES = "/etc/apt/preferences.d/doctor-driver"
CDI = f"""\
cdiVersion: 0.6.0
kind: nvidia.com/gpu
containerEdits:
  mounts:
  - {{hostPath: /usr/lib/libcuda.so.{OLDER}, containerPath: /usr/lib/libcuda.so.{OLDER}}}
"""
BLACKLIST = "/etc/apt/apt.conf.d/52doctor-driver"


@contextmanager
def prepared(folder: Path) -> Iterator[Machine]:
    """A machine that has what Ansible's own module for packages needs."""
    prepared_image(folder)
    with machine(folder, image=PREPARED) as found:
        yield found


@pytest.fixture(scope="module")
def gpu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driven]:
    """A machine that passes for Ubuntu, with NVIDIA's repository of two branches."""
    folder = tmp_path_factory.mktemp("machine")
    with docker_engine(), prepared(folder) as found:
        home = folder / "home"
        home.mkdir()
        driven = Driven(found, home)
        driven.become("ubuntu", "24.04")
        driven.offer([*suffixed(OLD), *suffixed(NEW), kernel_headers(driven.kernel)])
        yield driven


def of_driver(gpu: Driven) -> set[str]:
    """Versions of the packages that carry the driver's own."""
    found = {n: v for n, v in gpu.versions.items() if "pinning" not in n}
    return {version.partition("-")[0] for version in found.values()}


def test_what_is_there_stays_though_newer_is_offered(gpu: Driven) -> None:
    """Parts that are not asked for by name come at the same version too."""
    offered = [*suffixed(OLD), *suffixed(NEW), kernel_headers(gpu.kernel)]
    gpu.machine.run("apt-get", "-qy", "install", "libnvidia-compute-570")
    gpu.offer([*offered, *suffixed(OLDER)])
    plan = gpu.plan(gpu.profile(570))
    gpu.offer(offered)
    assert plan.status == 0, plan.out + plan.err
    install = next(s for s in plan.json["steps"] if s["name"] == "install_driver")
    versions = {p["name"]: p["version"] for p in install["variables"]["nvidia_driver_packages"]}
    assert versions["nvidia-kernel-common-570"] == f"{OLD}-0ubuntu1"


def test_installed_held_and_left_alone(gpu: Driven) -> None:
    gpu.machine.run("apt-get", "-qy", "install", "nvidia-fabricmanager-570")
    profile = gpu.profile(570)
    answer = gpu.apply(profile)
    assert answer.status == 0, answer.err
    assert "only in part" in answer.out
    assert "no GPU" in answer.out
    assert of_driver(gpu) == {OLD}
    assert set(gpu.versions) <= gpu.holds
    assert "nvidia-fabricmanager-570" in gpu.holds
    enabled = gpu.machine.run("systemctl", "is-enabled", "nvidia-persistenced.service")
    assert enabled.strip() == "enabled"

    gpu.offer([*suffixed(OLD), *suffixed(OLDER), *suffixed(NEW), kernel_headers(gpu.kernel)])
    assert gpu.moved_by_upgrade() == []
    again = gpu.apply(profile)
    assert "nothing to do" in again.out, again.err
    drift = gpu.drift()
    assert drift.status == 0, drift.out


def test_every_drift_is_found_and_mended(gpu: Driven) -> None:
    run = gpu.machine.run
    moved = [f"libnvidia-compute-570={OLDER}-0ubuntu1", f"nvidia-fabricmanager-570={OLDER}-1"]
    run("apt-get", "-qy", "--allow-change-held-packages", "install", *moved)
    assert "libnvidia-compute-570" not in gpu.holds, "that flag clears the hold"
    run("rm", PREFERENCES, BLACKLIST)
    run("mkdir", "-p", "/etc/cdi", "/usr/bin")
    run("tee", "/etc/cdi/nvidia.yaml", text=CDI)
    run("install", "-m", "755", "/bin/true", "/usr/bin/dockerd")
    run("tee", "/usr/bin/unattended-upgrade", text="#!/bin/sh\n")
    upgrades = 'APT::Periodic::Unattended-Upgrade "1";\n'
    run("tee", "/etc/apt/apt.conf.d/20auto", text=upgrades)
    run("rm", f"/lib/modules/{gpu.kernel}/updates/dkms/nvidia.ko")
    run("systemctl", "disable", "nvidia-persistenced.service")

    drift = gpu.drift()
    assert drift.status == 1
    codes = {f["code"] for f in drift.json["findings"]}
    assert {"DFT101", "DFT102", "DFT103", "DFT105", "DFT106", "DFT107"} <= codes
    kinds = {d["kind"] for d in drift.json["differences"]}
    assert {"file", "module", "unit"} <= kinds

    mended = gpu.apply(gpu.profile(570))
    assert mended.status == 0, mended.err
    assert of_driver(gpu) == {OLD}
    run("rm", "/etc/cdi/nvidia.yaml", "/usr/bin/dockerd")
    after = gpu.drift()
    assert after.status == 0, after.out


def test_the_branch_is_switched_when_asked_and_taken_back(gpu: Driven) -> None:
    before = gpu.versions, gpu.holds, gpu.machine.run("cat", PREFERENCES)
    plan = gpu.plan(gpu.profile(580)).json
    names = [step["name"] for step in plan["steps"]]
    assert names[:3] == ["fetch_packages", "release_hold", "install_driver"]
    assert {s["undo"] for s in plan["steps"]} == {"exact"}
    answer = gpu.apply(gpu.profile(580))
    assert answer.status == 0, answer.err
    assert of_driver(gpu) == {NEW}
    assert not any("570" in name for name in gpu.versions)
    assert set(gpu.versions) <= gpu.holds
    assert "570" not in gpu.machine.run("cat", PREFERENCES)

    # The way back needs no repository: all that was replaced has been fetched.
    gpu.machine.run("mv", "/srv/made-up", "/srv/away")
    back = gpu.run("rollback", "nvidia-driver")
    gpu.machine.run("mv", "/srv/away", "/srv/made-up")
    assert back.status == 0, back.err
    assert back.seconds < 300
    assert (gpu.versions, gpu.holds, gpu.machine.run("cat", PREFERENCES)) == before
    assert gpu.audit == ""
    drift = gpu.drift()
    assert drift.status == 0, drift.out


def test_names_without_a_branch_follow_the_pinning_package(gpu: Driven) -> None:
    gpu.offer(unsuffixed(NEXT), "next")
    answer = gpu.apply(gpu.profile(595))
    assert answer.status == 0, answer.err
    assert of_driver(gpu) == {NEXT}
    assert gpu.versions["nvidia-driver-pinning-595"] == "595-2ubuntu1"
    assert not any("570" in name for name in gpu.versions)
    gpu.offer([*unsuffixed(NEXT), *unsuffixed("595.91.07")], "next")
    assert gpu.moved_by_upgrade() == []


def test_what_is_refused(gpu: Driven, tmp_path: Path) -> None:
    run = gpu.machine.run
    profile = gpu.profile(595, more=", minimum: '595.91.07'")
    run("tee", "/usr/bin/nvidia-uninstall", text="#!/bin/sh\n")
    refused = gpu.plan(profile)
    run("rm", "/usr/bin/nvidia-uninstall")
    assert refused.status == 1
    assert any("own installer" in text for text in refused.json["blockers"])
    run("touch", "/dev/nvidia0")
    run("sh", "-c", "setsid sleep 600 < /dev/nvidia0 > /dev/null 2>&1 &")
    busy = gpu.plan(profile)
    told = gpu.plan(profile, "--busy")
    run("sh", "-c", "kill $(pidof sleep); rm /dev/nvidia0")
    assert any("use the GPUs: sleep" in text for text in busy.json["blockers"])
    assert not any("use the GPUs" in text for text in told.json["blockers"])
    unknown = gpu.plan(gpu.profile(470))
    assert unknown.status == 1
    assert "470" in unknown.json["blockers"][0]
    lock = tmp_path / "hosts" / "gpu.lock"
    planned = gpu.plan(profile, "--write-lock", str(lock))
    assert planned.status == 0, planned.err
    assert "595.91.07" in lock.read_text()
    assert gpu.plan(gpu.profile(595), "--lock", str(lock)).json["version"] == "595.91.07"


def test_docker_is_told_and_loses_nothing(gpu: Driven, tmp_path: Path) -> None:
    path, before = DAEMON, '{"log-driver": "local", "features": {"x": true}}'
    gpu.machine.run("mkdir", "-p", "/etc/docker")
    gpu.machine.run("tee", path, text=before)
    book = Playbook(Target(DOCKER, gpu.machine.name), tmp_path)
    told = {"nvidia_container_toolkit_engine": "docker"}
    first = book.play("once", "nvidia_container_toolkit", told)
    assert (first.failure, first.changed) == ("", 1)
    after = json.loads(gpu.machine.run("cat", path))
    assert after["runtimes"]["nvidia"]["path"] == "nvidia-container-runtime"
    assert after == {**json.loads(before), "runtimes": after["runtimes"]}
    assert book.play("again", "nvidia_container_toolkit", told).changed == 0


BESIDE = {deb.name for deb in (*toolkit("1"), *monitor("1", "13", 1))}


def test_toolkit_and_dcgm_come_with_the_driver(gpu: Driven) -> None:
    run = gpu.machine.run
    debs = [*toolkit("1.20.0-1"), monitor_before("3.3.9"), *monitor("4.5.3", "13", 2)]
    gpu.offer(debs, "beside")
    run("apt-get", "-qy", "install", "datacenter-gpu-manager")
    run("install", "-m", "755", "/bin/true", "/usr/bin/dockerd")
    run("rm", "-f", DAEMON)
    answer = gpu.apply(gpu.monitored(595))
    assert answer.status == 0, answer.err
    assert gpu.installed >= BESIDE
    assert gpu.holds >= BESIDE
    assert "datacenter-gpu-manager" not in gpu.installed, "the two lines exclude each other"
    assert "nvidia" in json.loads(run("cat", DAEMON))["runtimes"]
    assert run("systemctl", "is-enabled", "nvidia-dcgm.service").strip() == "enabled"
    assert "nothing to do" in gpu.apply(gpu.monitored(595)).out
    drift = gpu.drift()
    assert drift.status == 0, drift.out

    back = gpu.run("rollback", "nvidia-driver")
    assert back.status == 0, back.err
    assert not gpu.installed & BESIDE
    assert "datacenter-gpu-manager" in gpu.installed
    assert gpu.audit == ""


def test_dcgm_is_asked_for_the_gpus(gpu: Driven, tmp_path: Path) -> None:
    """The role by itself: said, done, done again without a change, and no GPU is a failure."""
    target = Target(DOCKER, gpu.machine.name)
    book = Playbook(target, tmp_path)
    told = {
        "dcgm_packages": sorted(name for name in BESIDE if "manager" in name),
        "dcgm_conflicts": ["datacenter-gpu-manager"],
        "dcgm_retries": 1,
    }
    said = Playbook(target, tmp_path, check=True).play("said", "dcgm", told)
    assert said.failure == ""
    assert "datacenter-gpu-manager" in gpu.installed, "nothing is done yet"
    first = book.play("once", "dcgm", told)
    assert first.failure == ""
    assert first.changed
    assert book.play("again", "dcgm", told).changed == 0
    gpu.machine.run("tee", "/usr/bin/dcgmi", text="#!/bin/sh\necho 'No GPUs found.'\n")
    assert "finds no GPU" in book.play("blind", "dcgm", told).failure
