"""What can only help never makes the answer older."""

from __future__ import annotations

from itertools import pairwise

import pytest

from doctor.facts import Version
from tests.stack.asking import ask_for, newest, proven

CARDS = {
    "Tesla V100-SXM2-32GB": 580,
    "Tesla T4": 620,
    "NVIDIA A100-SXM4-80GB": 620,
    "NVIDIA L40S": 620,
    "NVIDIA H100 80GB HBM3": 620,
    "NVIDIA B200": 620,
    "NVIDIA GeForce RTX 3090": 620,
    "NVIDIA GeForce RTX 5090": 620,
}
DRIVERS = ("470.256.02", "525.147.05", "535.309.01", "550.163.01", "570.211.01", "580.178.04",
           "620.70.06")  # fmt: skip
PYTHONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14")
GLIBCS = ("2.17", "2.28", "2.31", "2.34", "2.35", "2.39")
ENGINES = ("vllm", "sglang", "onnxruntime", "lmdeploy")


def line(card: str, driver: str = "580.178.04", python: str = "3.12", glibc: str = "2.35",
         container: str = "none") -> str:  # fmt: skip
    """A host of two such cards."""
    return (
        f"{card}x2,driver={driver},python={python},glibc={glibc},os=ubuntu-22.04,"
        f"arch=x86_64,container={container}"
    )


def never_older(answers: list[str]) -> bool:
    """Tell whether no answer is below the one before it; "" is below all."""
    keys = [Version(text).low if text else () for text in answers]
    return all(one <= other for one, other in pairwise(keys))


@pytest.mark.parametrize("engine", ENGINES[:2])
@pytest.mark.parametrize("card", CARDS)
def test_a_newer_driver_within_the_branches_of_the_card(card: str, engine: str) -> None:
    fitting = [d for d in DRIVERS if int(d.partition(".")[0]) <= CARDS[card]]
    answers = [newest(line(card, driver=d), engine) for d in fitting]
    assert never_older(answers), answers


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("card", ["NVIDIA L40S", "NVIDIA H100 80GB HBM3"])
def test_a_newer_python_in_the_range_of_the_newest(card: str, engine: str) -> None:
    answers = [newest(line(card, python=p), engine) for p in PYTHONS]
    best = max(answers, key=lambda text: Version(text).low if text else ())
    assert never_older(answers[: answers.index(best) + 1]), answers


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("card", ["Tesla T4", "NVIDIA H100 80GB HBM3"])
def test_a_newer_glibc(card: str, engine: str) -> None:
    answers = [newest(line(card, glibc=g), engine) for g in GLIBCS]
    assert never_older(answers), answers


@pytest.mark.parametrize("driver", DRIVERS[1:6:2])
@pytest.mark.parametrize("card", ["Tesla T4", "NVIDIA H100 80GB HBM3", "NVIDIA GeForce RTX 3090"])
def test_a_container_engine_never_takes_an_offer_away(card: str, driver: str) -> None:
    without = newest(line(card, driver=driver))
    with_images = newest(line(card, driver=driver, container="docker"))
    assert never_older([without, with_images])


@pytest.mark.parametrize("card", CARDS)
def test_the_ceiling_of_the_driver_is_that_of_the_cards(card: str) -> None:
    for stack in proven(ask_for(line(card), {"engine": "vllm"})):
        ceiling = int(stack.driver_ceiling or 9999)
        assert ceiling == (CARDS[card] if card.startswith("Tesla V100") else 9999)


def test_unlocks_never_name_a_branch_that_drops_a_card() -> None:
    hosts = [
        "Quadro P2000,cc=6.1,NVIDIA RTX A5000,driver=535.309.01,python=3.12,os=ubuntu-22.04,"
        "arch=x86_64,container=none",
        line("Tesla V100-SXM2-32GB", driver="470.256.02"),
    ]
    for text in hosts:
        changes = ask_for(text, {"engine": "vllm"}, unlocks=True).unlocks
        branches = [int(u.change.split()[2]) for u in changes if u.kind == "driver"]
        assert branches
        assert max(branches) <= 580
