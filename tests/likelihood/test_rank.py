"""The likeliest causes: order, what speaks for them, and when nothing is named."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.likelihood import likeliest
from doctor.matrix.likelihood import Level, LikelihoodDomain, PublicReport, Word
from doctor.matrix.model import Confidence

DOMAIN = LikelihoodDomain(
    as_of="2026-11-01",
    source=("three reports",),
    confidence=Confidence.INFERRED,
    note="",
    causes=("", "a", "b", "c"),
    bias=(0, 0, 0, 0),
    levels=(Level(share=0.6, right=9, reports=10), Level(share=0.3, right=5, reports=10)),
    words=(
        Word(word="engine x", weights=(0, 100, 0, -100)),
        Word(word="card y", weights=(-100, 200, 50, 0)),
        Word(word="os z", weights=(300, 0, 0, 0)),
        Word(word="stated driver", weights=(0, 300, 0, 0)),
    ),
    reports=(
        PublicReport(source="far", cause="a", words=(2,)),
        PublicReport(source="near", cause="a", words=(0, 1)),
        PublicReport(source="near", cause="a", words=(0,)),
        PublicReport(source="other", cause="b", words=(0, 1)),
    ),
)
TOLD = frozenset({"engine x", "card y", "never seen"})


def test_the_first_is_what_the_words_speak_for() -> None:
    found = likeliest(TOLD, DOMAIN)
    assert [likely.cause for likely in found] == ["a", "b", "c"]
    assert found[0].because == ("card y", "engine x")
    assert found[0].alike == ("near", "far")
    assert (found[0].right, found[0].reports) == (9, 10)


def test_that_a_thing_is_stated_weighs_and_is_no_reason_to_print() -> None:
    found = likeliest(TOLD | {"stated driver"}, DOMAIN)
    assert found[0].share > likeliest(TOLD, DOMAIN)[0].share
    assert "stated driver" not in found[0].because


@pytest.mark.parametrize(
    "words", [frozenset(), frozenset({"engine x"}), frozenset({"engine x", "engine x 0.8"})]
)
def test_an_engine_alone_names_nothing(words: frozenset[str]) -> None:
    assert likeliest(words, DOMAIN) == ()


def test_one_thing_beside_the_engine_is_enough() -> None:
    assert likeliest(frozenset({"engine x", "card y"}), DOMAIN)[0].cause == "a"


def test_hosts_that_are_mostly_sound_have_no_fault() -> None:
    words = TOLD | {"os z"}
    assert likeliest(words, DOMAIN)
    assert likeliest(words, DOMAIN, sound=0.1) == ()


def test_below_the_last_level_nothing_is_named() -> None:
    assert likeliest(frozenset({"p", "q", "r"}), DOMAIN)[0].reports == 10
    unclear = msgspec.structs.replace(DOMAIN, levels=DOMAIN.levels[:1])
    assert likeliest(frozenset({"p", "q", "r"}), unclear) == ()


@given(st.frozensets(st.sampled_from(["engine x", "card y", "os z", "stated driver", "u", "v"])))
def test_shares_fall_and_make_at_most_one(words: frozenset[str]) -> None:
    shares = [likely.share for likely in likeliest(words, DOMAIN)]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) <= 1.0001
