"""Every kind of cause, over engines, cards and shapes of input; and cards against torch builds.

`kinds.yaml` holds short reports of each kind, and texts that people paste, written from what
the projects state. The second half computes from the rows of the matrix alone, without the
rules, which builds of torch hold code for which card, and asks the rules the same.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from doctor.diagnose import diagnose
from doctor.facts import Facts
from doctor.findings import Finding, OutcomeKind, Severity
from doctor.intake import parse_input
from doctor.intake.case_file import read_case_file
from doctor.matrix.compile import read_yaml
from doctor.matrix.load import load_matrix
from doctor.matrix.model import Gpu, Variant

MATRIX = load_matrix()
DATA = Path(__file__).parent.parent / "data"
KINDS: list[dict[str, Any]] = read_yaml(DATA / "kinds.yaml")["kinds"]
SEED, SAMPLE = 20261130, 60


def judged(facts: Facts) -> tuple[Finding | None, list[Finding]]:
    """The finding named first, and all; no rule may have crashed."""
    diagnosis = diagnose(facts, MATRIX)
    outcomes = [o for target in diagnosis.targets for o in target.outcomes]
    assert [o for o in outcomes if o.kind is OutcomeKind.CRASHED] == []
    findings = [f for target in diagnosis.targets for f in target.findings]
    return diagnosis.targets[0].primary, findings


@pytest.mark.parametrize("kind", KINDS, ids=[str(kind["kind"]) for kind in KINDS])
def test_kind_is_named(kind: dict[str, Any]) -> None:
    """The cause is named first; a healthy host gets nothing above a note."""
    is_pasted = "text" in kind
    primary, findings = judged(
        parse_input(kind["text"]).facts if is_pasted else read_case_file(kind)
    )
    if "cause" in kind:
        assert primary is not None
        assert primary.cause == kind["cause"]
    else:
        assert [f for f in findings if f.severity is not Severity.INFO] == []


def holds_code(targets: tuple[str, ...], capability: str) -> bool:
    """Machine code of the same major and no higher minor, or PTX of no higher capability."""
    major, minor = map(int, capability.split("."))
    for target in targets:
        kind, _, number = target.partition("@")[0].partition("_")
        if not number.isdigit():  # "90a" and "100f" are for one capability or family
            continue
        own = (int(number[:-1]), int(number[-1]))
        if kind == "sm" and own[0] == major and own[1] <= minor:
            return True
        if kind == "compute" and own <= (major, minor):
            return True
    return False


def pairs() -> list[tuple[str, Variant, Gpu]]:
    """Builds of torch with known targets, and cards that are no SoC, each of one name."""
    torch = MATRIX.engine("torch")
    assert torch is not None
    builds = [
        (row.version, variant)
        for row in torch.releases
        for variant in row.variants
        if variant.cuda and variant.targets and "x86_64" in variant.archs
        if not any(t.partition("@")[0][-1] in "af" for t in variant.targets)
    ]
    cards = [
        gpu
        for gpu in MATRIX.gpus.gpus
        if gpu.capability and gpu.names and not gpu.unified_memory
        if gpu.gpu_class in ("datacenter", "geforce", "workstation")
        if len({g.capability for g in MATRIX.gpus_named(gpu.names[0])}) == 1
    ]
    chosen = random.Random(SEED)  # noqa: S311 - a repeatable sample
    return [(*chosen.choice(builds), chosen.choice(cards)) for _ in range(SAMPLE)]


@pytest.mark.parametrize(("version", "build", "card"), pairs())
def test_torch_build_on_card(version: str, build: Variant, card: Gpu) -> None:
    """`cc-not-in-binary` is an error exactly where no target of the build runs on the card."""
    report = {
        "engine": "pytorch",
        "os": {"arch": "x86_64"},
        "gpus": [{"name": card.names[0], "count": 1}],
        "packages": {"torch": f"{version}+{build.name}"},
    }
    _, findings = judged(read_case_file({"report": report}))
    errors = {f.cause for f in findings if f.severity is Severity.ERROR}
    expected = not holds_code(build.targets, card.capability or "")
    assert ("cc-not-in-binary" in errors) is expected
