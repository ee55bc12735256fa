"""Every recorded host gets the verdict and the primary cause that it was made for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from doctor.diagnose import diagnose
from doctor.findings import OutcomeKind
from doctor.intake.snapshot import read_snapshot
from doctor.matrix import load_matrix

HOSTS = sorted((Path(__file__).parent.parent / "hosts").glob("*/facts.json"))


@pytest.mark.parametrize("path", HOSTS, ids=lambda path: str(path.parent.name))
def test_recorded_host(path: Path) -> None:
    expected = json.loads((path.parent / "findings.json").read_text())
    found = diagnose(read_snapshot(path.read_text()), load_matrix())
    primaries = [t.primary.cause for t in found.targets if t.primary]
    assert found.verdict.value == expected["verdict"]
    assert (primaries[0] if primaries else None) == expected["primary"]
    crashed = [o for t in found.targets for o in t.outcomes if o.kind is OutcomeKind.CRASHED]
    assert crashed == []
