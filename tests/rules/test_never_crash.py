"""No host makes a rule crash: every outcome is an answer, and every report can be printed."""

from __future__ import annotations

import json
import random
import unicodedata
from collections import Counter
from contextlib import suppress

import pytest

from doctor.diagnose import diagnose
from doctor.errors import UsageError
from doctor.facts import Facts
from doctor.findings import OutcomeKind
from doctor.intake.detect import parse_input
from doctor.matrix import load_matrix
from doctor.report import Report, Style, renderer
from tests.rules.mutants import hosts, mutant

MATRIX = load_matrix()
HOSTS = hosts()


def _judge(facts: Facts) -> Counter[str]:
    """Judge and print; what crashed, by rule."""
    diagnosis = diagnose(facts, MATRIX)
    report = Report(facts, diagnosis)
    json.loads(renderer("json")(report, Style()))
    text = renderer("text")(report, Style(width=60, verbose=True))
    assert not {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs")} - {"\n"}
    outcomes = (o for target in diagnosis.targets for o in target.outcomes)
    return Counter(f"{o.code} {o.reason}" for o in outcomes if o.kind is OutcomeKind.CRASHED)


def _run(seed: int, number: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - the same mutants every time
    crashed, judged = Counter[str](), 0
    for _ in range(number):
        text = json.dumps(mutant(HOSTS, rng))
        with suppress(UsageError):
            facts = parse_input(text, "mutant").facts
            judged += 1
            crashed += _judge(facts)
    assert not crashed
    assert judged > number // 4, "most mutants are refused before a rule sees them"


def test_hosts_as_they_are() -> None:
    crashed: Counter[str] = Counter()
    for wire in HOSTS:
        crashed += _judge(parse_input(json.dumps(wire), "host").facts)
    assert not crashed


def test_a_sample_of_mutants() -> None:
    _run(seed=1, number=60)


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(2, 12))
def test_many_mutants(seed: int) -> None:
    _run(seed, number=10_000)
