"""Every rule on its own cases: tests/rules/<CODE>.yaml."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from doctor.diagnose import Request, cases
from doctor.facts import Expected, Facts, Version
from doctor.findings import OutcomeKind
from doctor.intake.field_report import read_field_report
from doctor.intake.snapshot import from_wire
from doctor.matrix import load_matrix
from doctor.rules.engine import Rule, run_rule
from doctor.rules.registry import RULES

FOLDER = Path(__file__).parent
MATRIX = load_matrix()
BY_CODE = {item.code: item for item in RULES}
EXPECTED = {
    "fires": OutcomeKind.FINDINGS,
    "clean": OutcomeKind.CLEAN,
    "cannot-tell": OutcomeKind.CANNOT_TELL,
    "not-applicable": OutcomeKind.NOT_APPLICABLE,
}


@lru_cache(maxsize=1)
def load() -> list[tuple[str, dict[str, Any]]]:
    """Every case with the code of its rule."""
    found = []
    for path in sorted(FOLDER.glob("*.yaml")):
        data = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)
        found += [(data["code"], case) for case in data["cases"]]
    return found


def _facts(case: dict[str, Any]) -> Facts:
    if "facts" in case:
        return from_wire(case["facts"])
    return read_field_report(case["report"])


def _expected(case: dict[str, Any]) -> Expected:
    """What a lock promises: packages by version, what is held and pinned, the driver."""
    stated = case.get("expected", {})
    return Expected(
        packages=tuple(stated.get("packages", {}).items()),
        holds=tuple(stated.get("holds", ())),
        pins=tuple(stated.get("pins", ())),
        driver=Version.maybe(stated.get("driver")),
    )


@pytest.mark.parametrize(
    ("code", "case"), [pytest.param(c, k, id=f"{c}: {k['name']}") for c, k in load()]
)
def test_case(code: str, case: dict[str, Any]) -> None:
    item = BY_CODE[code]
    first = cases(_facts(case), MATRIX, Request(), _expected(case))[0]
    outcome = run_rule(item, first, MATRIX)
    assert outcome.kind is EXPECTED[case["expect"]], outcome
    if "severity" in case:
        assert {f.severity.value for f in outcome.findings} == {case["severity"]}
    if "missing" in case:
        assert case["missing"] in outcome.missing
    firsts = [finding.remedies[0].action for finding in outcome.findings if finding.remedies]
    assert not [action for action in firsts if action.startswith("or ")]


@pytest.mark.parametrize("item", RULES, ids=lambda item: str(item.code))
def test_has_cases_of_each_kind(item: Rule) -> None:
    kinds = {case["expect"] for code, case in load() if code == item.code}
    assert {"fires", "clean"} <= kinds
    assert kinds & {"cannot-tell", "not-applicable"}


HEADINGS = ("What:", "Why:", "How to fix:", "Silent when:", "Sources:")


@pytest.mark.parametrize("item", RULES, ids=lambda item: str(item.code))
def test_page_has_the_headings_in_order(item: Rule) -> None:
    places = [item.page.find(heading) for heading in HEADINGS]
    assert -1 not in places
    assert places == sorted(places)


def test_codes_are_unique_and_causes_exist() -> None:
    codes = [item.code for item in RULES]
    assert len(codes) == len(set(codes))
    assert {item.cause for item in RULES} <= set(MATRIX.causes)
