"""The key libraries of an environment: their GPU code, and what the loader would make of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Optional

from doctor.binaries.cache import Memory, cache_folder
from doctor.facts import Facts, Missing, Scope, Workload, missing, seen
from doctor.probes import libraries_snapshot
from doctor.probes.host import Host
from doctor.probes.libraries_snapshot import Answer

_PYTHONS = ("venv", "conda", "system", "container")
_ENOUGH_S = 6.0


def _silently(_: str) -> None:
    """Tell nobody."""


def read_all(host: Host, facts: Facts, say: Callable[[str], None] = _silently) -> tuple[Scope, ...]:
    """The scopes with their libraries; those in which an engine runs come first.

    After `_ENOUGH_S` the rest is left out as timed out: a first look at a hundred
    environments must not hold a report up. What was read is in the cache the next time.
    `say` is told of each environment that must be read.
    """
    driver, folder = facts.nvidia.driver.is_known, cache_folder()
    deadline = time.monotonic() + _ENOUGH_S
    busy = {workload.scope: workload for workload in reversed(facts.workloads)}
    found: dict[str, Scope] = {}
    for scope in sorted(facts.scopes, key=lambda scope: scope.id not in busy):
        workload = busy.get(scope.id)
        if time.monotonic() < deadline:
            reader = Reader(_inside(host, scope, workload), driver, folder, say)
            found[scope.id] = reader.read(scope, _environment(host, scope, workload))
        else:
            found[scope.id] = replace(scope, binaries=missing(Missing.TIMED_OUT, scope.root))
    return tuple(found[scope.id] for scope in facts.scopes)


def _inside(host: Host, scope: Scope, workload: Optional[Workload]) -> Host:
    """The host that the scope's paths are paths of: a container's are seen by its process."""
    if scope.kind != "container" or workload is None or workload.pid is None:
        return host
    from doctor.probes.rooted import RootedHost

    return RootedHost(f"/proc/{workload.pid}/root", host, workload.env.value)


def _environment(host: Host, scope: Scope, workload: Optional[Workload]) -> dict[str, str]:
    """The engine's own variables, else the scope's, else those of this session."""
    if workload is not None and workload.env.value is not None:
        return workload.env.value
    return scope.env.value if scope.env.value is not None else host.environ()


@dataclass(frozen=True)
class Reader:
    """Reads the libraries of environments of one host.

    `driver` tells whether a driver is loaded there: without one, the libraries that come
    with it are neither there nor missing. `folder` is for what was read ("" keeps nothing).
    """

    host: Host
    driver: bool
    folder: str
    say: Callable[[str], None] = _silently

    def read(self, scope: Scope, env: dict[str, str]) -> Scope:
        """The scope with its libraries, as its loader would see them with `env`.

        A scope of another kind, or with an unknown list of packages, stays as it is.
        """
        is_readable = scope.kind == "host" or (scope.kind in _PYTHONS and scope.packages.is_known)
        place = self.host.local_path(scope.root) if is_readable and scope.root else None
        if place is None:
            return scope
        if scope.kind == "container":  # another process of it has another path to the same files
            place = f"{scope.id} {scope.root}"
        answers = Memory(self.folder, f"{place}\0answer")
        asked = _question(scope, env, self.driver)
        found = libraries_snapshot.recall(answers, self.host, asked)
        if found is None:
            found = self._survey(scope, env, answers, asked, place)
        if scope.kind == "host" and not found.binaries:
            return scope
        libcuda = seen(found.libcuda) if found.libcuda else missing(self._why_not(), scope.root)
        return replace(scope, binaries=seen(found.binaries, scope.root), libcuda=libcuda)

    def _why_not(self) -> Missing:
        """No libcuda: absent beside a loaded driver, else it would come with one."""
        return Missing.NOT_THERE if self.driver else Missing.NOT_STATED

    def _survey(
        self, scope: Scope, env: dict[str, str], answers: Memory, asked: list[Any], place: str
    ) -> Answer:
        # Imported only when files must be read: mostly nothing has changed.
        from doctor.probes.host_tree import HostTree
        from doctor.probes.libraries_survey import Survey

        tree = HostTree(self.host, Memory(self.folder, place))
        survey = Survey(tree, scope, env, self.driver)
        if survey.has_libraries:
            self.say(f"reading the libraries of {scope.root}")
        found = Answer(survey.binaries(), survey.libcuda())
        tree.memory.save()
        libraries_snapshot.keep(answers, asked, tree.touched, found)
        return found


def _question(scope: Scope, env: dict[str, str], driver: bool) -> list[Any]:
    """What the answer depends on beside files: variables, driver, versions of the scope."""
    torch, python = scope.torch.value, scope.python.value
    builds = (torch.cuda.value, torch.hip.value) if torch else ()
    return [
        env.get("LD_LIBRARY_PATH", ""),
        driver,
        " ".join(map(str, builds)),
        python.executable if python else "",
        [f"{p.name} {p.version} {p.location}" for p in scope.packages.value or ()],
    ]
