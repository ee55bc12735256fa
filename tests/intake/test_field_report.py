from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.errors import UsageError
from doctor.facts import Facts
from doctor.intake import parse_input
from doctor.intake.document import read_document
from doctor.intake.field_report import KEYS, read_field_report
from doctor.intake.snapshot import read_snapshot, write_snapshot
from tests.intake.expected import differences

HERE = Path(__file__).parent
REPORTS = HERE.parent / "field_reports"
CASES = sorted(HERE.parent.glob("field_reports*/*.yaml"))
ROWS: list[dict[str, Any]] = yaml.safe_load((HERE / "field_reports.yaml").read_text())
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


@pytest.mark.parametrize("row", ROWS, ids=[row["name"] for row in ROWS])
def test_a_report_becomes_the_facts_it_states(row: dict[str, Any]) -> None:
    understood = parse_input(yaml.safe_dump(row["report"], sort_keys=False))
    assert differences(understood.facts, row["expect"]) == []
    assert understood.formats == ("field report",)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_every_case_is_read_and_survives_the_round_trip(path: Path) -> None:
    understood = parse_input(path.read_text(), path.name)
    assert understood.formats == ("case file",)
    assert read_snapshot(write_snapshot(understood.facts)) == understood.facts


def test_the_schema_of_reports_and_the_reader_know_the_same_keys() -> None:
    schema = json.loads((REPORTS / "field_report.schema.json").read_text())
    assert set(schema["properties"]) == KEYS


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(KEYS)), JUNK, max_size=6))
def test_no_report_raises(report: dict[str, Any]) -> None:
    facts = read_field_report(report)
    assert read_snapshot(write_snapshot(facts)) == facts


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(sorted(KEYS)), st.text(max_size=80))
def test_no_text_in_place_of_a_value_raises(key: str, text: str) -> None:
    assert isinstance(read_field_report({key: text}), Facts)


def test_of_two_equal_keys_the_later_one_counts() -> None:
    assert read_document("driver: '1'\ndriver: '2'\n") == {"driver": "2"}


@pytest.mark.parametrize(
    "text",
    ["a: [1, 2", "key: 'open", "\t- a\n b", "[" * 5000, "- " * 5000, "{" * 5000, '{"a": ' * 3000],
)
def test_unreadable_documents_are_one_clear_error(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_document(text, "report.yaml")
    assert "report.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_versions_survive_as_text() -> None:
    assert read_document("python: 3.10\ncuda: 12.10")["python"] == "3.10"
    assert read_document('{"python": 3.10}')["python"] == "3.10"


def test_an_alias_bomb_is_no_bomb() -> None:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    for key in ("engine_args", "log", "gpus", "packages", "notes", "colour"):
        text = f"engine: vllm\n{key}:\n  " + "\n  ".join(rows) + "\n"
        assert parse_input(text).facts.workloads[0].engine == "vllm"
