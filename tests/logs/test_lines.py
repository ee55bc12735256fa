"""Single messages, as sources print them and people quote or mangle them, name their cause."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from doctor.diagnose import diagnose
from doctor.findings import Severity
from doctor.intake.field_report import read_field_report
from doctor.matrix import load_matrix

LINES = Path(__file__).parent / "lines"
MATRIX = load_matrix()
FILES = sorted(path.stem for path in LINES.glob("*.yaml"))


def groups(name: str) -> list[dict[str, Any]]:
    """The lines of a file, by cause and engine."""
    loaded = yaml.safe_load((LINES / f"{name}.yaml").read_text())
    return list(loaded["groups"])


def named(line: str, engine: str, expected: str) -> str:
    """The cause that is named first; where none is expected, that of an error only."""
    (target,) = diagnose(read_field_report({"engine": engine, "log": line}), MATRIX).targets
    primary = target.primary
    if primary is None or (not expected and primary.severity is not Severity.ERROR):
        return ""
    return primary.cause


@pytest.mark.parametrize("name", FILES)
def test_a_line_names_its_cause(name: str) -> None:
    wrong = {
        line: found
        for group in groups(name)
        for line in group["lines"]
        if (found := named(line, group["engine"], group["expect"])) != group["expect"]
    }
    assert wrong == {}


MANGLED: dict[str, Callable[[str], str]] = {
    "quotes of a word processor": lambda line: line.replace("'", "\u2019").replace('"', "\u201d"),
    "blanks of a web page": lambda line: line.replace(" ", "\u00a0"),
    "broken by a terminal": lambda line: "\n".join(
        line[at : at + 80] for at in range(0, len(line), 80)
    ),
    "words of a person around it": lambda line: f"启动时报错\n{line}\n请问如何解决",
    "capitals": str.upper,
}


@pytest.mark.parametrize("how", sorted(MANGLED))
def test_a_mangled_line_names_the_same_cause(how: str) -> None:
    lines = [
        (line, group)
        for name in FILES
        if name != "own_words"
        for group in groups(name)
        for line in group["lines"]
        if group["expect"] and "\n" not in line
    ]
    sample = random.Random(7).sample(lines, 80)  # noqa: S311 - repeatable, not secret
    wrong = {
        line: found
        for line, group in sample
        if (found := named(MANGLED[how](line), group["engine"], group["expect"])) != group["expect"]
    }
    assert wrong == {}


@pytest.mark.parametrize(
    ("part", "cause"),
    [
        ("ity was attempted on non supported HW", "forward-compat-unsupported-hw"),
        ("[ERROR] no kernel image is available for exec", "cc-not-in-binary"),
        ("is insufficient for CUDA runtime version", "driver-too-old"),
    ],
)
def test_a_part_of_a_message_is_a_hint(part: str, cause: str) -> None:
    (target,) = diagnose(read_field_report({"log": part}), MATRIX).targets
    assert target.primary is not None
    assert (target.primary.cause, target.verdict.value) == (cause, "cannot-tell")
    assert target.primary.severity is Severity.WARNING
