"""Container engines on recorded hosts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from doctor.facts import ContainerEngine, Missing, Reading
from doctor.probes import cdi, containers
from tests.probes.written import write_host

SOCKET = "/var/run/docker.sock"
INFO = {
    "ServerVersion": "28.3.2",
    "Runtimes": {"runc": {}, "nvidia": {"path": "nvidia-container-runtime"}},
    "DefaultRuntime": "runc",
    "SecurityOptions": ["name=seccomp,profile=builtin", "name=cgroupns"],
    "CgroupDriver": "systemd",
}
DOCKER: dict[str, object] = {"/usr/bin/dockerd": {}, SOCKET: {}}


def _engine(reading: Reading[ContainerEngine]) -> ContainerEngine:
    assert reading.value is not None
    return reading.value


def test_docker_as_its_daemon_tells(tmp_path: Path) -> None:
    files = {
        "/etc/docker/daemon.json": '{"features": {"cdi": true}, "runtimes": {"nvidia": {}}}',
        "/etc/nvidia-container-runtime/config.toml": "[nvidia-container-cli]\nno-cgroups = true\n",
    }
    host = write_host(tmp_path, files, paths=DOCKER, sockets={SOCKET: {"/info": INFO}})
    engine = _engine(containers.read(host))
    assert (engine.name, str(engine.version.value)) == ("docker", "28.3.2")
    assert engine.runtimes.value == ("nvidia", "runc")
    assert engine.default_runtime.value == "runc"
    assert (engine.rootless.value, engine.cgroup_driver.value) == (False, "systemd")
    assert engine.context.value == "default"
    assert engine.config.value == {
        "features.cdi": "true",
        "runtimes": "nvidia",
        "nvidia-container-cli.no-cgroups": "true",
    }
    assert engine.cdi.is_absent


def test_docker_whose_socket_this_user_may_not_use(tmp_path: Path) -> None:
    stated = '{"runtimes": {"nvidia": {}}, "exec-opts": ["native.cgroupdriver=cgroupfs", 3]}'
    refused = {SOCKET: {"/info": {"missing": "not-permitted"}}}
    host = write_host(tmp_path, {"/etc/docker/daemon.json": stated}, paths=DOCKER, sockets=refused)
    engine = _engine(containers.read(host))
    assert engine.version.missing is Missing.NOT_PERMITTED
    assert engine.default_runtime.missing is Missing.NOT_PERMITTED
    assert engine.runtimes.value == ("nvidia",)
    assert engine.cgroup_driver.value == "cgroupfs"


def test_docker_that_does_not_run_has_no_known_runtimes(tmp_path: Path) -> None:
    engine = _engine(containers.read(write_host(tmp_path, paths={"/usr/bin/dockerd": {}})))
    assert engine.runtimes.missing is Missing.NOT_READABLE
    assert engine.version.missing is Missing.NOT_READABLE


@pytest.mark.parametrize("text", ["{", "[]", '{"runtimes": 3, "exec-opts": 1, "features": 1}'])
def test_a_broken_daemon_file(tmp_path: Path, text: str) -> None:
    host = write_host(tmp_path, {"/etc/docker/daemon.json": text}, paths=DOCKER)
    engine = _engine(containers.read(host))
    assert not engine.runtimes.is_known


def _context_host(tmp_path: Path, endpoint: str, **parts: Any) -> Any:
    files = {
        "/home/u/.docker/config.json": '{"currentContext": "other"}',
        "/home/u/.docker/contexts/meta/abc/meta.json": (
            json.dumps({"Name": "other", "Endpoints": {"docker": {"Host": endpoint}}})
        ),
    }
    return write_host(tmp_path, files, paths=DOCKER, env={"HOME": "/home/u"}, **parts)


def test_the_context_decides_which_daemon_is_asked(tmp_path: Path) -> None:
    rootless = {
        "/run/user/1000/docker.sock": {"/info": {**INFO, "SecurityOptions": ["name=rootless"]}}
    }
    host = _context_host(tmp_path, "unix:///run/user/1000/docker.sock", sockets=rootless)
    engine = _engine(containers.read(host))
    assert (engine.context.value, engine.rootless.value) == ("other", True)


def test_a_daemon_on_another_host_tells_nothing_of_this_one(tmp_path: Path) -> None:
    engine = _engine(containers.read(_context_host(tmp_path, "ssh://far")))
    assert engine.context.value == "other"
    assert engine.runtimes.missing is Missing.NOT_STATED


def test_podman(tmp_path: Path) -> None:
    host = write_host(
        tmp_path,
        {"/etc/containers/containers.conf": '[engine]\nruntime = "crun"\n'},
        paths={"/usr/bin/podman": {}},
        commands=[{"argv": ["podman", "--version"], "stdout": "podman version 5.4.2\n"}],
    )
    engine = _engine(containers.read(host))
    assert (engine.name, str(engine.version.value)) == ("podman", "5.4.2")
    assert engine.default_runtime.value == "crun"


CONTAINERD = """version = 3
[plugins]
  [plugins."io.containerd.cri.v1.runtime".containerd]
    default_runtime_name = "nvidia"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.nvidia]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.nvidia.options]
        SystemdCgroup = true
"""


def test_containerd(tmp_path: Path) -> None:
    host = write_host(
        tmp_path,
        {"/etc/containerd/config.toml": CONTAINERD},
        paths={"/usr/bin/containerd": {}},
        commands=[{"argv": ["containerd", "--version"], "stdout": "containerd x v2.1.3 abc\n"}],
    )
    engine = _engine(containers.read(host))
    assert (engine.name, str(engine.version.value)) == ("containerd", "2.1.3")
    assert engine.runtimes.value == ("nvidia",)
    assert engine.default_runtime.value == "nvidia"
    assert engine.cgroup_driver.value == "systemd"


def test_no_engine_and_an_unknown_one(tmp_path: Path) -> None:
    assert containers.read(write_host(tmp_path / "a")).is_absent
    unknown = write_host(tmp_path / "b", host={"unlisted": "not-stated"})
    assert containers.read(unknown).missing is Missing.NOT_STATED


CDI = """---
cdiVersion: 0.5.0
containerEdits:
  mounts:
  - containerPath: /usr/lib64/libcuda.so.580.95.05
    hostPath: /usr/lib64/libcuda.so.580.95.05
devices:
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
      name: inner
  name: "0"
- containerEdits: {}
  name: all
kind: nvidia.com/gpu
"""


def test_cdi_specifications(tmp_path: Path) -> None:
    host = write_host(tmp_path, {"/etc/cdi/nvidia.yaml": CDI, "/etc/cdi/README": "x"})
    devices, driver = cdi.read(host)
    assert devices.value == ("nvidia.com/gpu=0", "nvidia.com/gpu=all")
    assert str(driver.value) == "580.95.05"


def test_cdi_in_json() -> None:
    spec = cdi.parse_spec('{"kind": "nvidia.com/gpu", "devices": [{"name": "0"}, 3, {}]}')
    assert spec.devices == ("nvidia.com/gpu=0",)
    assert cdi.parse_spec("{").devices == ()
