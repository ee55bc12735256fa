"""Docker: its settings, its context, and what its daemon says of itself.

The daemon is asked over its socket. The client is not started: it runs every plug-in of
the user's home before it answers.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Optional

from doctor.facts import UNSTATED, Missing, Reading, Version, missing, seen
from doctor.probes.files import relay
from doctor.probes.host import Host

_SOCKET = "/var/run/docker.sock"
_DAEMON_CONFIG = "/etc/docker/daemon.json"
_INFO = "/info"
_CGROUP_OPTION = "native.cgroupdriver="


@dataclass(frozen=True)
class DockerFacts:
    """What is known of Docker; `settings` are those of the daemon's file that matter here."""

    at: str
    version: Reading[Version] = UNSTATED
    runtimes: Reading[tuple[str, ...]] = UNSTATED
    default_runtime: Reading[str] = UNSTATED
    context: Reading[str] = UNSTATED
    rootless: Reading[bool] = UNSTATED
    cgroup_driver: Reading[str] = UNSTATED
    settings: dict[str, str] = field(default_factory=dict)


def answers(host: Host) -> bool:
    """Tell whether a daemon's socket is there, also where no program of Docker's was found."""
    return host.stat(_SOCKET).is_known


def read(host: Host) -> DockerFacts:
    """Docker as the daemon tells it, else as its settings tell it."""
    context, endpoint = _context(host)
    file = host.read_text(_DAEMON_CONFIG)
    stated = parse_object(file.value or "")
    if not endpoint.startswith("unix://"):
        # A daemon elsewhere: nothing of this host's settings concerns it.
        elsewhere = missing(Missing.NOT_STATED, endpoint)
        return DockerFacts(endpoint, elsewhere, elsewhere, elsewhere, context)
    socket = endpoint[len("unix://") :]
    answer = host.get(socket, _INFO)
    info = parse_object(answer.value or "")
    if not info:
        # No socket means that the daemon does not run: what it would say is unknown.
        unknown = answer.is_known or answer.is_absent
        reason = missing(Missing.NOT_READABLE, answer.at) if unknown else relay(answer)
        return _from_file(file, stated, context, reason)
    return _from_daemon(info, answer.at, context, stated)


def parse_object(text: str) -> dict[str, Any]:
    """A JSON object; empty for anything else."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _from_daemon(
    info: dict[str, Any], at: str, context: Reading[str], stated: dict[str, Any]
) -> DockerFacts:
    runtimes = info.get("Runtimes")
    security = info.get("SecurityOptions")
    version = Version.maybe(str(info.get("ServerVersion", "")))
    return DockerFacts(
        at=at,
        version=seen(version, at) if version else missing(Missing.NOT_READABLE, at),
        runtimes=_names(runtimes, at),
        default_runtime=_text(info.get("DefaultRuntime"), at),
        context=context,
        rootless=seen(isinstance(security, list) and "name=rootless" in security, at),
        cgroup_driver=_text(info.get("CgroupDriver"), at),
        settings=_settings(stated),
    )


def _from_file(
    file: Reading[str], stated: dict[str, Any], context: Reading[str], reason: Reading[Any]
) -> DockerFacts:
    """Without the daemon, its file tells the runtimes; what it leaves out stays unknown."""
    options = stated.get("exec-opts")
    drivers = [
        o[len(_CGROUP_OPTION) :]
        for o in (options if isinstance(options, list) else [])
        if isinstance(o, str) and o.startswith(_CGROUP_OPTION)
    ]
    broken = file.is_known and not stated
    return DockerFacts(
        at=file.at if stated else reason.at,
        version=reason,
        runtimes=_names(stated["runtimes"], file.at) if "runtimes" in stated else reason,
        default_runtime=_text(stated.get("default-runtime"), file.at, reason),
        context=context,
        rootless=reason,
        cgroup_driver=seen(drivers[-1], file.at) if drivers else reason,
        settings={"daemon.json": "not readable"} if broken else _settings(stated),
    )


def _names(value: Any, at: str) -> Reading[tuple[str, ...]]:
    if not isinstance(value, dict):
        return missing(Missing.NOT_READABLE, at)
    return seen(tuple(sorted(map(str, value))), at)


def _text(value: Any, at: str, otherwise: Optional[Reading[str]] = None) -> Reading[str]:
    if isinstance(value, str) and value:
        return seen(value, at)
    return otherwise or missing(Missing.NOT_STATED, at)


def _settings(stated: dict[str, Any]) -> dict[str, str]:
    """What the daemon's file says of devices; the daemon itself may be older than the file."""
    features, runtimes = stated.get("features"), stated.get("runtimes")
    found = {}
    if isinstance(runtimes, dict):
        found["runtimes"] = ", ".join(sorted(map(str, runtimes)))
    if isinstance(features, dict) and "cdi" in features:
        found["features.cdi"] = str(features["cdi"]).lower()
    return found


def _context(host: Host) -> tuple[Reading[str], str]:
    """The client's context, and the endpoint that it leads to."""
    env = host.environ()
    if env.get("DOCKER_HOST"):
        return seen("$DOCKER_HOST", env["DOCKER_HOST"]), env["DOCKER_HOST"]
    home = f"{env.get('HOME', '')}/.docker"
    config = host.read_text(f"{home}/config.json")
    stated = parse_object(config.value or "").get("currentContext")
    name = env.get("DOCKER_CONTEXT") or (stated if isinstance(stated, str) else "") or "default"
    if name == "default":
        return seen(name, config.at), f"unix://{_SOCKET}"
    for entry in host.list_dir(f"{home}/contexts/meta").value or ():
        meta = host.read_text(f"{home}/contexts/meta/{entry}/meta.json").value or ""
        if parse_object(meta).get("Name") == name:
            return seen(name, config.at), endpoint_of(meta)
    return seen(name, config.at), f"context {name}"


def endpoint_of(text: str) -> str:
    """The Docker endpoint of a context's meta.json, "" if it names none."""
    endpoints = parse_object(text).get("Endpoints")
    docker = endpoints.get("docker") if isinstance(endpoints, dict) else None
    found = docker.get("Host") if isinstance(docker, dict) else None
    return found if isinstance(found, str) else ""
