"""Questions that people ask of the matrix, and `doctor matrix`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.cli.matrix import command
from doctor.errors import UsageError
from doctor.matrix import load_matrix
from doctor.matrix.lookup import Answer, ask, contents
from doctor.report import Style
from doctor.report.matrix import render_json, render_text

MATRIX = load_matrix()


def asked(text: str) -> Answer:
    return ask(MATRIX, tuple(text.split(" ")))


def first(answer: Answer, title: str) -> dict[str, Any]:
    rows = next(section.rows for section in answer.sections if section.title == title)
    return rows[0]


@pytest.mark.parametrize(
    ("question", "title", "field", "value"),
    [
        ("vllm 0.11.0", "release", "cuda", "12.8"),
        ("vllm==0.11.0", "release", "version", "0.11.0"),
        ("pytorch 2.8.0", "release", "cuda", "12.8"),
        ("torch 2.8.0+cu128", "release", "version", "2.8.0"),
        ("gpu RTX 4090", "products", "capability", "8.9"),
        ("4090", "products", "key", "rtx-4090"),
        ("gpu 10de:2684", "products", "key", "rtx-4090"),
        ("driver 550.54", "branch", "cuda", "12.4"),
        ("cuda 12.8.1", "toolkits", "min_driver", "570.124.06"),
        ("cuda 12.8", "compiler", "ptx_isa", "8.7"),
        ("ptx 8.7", "first compiled by", "cuda", "12.8"),
        ("vllm 0.24.0 quantization", "claims", "kind", "quantization"),
    ],
)
def test_what_is_answered(question: str, title: str, field: str, value: str) -> None:
    answer = asked(question)
    assert answer.found
    assert first(answer, title)[field] == value


@pytest.mark.parametrize("question", ["vllm 99.0", "driver 999.1", "cuda 99.0", "ptx 99.0"])
def test_what_the_matrix_does_not_know_yet(question: str) -> None:
    answer = asked(question)
    assert not answer.found


def test_a_future_version_gets_extrapolated_claims() -> None:
    claim = first(asked("vllm 99.0 min-capability"), "claims")
    assert claim["extrapolated_from"] == claim["verified_to"]


@pytest.mark.parametrize(
    ("question", "hint"),
    [
        ("vlm 0.11.0", "did you mean vllm?"),
        ("gpu MI999X", "nvidia-smi"),
        ("gpu", "for example"),
        ("driver new", "driver 550.54"),
        ("vllm newest", "for example"),
        ("vllm 0.11.0 colour", "kinds: "),
        ("", "Ask for: gpu, driver, cuda"),
    ],
)
def test_errors_teach(question: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        asked(question)
    assert hint in caught.value.hint


def test_contents_of_all_domains() -> None:
    rows = contents(MATRIX).sections[0].rows
    assert {row["domain"] for row in rows} == {*MATRIX.engine_names, *MATRIX.other_names}
    for name in (*MATRIX.engine_names, *MATRIX.other_names):
        assert contents(MATRIX, name).title == name
    with pytest.raises(UsageError, match="no matrix domain"):
        contents(MATRIX, "nothing")


@pytest.mark.parametrize("question", ["vllm 0.11.0", "gpu 4090", "cuda 12.8", "driver 550", "vllm"])
def test_text_fits_and_json_is_whole(question: str) -> None:
    answer = asked(question)
    text = render_text(answer, Style(width=80))
    assert text.startswith(answer.title)
    assert "\t" not in text
    wire = json.loads(render_json(answer))
    assert set(wire["sections"]) == {section.title for section in answer.sections}


def test_a_row_says_where_it_comes_from() -> None:
    text = render_text(asked("gpu 4090"), Style())
    assert "source " in text
    assert "confidence " in text


@settings(max_examples=200)
@given(st.lists(st.text(max_size=30), max_size=4))
def test_no_question_raises_anything_else(words: list[str]) -> None:
    try:
        answer = ask(MATRIX, tuple(words))
    except UsageError as fault:
        assert fault.hint  # noqa: PT017 - either outcome is right
    else:
        assert render_text(answer, Style())


def test_the_command_answers_in_text_and_json() -> None:
    runner = CliRunner()
    result = runner.invoke(command, ["query", "gpu", "4090"])
    assert result.exit_code == 0
    assert "rtx-4090" in result.stdout
    result = runner.invoke(command, ["query", "vllm", "99.0", "--json"])
    assert result.exit_code == 1
    assert json.loads(result.stdout)["found"] is False
    result = runner.invoke(command, ["show"])
    assert result.exit_code == 0
    assert "drivers" in result.stdout
    assert "rtx-4090" in runner.invoke(command, ["show", "gpus"]).stdout


def test_the_command_takes_overlays(tmp_path: Path) -> None:
    file = tmp_path / "vllm.yaml"
    row = "{version: 99.0, source: [our build], confidence: measured}"
    file.write_text(f"as_of: '2026-11-29'\nname: vllm\nreleases: [{row}]\n")
    result = CliRunner().invoke(command, ["--overlay", str(file), "query", "vllm", "99.0"])
    assert result.exit_code == 0
    # Long paths are wrapped.
    assert f"overlay{file}" in "".join(result.stdout.split())
