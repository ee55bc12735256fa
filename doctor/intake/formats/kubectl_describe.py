"""`kubectl describe pod`: the containers of a pod, as that command prints them for people."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from doctor.facts import UNSTATED, Facts, ImageRef, Reading, Scope, Workload, seen
from doctor.intake.formats import dockerfile
from doctor.intake.formats.kubernetes import DEVICES
from doctor.probes.environment import allowed
from doctor.probes.tool_text import LIMIT

AT = "kubectl describe"
# Containers stand two blanks deep, what is said of them four, lists and tables six.
_BEGIN = re.compile(r"^Containers:[ \t]*\n", re.MULTILINE)
_END = re.compile(r"^[A-Z]", re.MULTILINE)
_NAME = re.compile(r"^  ([a-z0-9][\w.-]{0,62}):[ \t]*$", re.MULTILINE)
_FIELD = re.compile(r"^    ([A-Z][A-Za-z ]{1,30}):(?:[ \t]+(\S[^\n]{0,300}))?[ \t]*$")
_PAIR = re.compile(r"^      ([\w./-]{1,100}):[ \t]{1,80}(\S[^\n]{0,300}?)[ \t]*$")
_MOST = 20
MARKS = ("\nContainers:", "Containers:\n")


def looks_like(text: str) -> bool:
    """Tell by the heading, and an image four blanks deep."""
    return _BEGIN.search(text) is not None and "\n    Image:" in text


def parse(text: str) -> Facts:
    """Each container with its image, arguments, variables and GPUs."""
    begin = _BEGIN.search(text)
    if begin is None:
        return Facts()
    rest = text[begin.end() : begin.end() + LIMIT]
    after = _END.search(rest)
    blocks = rest[: after.start()] if after else rest
    names = list(islice(_NAME.finditer(blocks), _MOST))
    ends = [name.start() for name in names[1:]] + [len(blocks)]
    found = [
        _container(name[1], blocks[name.end() : end])
        for name, end in zip(names, ends, strict=False)
    ]
    works = tuple(work for _, work in found if work is not None)
    return Facts(scopes=tuple(scope for scope, _ in found), workloads=works)


def _container(name: str, block: str) -> tuple[Scope, Workload | None]:
    told = dict(_fields(block))
    image = (told.get("Image") or [""])[0]
    asked = {**_pairs(told.get("Requests")), **_pairs(told.get("Limits"))}
    devices = tuple(f"{k}={v}" for k, v in asked.items() if k.startswith(DEVICES))
    scope = Scope(
        id=name,
        kind="container",
        image=ImageRef(ref=image),
        env=_env(_pairs(told.get("Environment"))),
        devices_visible=seen(devices, AT, partial=True) if devices else UNSTATED,
    )
    command, args = (
        tuple(line.strip() for line in told.get(key, ())) for key in ("Command", "Args")
    )
    work = dockerfile.engine_started(image, command, args, AT)
    if work is None:
        return scope, None
    return scope, Workload(
        id=name, engine=work.engine, scope=name, version=work.version, args=work.args, env=work.env
    )


def _fields(block: str) -> Iterator[tuple[str, list[str]]]:
    """Each field with what stands behind it, or below it."""
    key, values = "", list[str]()
    for line in block.splitlines()[:2000]:
        field = _FIELD.match(line)
        if field is None:
            values.append(line)
            continue
        if key:
            yield key, values
        key, values = field[1], [field[2]] if field[2] else []
    if key:
        yield key, values


def _pairs(lines: list[str] | None) -> dict[str, str]:
    return {row[1]: row[2] for line in lines or () if (row := _PAIR.match(line))}


def _env(stated: dict[str, str]) -> Reading[dict[str, str]]:
    """Variables by value; what a secret or field gives is named and not shown there."""
    known = allowed({k: v for k, v in stated.items() if not v.startswith("<set to ")})
    return seen(known, AT, partial=True) if known else UNSTATED
