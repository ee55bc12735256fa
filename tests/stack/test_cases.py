"""The resolver against answers that were written before it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from doctor.facts import Specifier, Version
from doctor.stack.model import PROVEN, Resolution
from tests.stack.asking import ask_for, proven

_TEXT = Path(__file__).with_name("resolve_cases.yaml").read_text(encoding="utf-8")
CASES: list[dict[str, Any]] = yaml.load(_TEXT, Loader=yaml.BaseLoader)["cases"]  # noqa: S506


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_the_answer_is_the_expected_one(case: dict[str, Any]) -> None:
    expected = case["expect"]
    found = ask_for(case["host"], case["ask"], unlocks="unlocks" in expected)
    _check_order(found)
    assert found.verdict == expected["verdict"]
    _check_versions(found, expected)
    _check_best(found, expected)
    _check_unlocks(found, expected.get("unlocks", {}))


def _check_versions(found: Resolution, expected: dict[str, Any]) -> None:
    stacks = proven(found)
    if "newest" in expected:
        assert stacks[0].version == expected["newest"]
    if expected["verdict"] == "none":
        assert not found.offers
    bounds = Specifier.parse(expected.get("within", ""))
    for stack in stacks if "within" in expected else ():
        assert bounds is not None
        assert bounds.admits(Version(stack.version)) is True, stack
    also = expected.get("also")
    if also:
        assert (also["version"], also["kind"]) in {(s.version, s.kind) for s in stacks}


def _check_best(found: Resolution, expected: dict[str, Any]) -> None:
    stacks = proven(found)
    if not stacks:
        return
    best = stacks[0]
    assert best.torch in expected.get("torch", [best.torch])
    assert best.cuda == expected.get("cuda", best.cuda)
    assert best.engine == expected.get("engine", best.engine)
    assert list(best.flags) == expected.get("flags", list(best.flags))
    kinds = {s.kind for s in stacks if s.version == best.version}
    assert kinds & set(expected.get("kind", kinds))
    if expected.get("compat"):
        assert any("COMPATIBILITY" in name for name, _ in best.env)


def _check_unlocks(found: Resolution, expected: dict[str, str]) -> None:
    gained = {u.kind: u.gains.stack.version for u in found.unlocks if u.gains.stack}
    assert {kind: gained.get(kind) for kind in expected} == expected


def _check_order(found: Resolution) -> None:
    """What is proven stands first; what is not says what it lacks; refusals say why."""
    states = [offer.state == PROVEN for offer in found.offers]
    assert states == sorted(states, reverse=True)
    for offer in found.offers:
        assert offer.candidate.sources
        assert bool(offer.lacks) is (offer.state != PROVEN)
    for judged in found.refused:
        assert any(f.sources or f.evidence for f in judged.findings), judged.candidate
