"""Running engines as workloads, each in the scope that it takes its libraries from."""

from __future__ import annotations

from typing import Optional

from doctor.facts import Missing, Reading, Scope, Version, Workload, missing, seen
from doctor.probes.host import Host
from doctor.probes.launch_arguments import parse_arguments
from doctor.probes.processes import EngineProcess, distributions_of, environ_of


def read(
    host: Host, running: tuple[EngineProcess, ...], scopes: tuple[Scope, ...]
) -> tuple[tuple[Workload, ...], tuple[Scope, ...]]:
    """One workload per process, and a scope for each container that one runs in."""
    workloads = []
    boxes: dict[str, Scope] = {}
    for process in running:
        env = environ_of(host, process.pid)
        scope = _scope_of(process, scopes)
        if process.container:
            name = f"container:{process.container[:12]}"
            if name not in boxes:
                from doctor.probes import container_scope

                boxes[name] = container_scope.read(host, process, env, name)
            scope = boxes[name]
        workloads.append(_workload(process, env, scope))
    return tuple(workloads), tuple(boxes.values())


def _scope_of(process: EngineProcess, scopes: tuple[Scope, ...]) -> Optional[Scope]:
    """The environment whose Python the process was started with."""
    for scope in scopes:
        python = scope.python.value
        known = {f"{scope.root}/bin", python.executable.rpartition("/")[0] if python else ""}
        if process.python and process.python.rpartition("/")[0] in known:
            return scope
    return None


def _workload(
    process: EngineProcess, env: Reading[dict[str, str]], scope: Optional[Scope]
) -> Workload:
    at = f"/proc/{process.pid}/cmdline"
    return Workload(
        id=f"{process.engine}:{process.pid}",
        engine=process.engine,
        scope=scope.id if scope else "host",
        pid=process.pid,
        version=_version(process.engine, scope),
        args=seen(parse_arguments(process.engine, process.argv), at),
        env=env,
    )


def _version(engine: str, scope: Optional[Scope]) -> Reading[Version]:
    if scope is None:
        return missing(Missing.NOT_STATED)
    package = scope.package(*distributions_of(engine))
    if package is None or package.version is None:
        return missing(Missing.NOT_STATED, scope.packages.at)
    return seen(package.version, package.location)
