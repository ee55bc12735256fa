"""A sample of every campaign, what once broke, and the whole campaigns (heavy)."""

from __future__ import annotations

import ast
import re
from contextlib import suppress
from pathlib import Path

import pytest

from tests.fuzz.campaign import LIMIT_BYTES, ROUND, apart, guard, inputs, parsers, slug, tried
from tests.fuzz.parser import Parser

HERE = Path(__file__).parent
DOCTOR = HERE.parent.parent / "doctor"
SAMPLE, FULL = 40, 100_000
ALL = {parser.name: parser for parser in parsers()}
BROKE = sorted((HERE / "corpus").iterdir())
# Read through another that is listed; the last splits an argument of the command line.
_INNER = {"parse_exact", "parse_device", "parse_outputs"}


def test_names_are_told_apart() -> None:
    assert len({slug(name) for name in ALL}) == len(parsers())


def test_no_parser_is_forgotten() -> None:
    listed = "".join(path.read_text() for path in HERE.glob("*parsers.py"))
    listed += (HERE.parent / "probes/test_parsers_never_raise.py").read_text()
    formats = "doctor/intake/formats/"
    forgotten = [
        f"{path.stem}.{node.name}"
        for path in sorted(DOCTOR.rglob("*.py"))
        if formats not in str(path)
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef)
        and (node.name == "parse" or node.name.startswith("parse_"))
        and node.name not in _INNER
        and f"{path.stem}.{node.name}" not in listed
        and not re.search(rf"\b{node.name}\b(?<!\bparse)", listed)
    ]
    assert forgotten == []


@pytest.mark.parametrize("name", ALL)
def test_a_seed_is_understood(name: str) -> None:
    parser = ALL[name]
    assert parser.kept
    parser.read(parser.kept[0])


@pytest.mark.parametrize("name", ALL)
def test_a_sample_of_damage(name: str) -> None:
    guard()
    broken = {tried(ALL[name], data): data[:300] for data in inputs(ALL[name], SAMPLE, 0)}
    assert {how: data for how, data in broken.items() if how} == {}
    assert _left_open() == [], "a file that is read is closed, however it is damaged"


def _left_open() -> list[str]:
    """Inputs that this process still holds open."""
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.append(str(entry.readlink()))
    return [path for path in found if "/doctor-fuzz-" in path]


@pytest.mark.parametrize("path", BROKE, ids=lambda path: path.name)
def test_what_once_broke(path: Path) -> None:
    guard()
    (parser,) = [one for one in ALL.values() if slug(one.name) == path.name.partition(".")[0]]
    assert tried(parser, path.read_bytes()) == ""


def _whole(parser: Parser) -> list[dict[str, object]]:
    return [apart(parser, ROUND, part) for part in range(FULL // ROUND)]


@pytest.mark.heavy
@pytest.mark.parametrize("name", ALL)
def test_a_whole_campaign(name: str) -> None:
    rounds = _whole(ALL[name])
    assert [row["broken"] for row in rounds if row["broken"]] == []
    assert max(int(str(row["added_mib"])) for row in rounds) < LIMIT_BYTES >> 20
