"""Published security advisories of the engine release."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.facts import Version
from doctor.findings import Remedy
from doctor.matrix import Matrix
from doctor.rules.engine import Case, Fault, Rule, Severity, rule
from doctor.rules.serving_told import is_told
from doctor.rules.settings import applicable, settings
from doctor.rules.software import Software, engine

_WEIGHTS = ("low", "medium", "moderate", "high", "critical")


@rule("ENG601", cause="engine-vulnerable", severity=Severity.INFO)
def published_advisories(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Security advisories have been published for the installed version.

    What: the advisories that the matrix holds, by range of versions; one finding for the
        engine, with the worst severity and the lowest version that is out of all ranges.
        A warning where the engine is installed or running, or, as is told, strangers reach it or
        a scan named it.
    Why: serving engines read untrusted input and often listen on all interfaces.
    How to fix: the version named; until then keep the ports closed to strangers.
    Silent when: the matrix holds none for this version, which does not say that there are
        none: it is as old as its date.
    Sources: advisory records (rows in the matrix).
    """
    found = engine(case, matrix)
    if found.version is None:
        raise found.unknown()
    matches = applicable(matrix, found, "advisory", settings(case, matrix)[0])
    if not matches:
        return
    claims = [match.claim for match in matches]
    fixed = [c.until for c in claims if c.until]
    domain = matrix.engine(found.name)
    clear = max(fixed, key=lambda v: Version(v).low) if len(fixed) == len(claims) else ""
    worst = max((str(c.data.get("severity", "")).lower() for c in claims), key=_weight)
    named = ", ".join(c.key for c in claims[:3])
    yield Fault(
        severity=Severity.WARNING if _is_urgent(case, found) else None,
        message=f"{len(claims)} advisories about {found.label} as of "
        f"{domain.as_of if domain else ''}{f', worst {worst}' if worst in _WEIGHTS else ''}"
        f": {named}{' ...' if len(claims) > 3 else ''}",
        evidence=(found.evidence,),
        remedies=(Remedy(f"upgrade to {clear} or newer" if clear else "keep its ports closed"),),
        sources=tuple(dict.fromkeys(s for c in claims[:3] for s in c.source)),
    )


def _is_urgent(case: Case, found: Software) -> bool:
    """Found on disk or running, not in a report or a plan; or told to be reached or flagged."""
    package = case.scope.package(found.name, found.name.replace(".", "-"))
    is_running = case.workload is not None and case.workload.pid is not None
    is_here = is_running or (package is not None and bool(package.location))
    return is_here or is_told(case, "exposed", "scanned")


def _weight(severity: str) -> int:
    return _WEIGHTS.index(severity) if severity in _WEIGHTS else -1


RULES: tuple[Rule, ...] = (published_advisories,)
