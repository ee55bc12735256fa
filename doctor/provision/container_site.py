"""The container engine of a machine: which it is, how it is reached, or what brings one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from doctor.facts import ContainerEngine, Facts
from doctor.matrix import Matrix
from doctor.matrix.model import Confidence

_CLIENTS = ("docker", "podman")
_SOCKET = "unix://"


@dataclass(frozen=True)
class EngineThere:
    """`client` are the words that reach it; `packages` bring it, and `service` must then run.

    `lacking` is what a person must settle first, "" for nothing; `is_tried` if a test of this
    project has installed it so. One that `is_rootless` is the caller's own: root in its
    containers is the caller. `runtimes` are those that it has; `image` is by what it knows an
    image that was carried there, "" for the name that the lock has.
    """

    client: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    service: str = ""
    lacking: str = ""
    is_tried: bool = True
    is_rootless: bool = False
    runtimes: tuple[str, ...] = ()
    image: str = ""


def engine_there(
    facts: Facts, programs: Mapping[str, str], matrix: Matrix, user: bool, host: str = ""
) -> EngineThere:
    """The engine that is there, else one of the distribution for root. Pure.

    `programs` are paths of clients by name, `host` is DOCKER_HOST on this machine.
    """
    found = facts.container_engine.value
    if found is not None and found.name in _CLIENTS and programs.get(found.name):
        there = _present(found, programs[found.name], host)
        own = user and found.name == "podman"
        runtimes = found.runtimes.value or ()
        return replace(there, is_rootless=own or found.rootless.value is True, runtimes=runtimes)
    if found is not None:
        lacking = f"{found.name} is there without a client that doctor can use ({_HINT})"
        return EngineThere(lacking=lacking)
    if not facts.container_engine.is_absent:
        return EngineThere(lacking="whether a container engine is there is not known")
    if user:
        return EngineThere(lacking=f"no container engine is there ({_HINT})")
    system = facts.host.os.value
    families = (system.id, *system.like) if system else ()
    row = matrix.containers.packages_for(families, system.version if system else "")
    if row is None:
        return EngineThere(lacking=f"no container engine is there ({_HINT})")
    is_tried = row.confidence is Confidence.MEASURED
    return EngineThere((row.path,), row.packages, row.service, is_tried=is_tried)


_HINT = "have docker or podman set up on that machine"


def _present(found: ContainerEngine, path: str, host: str) -> EngineThere:
    if found.name != "docker":
        return EngineThere((path,))
    if host and not host.startswith(_SOCKET):
        return EngineThere(lacking=f"DOCKER_HOST leads to another machine: {host[:100]}")
    client = (path, "--host", host) if host else (path,)
    if not found.version.is_known:
        why = found.version.at or "its socket"
        return EngineThere(client, lacking=f"docker does not answer at {why}: start it, or log in")
    return EngineThere(client)
