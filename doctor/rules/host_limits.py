"""The limits of a process: open files and locked memory."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.facts import Limits, Reading
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules.decide import each
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.settings import Setting, covering, holds, settings
from doctor.rules.software import Software, engine


@rule("HST221", cause="ulimit-too-low", severity=Severity.WARNING)
def limits_too_low(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The limit of open files or of locked memory is below what the engine asks for.

    What: the limits of the engine's process, or of those started from here while it does
        not run, against those that the engine's project names.
    Why: under load each connection takes a file ("Too many open files"); pinned and RDMA
        memory counts against the limit of locked memory.
    How to fix: raise the limit in the unit, the container or the shell.
    Silent when: no figure is known for the engine, or the limits were not read.
    Sources: sources of the engines (claims in the matrix).
    """
    found, setting = engine(case, matrix), settings(case, matrix)[0]
    told_many = _told_many(case)
    if told_many is not None:
        yield told_many
        return
    own = case.workload.limits if case.workload is not None else Limits()
    here = case.facts.host.limits
    files = own.open_files if own.open_files.is_known else here.open_files
    memory = own.locked_memory_kib if own.locked_memory_kib.is_known else here.locked_memory_kib
    yield from each(
        (
            lambda: _below(matrix, found, setting, "open-files", files),
            lambda: _below(matrix, found, setting, "memlock-kib", memory),
        )
    )


def _told_many(case: Case) -> Fault | None:
    """The usual limit of open files, with hundreds of requests at a time, as both are told."""
    files = case.facts.host.limits.open_files
    words = (case.workload.symptoms.value or {}) if case.workload is not None else {}
    if files.at != "notes" or "many_at_once" not in words or not 0 < (files.value or 0) <= _USUAL:
        return None
    return Fault(
        message=f"the limit is {files.value} open files, and hundreds of requests come at a time",
        evidence=(
            Evidence(f"limit: {files.value} open files", files.at),
            Evidence(words["many_at_once"], "notes"),
        ),
        remedies=(Remedy("raise it where server and clients start", ("ulimit -n 65535",)),),
        sources=("https://github.com/sgl-project/sglang/pull/647",),
    )


_USUAL = 1024  # the soft limit of most systems; each connection takes one


def _below(
    matrix: Matrix, found: Software, setting: Setting, key: str, limit: Reading[int]
) -> Iterator[Fault]:
    asked = [m for m in covering(matrix, found, "limit", key) if holds(m.claim, setting)]
    if not asked:
        raise NotApplicable(f"no limit is known that {found.name} asks for")
    have = limit.known(f"host.limits.{key}")
    wanted = int(asked[0].claim.value)
    if have not in (-1, 0) and have < wanted:
        name = "open files" if key == "open-files" else "KiB of locked memory"
        flag = f"--ulimit nofile={wanted}" if key == "open-files" else "--ulimit memlock=-1"
        yield Fault(
            message=f"the limit is {have} {name}, and {found.label} asks for {wanted}",
            evidence=(Evidence(f"limit: {have} {name}", limit.at),),
            remedies=(
                Remedy(
                    "raise the limit where the engine is started",
                    (
                        f"docker run {flag} ...",
                        f"ulimit -n {wanted}  # or LimitNOFILE= in the unit",
                    ),
                ),
            ),
            sources=tuple(asked[0].claim.source),
            extrapolated=asked[0].extrapolated,
        )


RULES: tuple[Rule, ...] = (limits_too_low,)
