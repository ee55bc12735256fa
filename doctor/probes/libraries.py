"""The key libraries of an environment: their GPU code, and what the loader would make of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Optional

from doctor.binaries.cache import Memory, cache_folder
from doctor.facts import Binary, Facts, Missing, Reading, Scope, Workload, missing, seen
from doctor.probes import library_snapshot
from doctor.probes.host import Host

_KINDS = ("venv", "conda", "system")
_ENOUGH_S = 6.0


def read_all(
    host: Host, facts: Facts, folder: Optional[str] = None, say: Callable[[str], None] = str
) -> tuple[Scope, ...]:
    """The scopes with their libraries; those in which an engine runs come first.

    After `_ENOUGH_S` the rest is left out as timed out: a first look at a hundred
    environments must not hold a report up. What was read is in the cache the next time.
    `say` is told of each environment that must be read.
    """
    deadline = time.monotonic() + _ENOUGH_S
    driver = facts.nvidia.driver.is_known
    busy = {workload.scope: workload for workload in reversed(facts.workloads)}
    found: dict[str, Scope] = {}
    for scope in sorted(facts.scopes, key=lambda scope: scope.id not in busy):
        binaries: Reading[tuple[Binary, ...]]
        if time.monotonic() > deadline:
            binaries = missing(Missing.TIMED_OUT, scope.root)
        else:
            env = _environment(host, scope, busy.get(scope.id))
            binaries = read(host, scope, env, driver=driver, folder=folder, say=say)
        found[scope.id] = replace(scope, binaries=binaries)
    return tuple(found[scope.id] for scope in facts.scopes)


def _environment(host: Host, scope: Scope, workload: Optional[Workload]) -> dict[str, str]:
    """The engine's own variables, else the scope's, else those of this session."""
    if workload is not None and workload.env.value is not None:
        return workload.env.value
    return scope.env.value if scope.env.value is not None else host.environ()


def read(
    host: Host,
    scope: Scope,
    env: dict[str, str],
    *,
    driver: bool,
    folder: Optional[str] = None,
    say: Callable[[str], None] = str,
) -> Reading[tuple[Binary, ...]]:
    """Libraries of one environment, as its loader would see them with `env`.

    `driver` tells whether a driver is loaded on the host: without one, the libraries
    that come with it are neither there nor missing. `folder` is for the cache of what
    was read, by default the user's.
    """
    if scope.kind not in _KINDS or not scope.packages.is_known:
        return scope.binaries
    place = host.local_path(scope.root)
    if place is None:
        return missing(Missing.NOT_STATED, scope.root)
    cache = cache_folder() if folder is None else folder
    answers = Memory(cache, f"{place}\0answer")
    asked = _question(scope, env, driver)
    found = library_snapshot.recall(answers, host, asked)
    if found is None:
        # Imported only when files must be read: nothing has changed, mostly.
        from doctor.probes.host_tree import HostTree
        from doctor.probes.library_survey import Survey

        say(f"reading the libraries of {scope.root}")
        tree = HostTree(host, Memory(cache, place))
        found = Survey(tree, scope, env, driver).binaries()
        tree.memory.save()
        library_snapshot.keep(answers, asked, tree.touched, found)
    return seen(found, scope.root)


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
