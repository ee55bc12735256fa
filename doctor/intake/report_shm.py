"""The shared memory of a container, as a report gives it or as its command leaves it."""

from __future__ import annotations

import re

from doctor.facts import UNSTATED, Reading, seen
from doctor.intake.devices import memory_of
from doctor.intake.stated import Stated, plain_text
from doctor.probes.tool_text import reading

_LACKING = r"\b(?:without|no|not|missing|forgot|lacks?|lacking)\s(?:the\s|any\s|an?\s)?"
_NO_SHM = re.compile(
    _LACKING + r"(?:--ipc|--shm-size|shm[_ -]size|shm volume|ipc: host|(?:volume|emptyDir|"
    r"mount)[^.;]{0,30}/dev/shm|"
    r"(?:dedicated |extra |/dev/)?shm (?:volume|mount|emptyDir)|/dev/shm)"
    r"|\b(?:nothing|no volume|no emptyDir) (?:is )?(?:mounted )?(?:on|at|for) /dev/shm|"
    + _LACKING
    + r"(?:volume |mount |emptyDir |option )?(?:for |on |of )?(?:more )?shared memory\b"
    r"|\bdefault (?:size of )?(?:/dev/)?shm\b|\bdefault shared memory\b|"
    r"(?:--)?\b(?:shm[_-]size|ipc)\b (?:is |was )?(?:not|never|un) ?(?:set|given|passed|changed)\b|"
    r"\bipc[:= ]{1,2}private\b",
    re.I,
)
_DEFAULT_MIB = 64
_SHM = re.compile(
    r"(?:--shm-size[ =]|shm_size:? ?|/dev/shm(?:\)|:| is| has| of| with)?(?: only)? ?|"
    r"\bshm(?:\)|:| is| has| of| with)?(?: only)? ?|\bshared memory(?::| is| has| of)?(?: only)? |"
    r"\bshm[ -]size[^.;\d]{1,12})(\d{1,6}(?:\.\d)?\s?[kmgt]i?b?)\b",
    re.I,
)
_BYTES = re.compile(r"/dev/shm\b[^.;\n]{0,30}?\b(\d{6,13}) bytes\b", re.I)  # noqa: S108 - a pattern
# A command that starts a container, copied whole: with more than the option for GPUs.
_COMMAND = re.compile(
    r"\b(?:docker|podman|"
    r"nerdctl) run((?: -{1,2}[a-z][\w-]*(?:[ =][^-\s,]\S*)?){2,})(?<!,)(?![^;\n]*, )",
    re.I,
)
_ASKS = re.compile(r"--ipc|--shm|/dev/shm|\bshm\b|\.\.\.|\$|\bipc\b", re.I)
_BYTES_PER_MIB = 1024 * 1024


def stated_shm(report: Stated, runtime: str) -> Reading[int]:
    """The size that is given, also among the engine's arguments or in a note; else Docker's own.

    In part where only a command without the option tells of it: a daemon may give more.
    """
    for text, at in (
        (runtime, "container"),
        *((note, "notes") for note in report.strings("notes")),
    ):
        size = _size(text)
        if size is not None:
            return seen(size, at)
    size = memory_of(plain_text(report.table("engine_args").data.get("shm_size")))
    if size is None and any(map(_NO_SHM.search, (runtime, *report.strings("notes")))):
        return seen(_DEFAULT_MIB, "container")
    if size is None and _COMMAND.search(runtime) and not _ASKS.search(runtime):
        return seen(_DEFAULT_MIB, "container", partial=True)
    return reading(size, "engine_args.shm_size") if size is not None else UNSTATED


def _size(text: str) -> int | None:
    found, counted = _SHM.search(text), _BYTES.search(text)
    if counted is not None:
        return int(counted[1]) // _BYTES_PER_MIB
    return memory_of(found[1]) if found is not None else None
