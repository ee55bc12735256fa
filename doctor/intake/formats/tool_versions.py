"""`gcc --version` and its kin, and what Ollama and llama.cpp say of their own version."""

from __future__ import annotations

import re
from itertools import islice

from doctor.facts import UNSTATED, Facts, HostFacts, Version, Workload, seen
from doctor.facts.host import SystemPackage
from doctor.intake.environment import SCOPE

AT = "--version"
_COMPILER = re.compile(
    r"^(?:[\w.-]{0,40}-)?(gcc|g\+\+|c\+\+|clang|cmake|ninja)(?:-\d{1,2})? "
    r"(?:\([^\n)]{1,80}\) |version )(\d{1,3}\.\d{1,3}(?:\.\d{1,3})?)\b",
    re.MULTILINE,
)
_CLANG = re.compile(r"^(?:[A-Z][\w ]{1,40} )?clang version (\d{1,3}\.\d{1,3}\.\d{1,3})", re.M)
_OLLAMA = re.compile(
    r"^(?:ollama version is|Warning: client version is) (\d{1,4}\.\d{1,4}\.\d{1,4})\b", re.M
)
_LLAMA = re.compile(r"^version: (\d{3,6}) \([0-9a-f]{6,12}\)$\n^built with ", re.MULTILINE)
MARKS = ("gcc", "g++", "clang", "cmake", "ollama version", "client version", "built with")


def looks_like(text: str) -> bool:
    """Tell by the first line of each answer."""
    return any(p.search(text) is not None for p in (_COMPILER, _CLANG, _OLLAMA, _LLAMA))


def parse(text: str) -> Facts:
    """Compilers as packages of the host, an engine as what is going to run."""
    found = [(row[1], row[2]) for row in islice(_COMPILER.finditer(text), 20)]
    found += [("clang", row[1]) for row in islice(_CLANG.finditer(text), 4)]
    named = {"c++": "g++"}
    listed = tuple(
        SystemPackage(named.get(name, name), version, "stated")
        for name, version in dict(found).items()
    )
    works = [
        Workload(id=engine, engine=engine, scope=SCOPE, version=seen(Version(text), AT))
        for engine, text in _engines(text)
    ]
    return Facts(
        host=HostFacts(packages=seen(listed, AT, partial=True) if listed else UNSTATED),
        workloads=tuple(works),
    )


def _engines(text: str) -> list[tuple[str, str]]:
    ollama, llama = _OLLAMA.search(text), _LLAMA.search(text)
    found = [("ollama", ollama[1])] if ollama else []
    return [*found, *([("llama.cpp", f"b{llama[1]}")] if llama else [])]
