"""A trainer and the engine that generates for it, on the devices of one host."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.settings import applicable, settings
from doctor.rules.software import engine


@rule("MDL405", cause="parallelism-invalid", severity=Severity.WARNING)
def trainer_has_no_device(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The engine serves a trainer of the same host, and there is one device for both.

    What: trainers that reach the engine as a server of its own, as their version or an argument
        tells, against the number of devices.
    Why: trainer and server are ranks of one NCCL group, which refuses two ranks on a device
        ("Duplicate GPU detected", "invalid usage").
    How to fix: the mode in which the engine runs inside the trainer, or a device for each.
    Silent when: no such trainer is known to be used, or the number of devices is not known.
    Sources: TRL documentation on its use of vLLM (rows in the matrix).
    """
    found = engine(case, matrix)
    rows = applicable(matrix, found, "own-devices", settings(case, matrix)[0])
    rows = [m for m in rows if not _has_any(case, m.claim.data.get("unless", ()))]
    if not rows:
        raise NotApplicable("no trainer that needs devices beside those of the engine")
    devices = case.facts.devices.known("devices")
    if len(devices) == 1 and not case.facts.devices.partial:
        claim = rows[0].claim
        yield Fault(
            f"{claim.text}: one device is here",
            evidence=(found.evidence, Evidence("1 device", case.facts.devices.at)),
            remedies=(Remedy(claim.remedy),),
            sources=claim.source,
            extrapolated=rows[0].extrapolated,
        )


def _has_any(case: Case, names: tuple[str, ...]) -> bool:
    return any(case.scope.package(name) is not None for name in names)


RULES: tuple[Rule, ...] = (trainer_has_no_device,)
