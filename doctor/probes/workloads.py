"""Running engines as workloads, each in the scope that it takes its libraries from."""

from __future__ import annotations

from typing import Any, Optional

from doctor.facts import Missing, Reading, Scope, Version, Workload, missing, seen
from doctor.probes import limits, mindie, model_files, process_maps
from doctor.probes.engine_names import distributions_of
from doctor.probes.host import Host
from doctor.probes.launch_arguments import from_environment, parse_arguments
from doctor.probes.processes import EngineProcess, environ_of
from doctor.probes.rooted import RootedHost

# Variables in which images state the version of what they carry.
_STATED_IN = {"tritonserver": ("TRITON_SERVER_VERSION", "NVIDIA_TRITON_SERVER_VERSION")}


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
        workloads.append(_workload(host, process, env, scope))
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
    host: Host, process: EngineProcess, env: Reading[dict[str, str]], scope: Optional[Scope]
) -> Workload:
    proc = f"/proc/{process.pid}"
    inside = RootedHost(f"{proc}/root", host, env.value) if process.container else host
    folder = host.link(f"{proc}/cwd").value or ""
    args, version = _arguments(process, env), _version(process.engine, scope, env)
    if process.engine == "mindie":
        install = mindie.install_folder(inside, process.argv[0], folder)
        args = mindie.read_arguments(inside, install, env.value or {})
        version = version if version.is_known else mindie.read_version(install)
    return Workload(
        id=f"{process.engine}:{process.pid}",
        engine=process.engine,
        scope=scope.id if scope else "host",
        pid=process.pid,
        version=version,
        args=args,
        env=env,
        model=model_files.read(inside, process.engine, args.value or {}, env.value or {}, folder),
        limits=limits.of_process(host, process.pid),
        libraries=process_maps.read(host, (process.pid, *process.parts)),
    )


def _arguments(process: EngineProcess, env: Reading[dict[str, str]]) -> Reading[dict[str, Any]]:
    """The options of the command line, before those that variables give."""
    at = f"/proc/{process.pid}/cmdline"
    if process.title:
        return missing(Missing.NOT_READABLE, f"{at}: the process is named {process.title[:60]}")
    stated = from_environment(process.engine, env.value or {})
    return seen({**stated, **parse_arguments(process.engine, process.argv)}, at)


def _version(engine: str, scope: Optional[Scope], env: Reading[dict[str, str]]) -> Reading[Version]:
    for name in _STATED_IN.get(engine, ()):
        version = Version.maybe((env.value or {}).get(name))
        if version is not None:
            return seen(version, env.at)
    if scope is None:
        return missing(Missing.NOT_STATED)
    package = scope.package(*distributions_of(engine))
    if package is None or package.version is None:
        return missing(Missing.NOT_STATED, scope.packages.at)
    return seen(package.version, package.location)
