"""Judge environments that files ask for, on a host that need not be this one."""

from __future__ import annotations

from dataclasses import replace

from doctor.diagnose import Request, diagnose, holds_engine
from doctor.errors import UsageError
from doctor.examine import Gathered, Plans, Sources, gather, request_of
from doctor.facts import Facts
from doctor.findings import Diagnosis, left_open, overall
from doctor.matrix import Matrix, load_matrix
from doctor.planned import planned, read_plans
from doctor.report import Report

_NO_HOST = "no host was named, so nothing is judged that depends on one: add --host or --facts"


def check_plans(sources: Sources, plans: Plans, engine: str = "", model: str = "") -> Report:
    """Judge each environment alone on the host. Raises UsageError for bad input."""
    if sources.pythons or sources.image:
        other = "--python" if sources.pythons else "--image"
        raise UsageError(f"{other} names what is there, a file what shall be", "ask one at a time")
    matrix = load_matrix()
    # A name that is mistyped is told before the machine is looked at.
    read = tuple(read_plans(plans, matrix))
    host = _host(sources)
    found = planned(plans, read, host.facts, matrix)
    judged = [_judged(facts, sources, engine, model, matrix) for facts in found.hosts]
    targets = tuple(target for diagnosis in judged for target in diagnosis.targets)
    if not targets:
        raise UsageError(
            f"{' '.join(found.paths)}: nothing in it is to be installed or started",
            "name a file that installs an engine",
        )
    facts = _together(host.facts, found.hosts)
    words = ", ".join(scope.id for scope in facts.scopes)
    return Report(
        facts,
        replace(judged[0], targets=targets, verdict=overall(targets)),
        source=f"{words}; {host.source}",
        paths=(*found.paths, *sources.facts),
        notes=facts.notes,
    )


def _host(sources: Sources) -> Gathered:
    """The host that was named, else this machine if it has an accelerator, else none.

    A build machine without one is not where the engine is going to run.
    """
    host = gather(replace(sources, plans=Plans()))
    is_named = bool(sources.host or sources.facts or sources.root)
    if is_named or host.facts.devices.value:
        return host
    return Gathered(Facts(notes=(_NO_HOST,)), "no host")


def _judged(facts: Facts, sources: Sources, engine: str, model: str, matrix: Matrix) -> Diagnosis:
    """One environment; of one in which nothing is known it cannot be told whether it works."""
    scope = facts.scopes[0]
    if engine:
        asked = request_of(engine, replace(sources, plans=Plans()), facts, model=model)
        return diagnose(facts, matrix, replace(asked, scopes=(scope.id,)))
    request = Request() if facts.workloads else Request((scope.id,))
    diagnosis = diagnose(facts, matrix, request)
    is_known = facts.workloads or holds_engine(scope, matrix)
    return diagnosis if is_known else left_open(diagnosis)


def _together(host: Facts, hosts: tuple[Facts, ...]) -> Facts:
    """The host with all environments, for the report."""
    return replace(
        host,
        scopes=tuple(scope for facts in hosts for scope in facts.scopes),
        workloads=tuple(work for facts in hosts for work in facts.workloads),
        logs=(),
        notes=tuple(dict.fromkeys(note for facts in hosts for note in facts.notes)),
    )
