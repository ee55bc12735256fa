"""likelihood.yaml is what the labelled reports give, and what it names can be explained."""

from __future__ import annotations

import msgspec
import pytest

from doctor.matrix import load_matrix
from doctor.rules.engine import page_of
from doctor.rules.registry import RULES
from tests.make_likelihood import Report, fit, listed, read_reports, vocabulary

AGAIN = "python -m tests.make_likelihood"
DOMAIN = load_matrix().likelihood


@pytest.fixture(scope="module")
def reports() -> list[Report]:
    return read_reports(load_matrix(), judged=False)


def test_the_file_holds_the_reports_of_today(reports: list[Report]) -> None:
    words = tuple(row.word for row in DOMAIN.words)
    assert words == vocabulary(reports), AGAIN
    rows = [{**msgspec.to_builtins(row), "words": list(row.words)} for row in DOMAIN.reports]
    assert rows == list(listed(reports, words)), AGAIN


@pytest.mark.slow
def test_the_weights_are_what_the_reports_give(reports: list[Report]) -> None:
    weights = fit(reports)
    assert weights.causes == DOMAIN.causes, AGAIN
    for row, fitted in zip(DOMAIN.words, weights.table, strict=True):
        far = max(abs(a / 100 - b) for a, b in zip(row.weights, fitted, strict=True))
        assert far < 0.03, f"{row.word}: {AGAIN}"


def test_every_row_has_a_weight_for_every_cause() -> None:
    assert len(DOMAIN.bias) == len(DOMAIN.causes)
    assert {len(row.weights) for row in DOMAIN.words} == {len(DOMAIN.causes)}


@pytest.mark.parametrize("cause", [cause for cause in DOMAIN.causes if cause])
def test_what_may_be_named_can_be_explained(cause: str) -> None:
    assert load_matrix().causes[cause].rung
    assert page_of(cause, RULES)


def test_levels_fall_and_were_measured() -> None:
    shares = [level.share for level in DOMAIN.levels]
    assert shares == sorted(shares, reverse=True)
    assert all(0 <= level.right <= level.reports for level in DOMAIN.levels)
