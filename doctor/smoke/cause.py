"""Why a server died: its log, read by the same judge that reads every log."""

from __future__ import annotations

import re
from dataclasses import dataclass

from doctor.diagnose import diagnose
from doctor.facts import UNSTATED, Facts, LogText, Version, Workload, seen
from doctor.findings import Finding
from doctor.matrix import Matrix

_ERROR = re.compile(r"\b(error|fatal|failed|exception|cannot|can't|abort\w*)\b", re.IGNORECASE)
_LINE = 300


@dataclass(frozen=True)
class LogCause:
    """What a log says: its first real error, and the cause that it speaks of ("" if none)."""

    line: str = ""
    number: int = 0
    cause: str = ""
    code: str = ""
    message: str = ""
    remedies: tuple[str, ...] = ()


def cause_of(log: str, engine: str, version: Version | None, matrix: Matrix) -> LogCause:
    """The first real error of an engine's log, with its cause if a signature knows the words."""
    stated = seen(version, "installed") if version else UNSTATED
    workload = Workload("smoke", engine, version=stated)
    facts = Facts(workloads=(workload,), logs=(LogText(log, "smoke"),))
    for target in diagnose(facts, matrix).targets:
        said = _said(target.primary) if target.primary else None
        if said is not None:
            return said
    return _first_error(log)


def _said(finding: Finding) -> LogCause | None:
    """The finding with the line of the log that led to it; None if the log did not."""
    for evidence in finding.evidence:
        if evidence.at.startswith("log"):
            number = int("".join(filter(str.isdecimal, evidence.at)) or 0)
            actions = tuple(remedy.action for remedy in finding.remedies)
            return LogCause(
                evidence.fact, number, finding.cause, finding.code, finding.message, actions
            )
    return None


def _first_error(log: str) -> LogCause:
    """The first line that speaks of an error, else the last one of all."""
    lines = [line.strip() for line in log.splitlines()]
    for number, line in enumerate(lines, 1):
        if _ERROR.search(line[:4096]):
            return LogCause(line[:_LINE], number)
    last = next(((n, line) for n, line in reversed([*enumerate(lines, 1)]) if line), (0, ""))
    return LogCause(last[1][:_LINE], last[0])
