"""One check from sources to report, and the exit code that it earns."""

from __future__ import annotations

import sys
from dataclasses import replace

from doctor.diagnose import diagnose
from doctor.errors import ExitCode
from doctor.examine import Sources, gather, parse_engine, request_of
from doctor.facts import UNSTATED, Facts, LogText, Workload, seen
from doctor.findings import Diagnosis, OutcomeKind, Severity, Verdict
from doctor.matrix import load_matrix
from doctor.report import Report

LOG_LIMIT = 64 << 20
_THRESHOLD = {"info": 0, "warning": 1, "error": 2, "never": 3}


def check(sources: Sources, engine: str = "", model: str = "") -> Report:
    """Read the facts, judge them, return the report. Raises UsageError for bad input."""
    facts = gather(sources)
    request = request_of(engine, sources, facts, model=model)
    return Report(facts, diagnose(facts, load_matrix(), request), sources.name)


def read_log(path: str, sources: Sources, engine: str = "") -> Report:
    """Judge a log, with the facts of `sources` if any are named. Raises UsageError."""
    name, version = parse_engine(engine) if engine else ("", None)
    facts = gather(sources) if sources.facts else Facts()
    workload = next((w for w in facts.workloads if name in ("", w.engine)), None)
    if workload is None:
        stated = seen(version, "--engine") if version else UNSTATED
        workload = Workload("log", name, version=stated)
    log = LogText(_text_of(path), workload.id)
    judged = replace(facts, workloads=(workload,), logs=(log,))
    return Report(judged, diagnose(judged, load_matrix()), path)


def _text_of(path: str) -> str:
    from doctor.intake.detect import read_text

    if path != "-":
        return read_text(path)
    return sys.stdin.buffer.read(LOG_LIMIT).decode("utf-8", "replace")


def exit_code(diagnosis: Diagnosis, fail_on: str, strict: bool, asked: bool) -> ExitCode:
    """1 for findings at or above `fail_on`; 3 if a target was asked for and a gate is open."""
    worst = max((_weight(f.severity) for t in diagnosis.targets for f in t.findings), default=-1)
    if worst >= _THRESHOLD[fail_on]:
        return ExitCode.NO
    if asked and diagnosis.verdict is Verdict.CANNOT_TELL:
        return ExitCode.CANNOT_TELL
    outcomes = (o for target in diagnosis.targets for o in target.outcomes)
    if strict and any(o.kind is OutcomeKind.CANNOT_TELL for o in outcomes):
        return ExitCode.CANNOT_TELL
    return ExitCode.OK


def _weight(severity: Severity) -> int:
    return severity.weight
