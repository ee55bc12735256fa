"""Can the Triton that is installed, or that torch brings, compile for the card."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.facts import Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules import cards
from doctor.rules.builds import as_cuda
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.host_arch import first_cuda
from doctor.rules.image_facts import is_of_others
from doctor.rules.model_facts import argument, environment
from doctor.rules.settings import applicable, settings
from doctor.rules.software import engine, engine_name, shared_pin, software, torch_version

_PATH = "TRITON_PTXAS_PATH"


@rule("PYE308", cause="build-toolchain-missing", severity=Severity.WARNING)
def triton_before_card(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The Triton here, or the one that this torch pins, carries an assembler from before the card.

    What: Triton as stated, else the one that the torch release pins, against the cards that its
        ptxas knows.
    Why: torch itself runs, and the first kernel of Triton or torch.compile ends in "ptxas fatal:
        Value 'sm_121a' is not defined for option 'gpu-name'".
    How to fix: name the ptxas of a newer CUDA toolkit in TRITON_PTXAS_PATH, or a newer torch.
    Silent when: that variable is set, or another engine than torch does not state its Triton and
        no image of its own tells it: such bring their own way. A note where torch is used and
        nobody tells of Triton or torch.compile, and in an image, which may name a ptxas.
    Sources: ptxas inside the wheels of Triton (rows in the matrix); triton-lang/triton issue 8539.
    """
    if _PATH in environment(case):
        raise NotApplicable("the assembler is chosen")
    version, told = _triton(case, matrix)
    found = software(matrix, "triton", version)
    for setting in settings(case, matrix):
        for match in applicable(matrix, found, "capability-unsupported", setting):
            device = setting.device
            if device is not None:
                yield Fault(
                    f"{told} cannot compile for {cards.label(device, matrix)}: {match.claim.text}",
                    evidence=(cards.evidence(device, matrix), Evidence(*_holder(case, version))),
                    remedies=(Remedy(match.claim.remedy),),
                    sources=match.claim.source,
                    subject=device.id,
                    severity=None if _compiles(case, matrix) else Severity.INFO,
                )


def _triton(case: Case, matrix: Matrix) -> tuple[Version, str]:
    """The Triton that compiles here, and how to speak of it."""
    stated = case.scope.package("triton")
    if stated is not None and stated.version is not None:
        return stated.version, f"Triton {stated.version}"
    torch = torch_version(case) or _torch_of_image(case, matrix)
    row = matrix.release("torch", Version(torch.public)) if torch is not None else None
    pin = row.pins.get("triton", "") if row is not None else ""
    by_name = engine_name(case, matrix) == "torch" or torch_version(case) is None
    if not by_name or not pin.startswith("=="):
        raise NotApplicable("the Triton that compiles here is not known")
    version = Version(pin.removeprefix("=="))
    return version, f"torch {torch} brings Triton {version}, which"


def _torch_of_image(case: Case, matrix: Matrix) -> Version | None:
    """The torch that the release in an image of the engine's own project pins."""
    found = engine(case, matrix)
    pin = _EXACT.fullmatch(shared_pin(found, "torch"))
    is_own = bool(case.scope.image.ref) and not is_of_others(case.scope, matrix, found.name)
    return Version(pin[1]) if pin is not None and is_own and found.is_settled else None


_EXACT = re.compile(r"==\s*([\d.]+)")


def _holder(case: Case, version: Version) -> tuple[str, str]:
    """What names the Triton, and where that was read."""
    if case.scope.package("triton") is not None:
        return f"triton {version}", case.scope.packages.at
    return f"torch {torch_version(case)}", case.scope.torch.at


def _compiles(case: Case, matrix: Matrix) -> bool:
    """Tell whether Triton is used: an engine uses it, much that runs on torch does not."""
    if engine_name(case, matrix) != "torch":
        return not case.scope.image.ref or _is_before_card(case, matrix)
    asked = str(argument(case, "torch_compile")[0] or "").lower() not in ("", "false")
    return asked or any(map(_COMPILED.search, case.facts.notes))


def _is_before_card(case: Case, matrix: Matrix) -> bool:
    """The engine's release in the image is for a CUDA whose own assembler is too old as well."""
    rows = engine(case, matrix).rows
    cuda = as_cuda(rows[0].cuda or "") if len(rows) == 1 else None
    return cuda is not None and any(
        cuda.older_than(first) is True for first in first_cuda(case, matrix)
    )


_COMPILED = re.compile(r"\btorch\.compile\b|\btriton\b|\binductor\b", re.IGNORECASE)


RULES: tuple[Rule, ...] = (triton_before_card,)
