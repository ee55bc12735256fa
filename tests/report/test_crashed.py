"""A rule that crashed is a fault of doctor: every format says so, none passes over it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from doctor.findings import Outcome, OutcomeKind
from doctor.report import FORMATS, Report, Style, renderer
from tests.golden.shared import load

# Lines for findings, lists of findings, and figures have no room for it.
ELSEWHERE = {"github", "baseline", "prometheus"}


def _with_a_crash(report: Report) -> Report:
    crash = Outcome("DRV101", "driver-too-old", OutcomeKind.CRASHED, True, reason="KeyError('gfx')")
    first, *rest = report.diagnosis.targets
    first = replace(first, outcomes=(crash, *first.outcomes[1:]))
    return replace(report, diagnosis=replace(report.diagnosis, targets=(first, *rest)))


@pytest.mark.parametrize("verbose", [True, False])
@pytest.mark.parametrize("name", sorted(FORMATS.keys() - ELSEWHERE))
def test_it_is_named_with_its_reason(name: str, verbose: bool) -> None:
    said = renderer(name)(_with_a_crash(load("undecided")), Style(verbose=verbose))
    assert "DRV101" in said
    assert "KeyError" in said
