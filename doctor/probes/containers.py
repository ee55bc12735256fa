"""Container engines: Docker, podman or containerd, from their files and Docker's socket."""

from __future__ import annotations

import re
from typing import Optional

from doctor.facts import ContainerEngine, Missing, Reading, Version, missing, seen
from doctor.probes import cdi, docker
from doctor.probes.files import relay
from doctor.probes.host import Host
from doctor.probes.settings_text import flatten_toml
from doctor.probes.tools import find_program

_RUNTIME_CONFIG = "/etc/nvidia-container-runtime/config.toml"
# What of the NVIDIA runtime's settings decides whether a container sees its devices.
_RUNTIME_SETTINGS = (
    "nvidia-container-runtime.mode",
    "nvidia-container-cli.no-cgroups",
    "nvidia-container-cli.root",
    "disable-require",
    "accept-nvidia-visible-devices-envvar-when-unprivileged",
)
_CONTAINERD_CONFIGS = (
    "/etc/containerd/config.toml",
    "/var/lib/rancher/k3s/agent/etc/containerd/config.toml",
    "/var/lib/rancher/rke2/agent/etc/containerd/config.toml",
)
_CONTAINERD_DROP_INS = "/etc/containerd/conf.d"
_PODMAN_CONFIGS = ("/usr/share/containers/containers.conf", "/etc/containers/containers.conf")
_RUNTIME = re.compile(r"\.runtimes\.([\w-]+)\.")
_VERSION = re.compile(r"(\d{1,6}(?:\.\d{1,6}){1,3})")


def read(host: Host) -> Reading[ContainerEngine]:
    """The engine of this host: Docker before podman before containerd; absent if none is."""
    programs = {name: find_program(host, name) for name in ("dockerd", "podman", "containerd")}
    client = find_program(host, "docker")
    if programs["dockerd"].is_known or client.is_known or docker.answers(host):
        return _docker(host)
    if programs["podman"].is_known:
        return seen(_podman(host), programs["podman"].at)
    if programs["containerd"].is_known:
        return seen(_containerd(host), programs["containerd"].at)
    unsure = [p for p in (*programs.values(), client) if not p.is_absent]
    return relay(unsure[0]) if unsure else missing(Missing.NOT_THERE, "search for programs")


def _docker(host: Host) -> Reading[ContainerEngine]:
    devices, driver = cdi.read(host)
    found = docker.read(host)
    engine = ContainerEngine(
        name="docker",
        version=found.version,
        runtimes=found.runtimes,
        default_runtime=found.default_runtime,
        context=found.context,
        rootless=found.rootless,
        cgroup_driver=found.cgroup_driver,
        cdi=devices,
        cdi_driver=driver,
        config=_config(host, found.settings),
    )
    return seen(engine, found.at)


def _podman(host: Host) -> ContainerEngine:
    settings: dict[str, str] = {}
    for path in _PODMAN_CONFIGS:
        settings.update(flatten_toml(host.read_text(path).value or ""))
    devices, driver = cdi.read(host)
    return ContainerEngine(
        name="podman",
        version=_asked_version(host, "podman"),
        default_runtime=_stated(settings, "engine.runtime"),
        cgroup_driver=_stated(settings, "engine.cgroup_manager"),
        cdi=devices,
        cdi_driver=driver,
        config=_config(host, {}),
    )


def _containerd(host: Host) -> ContainerEngine:
    settings: dict[str, str] = {}
    paths = [*_CONTAINERD_CONFIGS]
    names = host.list_dir(_CONTAINERD_DROP_INS).value or ()
    paths += [f"{_CONTAINERD_DROP_INS}/{name}" for name in names if name.endswith(".toml")]
    read_from = ""
    for path in paths:
        text = host.read_text(path)
        settings.update(flatten_toml(text.value or ""))
        read_from = path if text.is_known else read_from
    default, runtimes, driver_name = parse_containerd(settings)
    devices, driver = cdi.read(host)
    return ContainerEngine(
        name="containerd",
        version=_asked_version(host, "containerd"),
        runtimes=seen(runtimes, read_from) if read_from else missing(Missing.NOT_STATED),
        default_runtime=seen(default, read_from) if default else missing(Missing.NOT_STATED),
        cgroup_driver=seen(driver_name, read_from) if driver_name else missing(Missing.NOT_STATED),
        cdi=devices,
        cdi_driver=driver,
        config=_config(host, {}),
    )


def parse_containerd(settings: dict[str, str]) -> tuple[str, tuple[str, ...], str]:
    """Default runtime, runtimes, and cgroup driver of containerd's flattened settings."""
    found = (_RUNTIME.search(name) for name in settings)
    runtimes = tuple(dict.fromkeys(match[1] for match in found if match))
    ends = {name.rpartition(".")[2]: value for name, value in settings.items()}
    systemd = {value for name, value in settings.items() if name.endswith(".SystemdCgroup")}
    driver = "" if not systemd else "systemd" if systemd == {"true"} else "cgroupfs"
    return ends.get("default_runtime_name", ""), runtimes, driver


def _config(host: Host, engine: dict[str, str]) -> Reading[dict[str, str]]:
    """Settings of the NVIDIA runtime and of the engine that decide what a container gets."""
    text = host.read_text(_RUNTIME_CONFIG)
    if not (text.is_known or text.is_absent):
        return relay(text)
    settings = flatten_toml(text.value or "")
    kept = {name: settings[name] for name in _RUNTIME_SETTINGS if name in settings}
    return seen({**engine, **kept}, _RUNTIME_CONFIG)


def _stated(settings: dict[str, str], name: str) -> Reading[str]:
    value = settings.get(name)
    return seen(value, _PODMAN_CONFIGS[-1]) if value else missing(Missing.NOT_STATED)


def _asked_version(host: Host, program: str) -> Reading[Version]:
    answer = host.run((program, "--version"), timeout_s=5.0)
    if answer.value is None:
        return relay(answer)
    version = parse_version(answer.value.stdout)
    return seen(version, answer.at) if version else missing(Missing.NOT_READABLE, answer.at)


def parse_version(text: str) -> Optional[Version]:
    """The first version in what `--version` prints."""
    match = _VERSION.search(text)
    return Version.maybe(match[1]) if match else None
