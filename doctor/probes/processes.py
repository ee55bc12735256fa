"""Engines that run on this host: their main processes, and what belongs to each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Optional

from doctor.facts import Missing, Reading, missing, seen
from doctor.probes.engine_names import base, engine_of, is_python, title_of
from doctor.probes.environment import allowed
from doctor.probes.files import relay
from doctor.probes.host import FileStat, Host

_COMMAND_LIMIT = 1 << 16
_MOST_ANCESTORS = 32
# Engines whose first process only hands requests on: each process below it holds a model.
_ROUTERS = frozenset({"ollama", "llama.cpp"})
_MODEL_OPTIONS = ("--model", "-m", "--model-path", "-hf", "--hf-repo")
_CONTAINER = re.compile(r"(?:docker[-/]|libpod[-/]|cri-containerd-|/)([0-9a-f]{64})")


@dataclass(frozen=True)
class EngineProcess:
    """A running engine; `python` is the interpreter that its command line names, if any.

    `container` is the id of the container that it runs in, "" for none. `title` is the
    name that the process took, which hides its arguments. `parts` are the processes below
    it that are of the same engine.
    """

    pid: int
    engine: str
    argv: tuple[str, ...]
    python: str = ""
    container: str = ""
    title: str = ""
    parts: tuple[int, ...] = ()


def read(host: Host) -> Reading[tuple[EngineProcess, ...]]:
    """The engines' main processes; those that an engine starts for itself are its parts."""
    names = host.list_dir("/proc")
    if names.value is None:
        return relay(names)
    pids = sorted(int(name) for name in names.value if name.isascii() and name.isdigit())
    if not pids:
        return missing(Missing.NOT_STATED, "/proc")
    found: dict[int, EngineProcess] = {}
    for pid in pids:
        argv = parse_cmdline(host.read_text(f"/proc/{pid}/cmdline", _COMMAND_LIMIT).value or "")
        engine = engine_of(argv)
        if engine:
            found[pid] = EngineProcess(pid, engine, argv, title=title_of(argv))
    if not found:
        return seen((), "/proc")
    here = _Here(host.stat("/").value, _container_at(host, "self"))
    return seen(tuple(_placed(host, p, here) for p in _mains(host, found)), "/proc")


@dataclass(frozen=True)
class _Here:
    """Where the one who looks is: its root folder and its own container, "" for none."""

    top: Optional[FileStat]
    container: str


def _mains(host: Host, found: dict[int, EngineProcess]) -> Iterator[EngineProcess]:
    """Processes that no process of the same engine stands above, with what is below them."""
    above = {pid: _ancestor(host, pid, found) for pid in found}
    for pid, process in found.items():
        if above[pid] is not None:
            continue
        parts = tuple(p for p in found if pid in _chain(p, above))
        serving = [found[p] for p in parts if above[p] == pid and _names_model(found[p].argv)]
        if process.engine in _ROUTERS and serving and not _names_model(process.argv):
            yield from serving
        else:
            yield replace(process, parts=parts)


def _ancestor(host: Host, pid: int, found: dict[int, EngineProcess]) -> Optional[int]:
    """The nearest process above that is of the same engine; shells may stand between."""
    above = pid
    for _ in range(_MOST_ANCESTORS):
        above = parse_parent(host.read_text(f"/proc/{above}/stat", 4096).value)
        if above <= 1 and above not in found:
            return None
        if above in found and found[above].engine == found[pid].engine:
            return above if above != pid else None
    return None


def _chain(pid: int, above: dict[int, Optional[int]]) -> Iterator[int]:
    """All that stand above a process; the table may be of several moments, and so a circle."""
    passed = {pid}
    place = above[pid]
    while place is not None and place not in passed:
        yield place
        passed.add(place)
        place = above[place]


def _names_model(argv: tuple[str, ...]) -> bool:
    return any(word.partition("=")[0] in _MODEL_OPTIONS for word in argv[1:])


def _placed(host: Host, process: EngineProcess, here: _Here) -> EngineProcess:
    """The process with the container that it runs in, or the Python that runs it.

    What runs in the container from which it is looked at runs on this host.
    """
    pid = process.pid
    container = _container_at(host, str(pid))
    if container == here.container:
        container = ""
    if not container and _has_own_root(host, pid, here.top):
        container = f"process-{pid}"
    return replace(
        process, container=container, python="" if container else _interpreter(host, process)
    )


def _has_own_root(host: Host, pid: int, top: Optional[FileStat]) -> bool:
    """True if the process sees another system: containers without a control group of their own.

    A service with a private /tmp has its own mounts, and still the root of the host.
    """
    root = host.stat(f"/proc/{pid}/root/").value
    if root is None or top is None:
        return False
    return (root.device, root.inode) != (top.device, top.inode)


def environ_of(host: Host, pid: int) -> Reading[dict[str, str]]:
    """Environment of a process, by the allow-list."""
    text = host.read_text(f"/proc/{pid}/environ", 1 << 18)
    if text.value is None:
        return relay(text)
    pairs = (entry.partition("=") for entry in text.value.split("\0"))
    return seen(allowed({name: value for name, _, value in pairs if name}), text.at)


def parse_cmdline(text: str) -> tuple[str, ...]:
    """Read /proc/PID/cmdline: arguments that end in NUL; a title is padded with blanks."""
    words = tuple(text.rstrip("\0").split("\0")) if text.strip("\0") else ()
    return (words[0].rstrip(" "),) if len(words) == 1 else words


def _container_at(host: Host, process: str) -> str:
    return container_of(host.read_text(f"/proc/{process}/cgroup", 1 << 14).value or "")


def container_of(cgroup: str) -> str:
    """The container id in /proc/PID/cgroup, or ""."""
    match = _CONTAINER.search(cgroup)
    return match[1] if match else ""


def parse_parent(stat: Optional[str]) -> int:
    """Field 4 of /proc/PID/stat; 0 if it cannot be read."""
    fields = (stat or "").rpartition(") ")[2].split()
    return int(fields[1]) if len(fields) > 1 and re.fullmatch(r"[0-9]{1,10}", fields[1]) else 0


def _interpreter(host: Host, process: EngineProcess) -> str:
    """The Python of the command line, of the environment that was active, or of the libraries."""
    program = process.argv[0]
    if is_python(program) and program.startswith("/"):
        return program
    if not is_python(program) and not process.title:
        return ""
    name = "python3" if process.title else base(program)
    root = (environ_of(host, process.pid).value or {}).get("VIRTUAL_ENV", "")
    if not root:
        from doctor.probes import process_maps  # most hosts run no engine

        root = process_maps.environment_root(host, process.pid)
    return f"{root}/bin/{name}" if root else ""
