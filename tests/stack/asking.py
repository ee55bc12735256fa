"""Ask the resolver about a host in one line, as the command does."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from doctor.examine import Sources, gather
from doctor.facts import Facts, Specifier
from doctor.matrix import Matrix, load_matrix
from doctor.stack.judge import Judge
from doctor.stack.model import PROVEN, Ask, Resolution, Stack
from doctor.stack.resolve import resolve
from doctor.stack.search import candidates, newest_proven


@lru_cache(maxsize=1)
def matrix() -> Matrix:
    """One matrix for all tests: reading it is what costs."""
    return load_matrix()


@lru_cache(maxsize=256)
def host(line: str) -> Facts:
    """The host that a line describes."""
    return gather(Sources(host=line)).facts


def ask_for(line: str, ask: dict[str, Any], unlocks: bool = False) -> Resolution:
    """The answer for a host and an ask as the case files write it."""
    return _answer(line, tuple(sorted(ask.items())), unlocks)


@lru_cache(maxsize=512)
def _answer(line: str, asked: tuple[tuple[str, Any], ...], unlocks: bool) -> Resolution:
    ask = dict(asked)
    facts = host(line)
    every = tuple(device.id for device in facts.devices.value or ())
    wanted = Ask(
        engine=ask.get("engine", ""),
        spec=Specifier.parse(ask["spec"]) if "spec" in ask else None,
        goal=ask.get("goal", ""),
        artifact=ask.get("artifact", ""),
        args=(("quantization", ask["quantization"]),) if "quantization" in ask else (),
        devices=every if ask.get("devices") == "all" else (),
    )
    return resolve(facts, matrix(), wanted, unlocks)


def proven(found: Resolution) -> list[Stack]:
    """Stacks that are offered as proven, best first."""
    return [offer.stack for offer in found.offers if offer.state == PROVEN and offer.stack]


def newest(line: str, engine: str = "vllm") -> str:
    """The version of the best proven stack, "" for none."""
    facts, ask = host(line), Ask(engine=engine)
    found = newest_proven(Judge(facts, matrix(), ask), candidates(matrix(), engine, facts, ask))
    return found.candidate.version.public if found and found.candidate.version else ""
