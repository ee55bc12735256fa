"""From what a person named to facts and a request: files, a mounted tree, or this machine."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from doctor.diagnose import Request
from doctor.errors import UsageError
from doctor.facts import Facts, Version

if TYPE_CHECKING:
    from doctor.probes.host import Host

_ENGINE = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,60}?)(?:==([^=\s]{1,60}))?")


@dataclass(frozen=True)
class Sources:
    """Where facts come from: `facts` files (merged), else `root`, else this machine."""

    facts: tuple[str, ...] = ()
    root: str = ""
    pythons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Gathered:
    """Facts, and in words where they come from ("issue.md: collect_env, engine log")."""

    facts: Facts
    source: str


def gather(sources: Sources) -> Gathered:
    """Read the facts; raises UsageError for input that cannot be read."""
    if sources.facts:
        return _from_files(sources.facts)
    from doctor.probes.collect import Options, collect

    facts = collect(host_of(sources), Options(pythons=sources.pythons, say=_say))
    return Gathered(facts, sources.root or "this host")


def _say(text: str) -> None:
    print(f"{text} ...", file=sys.stderr, flush=True)


def _from_files(paths: tuple[str, ...]) -> Gathered:
    """Read and merge several files: earlier ones win, contradictions become notes."""
    from doctor.intake.detect import parse_input, read_text
    from doctor.intake.merge import merge

    understood = [parse_input(read_text(path), path) for path in paths]
    words = [
        f"{Path(path).name}: {', '.join(u.formats)}"
        for path, u in zip(paths, understood, strict=True)
    ]
    return Gathered(merge(*(u.facts for u in understood)), "; ".join(words))


def host_of(sources: Sources) -> Host:
    """The mounted tree that was named, else this machine; raises UsageError for no folder."""
    from doctor.probes.local import LocalHost
    from doctor.probes.rooted import RootedHost

    if not sources.root:
        return LocalHost()
    if not Path(sources.root).is_dir():
        raise UsageError(f"--root {sources.root}: not a folder", "name a mounted file system")
    return RootedHost(sources.root)


def request_of(engine: str, sources: Sources, facts: Facts, **args: object) -> Request:
    """What is to be judged: an engine ("vllm" or "vllm==0.20.0") and the scopes named.

    Raises UsageError for an engine that cannot be read.
    """
    name, version = parse_engine(engine) if engine else ("", None)
    stated = tuple((key, value) for key, value in args.items() if value not in (None, ""))
    return Request(_scopes(sources, facts), name, version, stated)


def parse_engine(text: str) -> tuple[str, Version | None]:
    """Read "vllm" or "vllm==0.20.0"."""
    match = _ENGINE.fullmatch(text.strip())
    version = Version.maybe(match[2]) if match and match[2] else None
    if match is None or (match[2] and version is None):
        raise UsageError(f"--engine {text[:60]!r} is not a name", "write vllm or vllm==0.20.0")
    return match[1].lower(), version


def _scopes(sources: Sources, facts: Facts) -> tuple[str, ...]:
    """Ids of the scopes that the named Pythons belong to."""
    if not sources.pythons:
        return ()
    found = []
    for scope in facts.scopes:
        python = scope.python.value
        places = {scope.root, python.executable if python else ""}
        if any(_same_place(named, places) for named in sources.pythons):
            found.append(scope.id)
    if not found:
        raise UsageError(
            f"--python {sources.pythons[0]}: no Python environment there",
            "name a python executable or an environment's folder",
        )
    return tuple(found)


def _same_place(named: str, places: set[str]) -> bool:
    path = Path(named).absolute()
    return bool({str(path), str(path.parent.parent)} & places)
