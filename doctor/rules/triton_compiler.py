"""Can the Triton that torch brings compile for the card."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.facts import Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules import cards
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.model_facts import argument, environment
from doctor.rules.settings import applicable, settings
from doctor.rules.software import engine_name, software, torch_version

_PATH = "TRITON_PTXAS_PATH"


@rule("PYE308", cause="build-toolchain-missing", severity=Severity.WARNING)
def triton_of_torch_before_card(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The Triton that this torch pins carries an assembler from before the card.

    What: the Triton that the torch release pins, against the cards that its ptxas knows.
    Why: torch itself runs, and the first kernel of Triton or torch.compile ends in "ptxas fatal:
        Value 'sm_121a' is not defined for option 'gpu-name'".
    How to fix: name the ptxas of a newer CUDA toolkit in TRITON_PTXAS_PATH, or a newer torch.
    Silent when: that variable is set, Triton is stated by itself, or the engine is none of torch
        alone: others bring their own way. A note where nobody tells of Triton or torch.compile.
    Sources: ptxas inside the wheels of Triton (rows in the matrix); triton-lang/triton issue 8539.
    """
    if engine_name(case, matrix) != "torch" or _PATH in environment(case):
        raise NotApplicable("not torch by itself, or the assembler is chosen")
    torch = torch_version(case)
    row = matrix.release("torch", Version(torch.public)) if torch is not None else None
    pin = row.pins.get("triton", "") if row is not None else ""
    if not pin.startswith("==") or case.scope.package("triton") is not None:
        raise NotApplicable("the Triton that torch brings is not known, or is stated")
    found = software(matrix, "triton", Version(pin.removeprefix("==")))
    for setting in settings(case, matrix):
        for match in applicable(matrix, found, "capability-unsupported", setting):
            device = setting.device
            if device is not None:
                yield Fault(
                    f"torch {torch} brings Triton {found.version}, which cannot compile for "
                    f"{cards.label(device, matrix)}: {match.claim.text}",
                    evidence=(
                        cards.evidence(device, matrix),
                        Evidence(f"torch {torch}", case.scope.torch.at),
                    ),
                    remedies=(Remedy(match.claim.remedy),),
                    sources=match.claim.source,
                    subject=device.id,
                    severity=None if _compiles(case) else Severity.INFO,
                )


def _compiles(case: Case) -> bool:
    """Somebody tells of Triton or torch.compile; much that runs on torch needs neither."""
    asked = str(argument(case, "torch_compile")[0] or "").lower() not in ("", "false")
    return asked or any(map(_COMPILED.search, case.facts.notes))


_COMPILED = re.compile(r"\btorch\.compile\b|\btriton\b|\binductor\b", re.IGNORECASE)


RULES: tuple[Rule, ...] = (triton_of_torch_before_card,)
