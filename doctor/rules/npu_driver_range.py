"""HDK drivers that work in principle: below what an engine advises, above what CANN names."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.facts import Missing, MissingFact, Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import ClaimMatch, Matrix
from doctor.rules.engine import Case, Fault, NotApplicable, Severity, rule
from doctor.rules.npu import cann_version, is_ascend
from doctor.rules.settings import applicable, settings
from doctor.rules.software import Software, engine, software


@rule("NPU104", cause="npu-driver-firmware", severity=Severity.INFO)
def npu_driver_outside_advice(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The HDK driver is older than the engine advises, or newer than CANN was tested with.

    What: the NPU driver against the version that the engine's project recommends, and
        against the newest that the notes of the CANN release name.
    Why: both combinations start; features of the engine may be missing below, and nobody
        has tested what is above.
    How to fix: the driver named, together with its firmware, at the next maintenance.
    Silent when: the driver is inside of both; the lowest driver has a rule of its own. A
        note: neither is known to be bad.
    Sources: vllm-ascend documentation; CANN release notes (rows in the matrix).
    """
    is_ascend(case, matrix)
    driver = case.facts.ascend.driver.known("ascend.driver")
    told = [*_advice(case, matrix), *_ceiling(case, matrix)]
    if not told:
        raise MissingFact("release of CANN or of the engine", Missing.NOT_STATED)
    for found, match in told:
        limit = Version(match.claim.value)
        if match.claim.kind == "npu-driver-recommended" and driver.older_than(limit) is True:
            what = f"{found.label} advises HDK {limit} or newer"
        elif match.claim.kind == "npu-driver-ceiling" and driver.newer_than(limit) is True:
            what = f"{found.label} was tested with HDK drivers up to {limit}"
        else:
            continue
        yield Fault(
            f"{what}; {driver} is loaded",
            evidence=(
                Evidence(f"NPU driver {driver}", case.facts.ascend.driver.at),
                found.evidence,
            ),
            remedies=(Remedy(f"HDK {limit}, driver and firmware together", reboot=True),),
            sources=match.claim.source,
            extrapolated=match.extrapolated,
        )


def _advice(case: Case, matrix: Matrix) -> Iterator[tuple[Software, ClaimMatch]]:
    try:
        found = engine(case, matrix)
    except NotApplicable:
        return
    if found.version is not None:
        yield from _of_kind(case, matrix, found, "npu-driver-recommended")


def _ceiling(case: Case, matrix: Matrix) -> Iterator[tuple[Software, ClaimMatch]]:
    version, at = cann_version(case, matrix)
    if version is not None:
        yield from _of_kind(
            case, matrix, software(matrix, "cann", version, at), "npu-driver-ceiling"
        )


def _of_kind(
    case: Case, matrix: Matrix, found: Software, kind: str
) -> Iterator[tuple[Software, ClaimMatch]]:
    for match in applicable(matrix, found, kind, settings(case, matrix)[0]):
        yield found, match


RULES = (npu_driver_outside_advice,)
