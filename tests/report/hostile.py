"""Reports full of what must not get through: markup, commands, escapes, names of people."""

from __future__ import annotations

from typing import Any

from doctor.facts import (
    Device,
    Facts,
    HostFacts,
    LogText,
    OsRelease,
    Package,
    PythonInfo,
    Scope,
    Version,
    Workload,
    seen,
)
from doctor.findings import (
    Diagnosis,
    Evidence,
    Finding,
    Outcome,
    OutcomeKind,
    Remedy,
    Rung,
    Severity,
    Suspect,
    TargetDiagnosis,
    Verdict,
)
from doctor.report import Hidden, Report

# Each attacks one format; all of them are put into every text of a report.
ATTACKS = (
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "\"'><b>bold</b>",
    "]]></failure><!-- ",
    "\n::error file=x::forged",
    "%0A::warning::forged",
    "| forged | cell |",
    "```\n# forged heading",
    "[forged](javascript:alert(1))",
    "@forged/team",
    "\x1b[31mred\x1b]0;title\x07",
    "\u202ereversed\u2066",
    "\x9b2J\x85\u2028",
    'forged"} 1\nforged_metric 2',
    "\ud800",
    "\ufffe\x00",
)

# What names people and machines, by kind; `Redactor("/home/alicia", "prod-db-7")` must know.
CANARIES = {
    "host": "prod-db-7",
    "full host": "prod-db-7.corp.example",
    "user": "alicia",
    "home": "/home/alicia/models",
    "other home": "/home/bartholomew/x",
    "address": "tcp://10.20.30.40:8000",
    "private address": "192.168.77.5",
    "IPv6": "2001:db80:1::42",
    "mac": "de:ad:be:ef:00:42",
    "serial": "Serial Number : 1322523099999",
    "uuid": "GPU-5f3b1c2d-1111-2222-3333-444455556666",
    "token": "hf_AbCdEfGhIjKlMnOp",
    "key": "sk-proj-0123456789abcdef",
    "login": "https://bot:hunter2secret@example.org/simple",
}
TRACES = (
    "prod-db-7",
    "alicia",
    "bartholomew",
    "10.20.30.40",
    "192.168.77.5",
    "2001:db80:1::42",
    "de:ad:be:ef:00:42",
    "1322523099999",
    "5f3b1c2d",
    "hf_AbCdEf",
    "sk-proj-0123",
    "hunter2secret",
)


def report_of(text: str) -> Report:
    """A report with `text` in every place where text from outside may stand."""
    finding = _finding(text, "DRV101", Severity.ERROR)
    other = _finding(text, "ENG601", Severity.WARNING)
    hidden = Hidden(text, _finding(text, "HST101", Severity.ERROR), text, "2027-01-01")
    target = TargetDiagnosis(
        subject=text,
        verdict=Verdict.FAIL,
        primary=finding,
        findings=(finding, other),
        missing=(text,),
        outcomes=_outcomes(text, finding, other),
        candidates=(Suspect("driver-too-old", text),),
    )
    undecided = TargetDiagnosis(f"second {text}", Verdict.CANNOT_TELL, missing=(text,))
    return Report(
        facts=_facts(text),
        diagnosis=Diagnosis(Verdict.FAIL, (target, undecided), text, text),
        source=text,
        name=text,
        paths=(text,),
        baseline=frozenset(),
        hidden=(hidden,),
        notes=(text,),
    )


def _finding(text: str, code: str, severity: Severity) -> Finding:
    return Finding(
        code=code,
        cause="driver-too-old",
        severity=severity,
        rung=Rung.DRIVER,
        message=text,
        subject=text,
        evidence=(Evidence(text, text),),
        remedies=(Remedy(text, (text, text), risk=text), Remedy(text)),
        sources=(text, f"https://{text}"),
        extrapolated=text,
    )


def _outcomes(text: str, *findings: Finding) -> tuple[Outcome, ...]:
    found = [Outcome(f.code, f.cause, OutcomeKind.FINDINGS, findings=(f,)) for f in findings]
    kinds = (OutcomeKind.CANNOT_TELL, OutcomeKind.NOT_APPLICABLE, OutcomeKind.CRASHED)
    cause = "gpu-not-visible"
    odd = [Outcome("DEV101", cause, kind, True, missing=text, reason=text) for kind in kinds]
    return (*found, *odd)


def _facts(text: str) -> Facts:
    env: dict[str, Any] = {text: text}
    python = PythonInfo(Version("3.12.1"), executable=text)
    package = Package("vllm", Version("0.20.0"), location=text)
    scope = Scope(
        id=text, kind="venv", root=text, python=seen(python, text),
        packages=seen((package,), text), env=seen(env, text),
    )  # fmt: skip
    device = Device(id=text, vendor="nvidia", name=seen(text, text), uuid=seen(text, text))
    host = HostFacts(os=seen(OsRelease(text, text), text), kernel=seen(text, text))
    workload = Workload(id=text, engine=text, scope=text, args=seen(dict(env), text))
    return Facts(
        host=host,
        devices=seen((device,), text),
        scopes=(scope,),
        workloads=(workload,),
        logs=(LogText(text),),
        notes=(text,),
    )
