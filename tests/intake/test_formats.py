from __future__ import annotations

import contextlib
import random
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import doctor.intake.formats as folder
from doctor.errors import UsageError
from doctor.facts import Facts
from doctor.intake import parse_input
from doctor.intake.detect import read_input
from doctor.intake.formats import FORMATS
from doctor.intake.snapshot import read_snapshot, write_snapshot
from tests.intake.expected import differences

HERE = Path(__file__).parent
SAMPLES = HERE / "samples"
ROWS: list[dict[str, Any]] = yaml.safe_load((HERE / "samples.yaml").read_text())
TEXTS = {row["file"]: (SAMPLES / row["file"]).read_text() for row in ROWS}
# Files of the folder that hold values or the list, and no format.
NO_FORMATS = {"__init__", "registry", "nvidia_values"}
MIB = 1 << 20
# Pieces that patterns begin with, to be repeated until they fill a mebibyte.
PIECES = (
    *(
        "\n",
        " \n",
        "a",
        "1.",
        "|\n",
        "- ",
        "[",
        "{",
        '"',
        "\x1b[",
        "```\n",
        "$ x\n",
        "a: b\n",
        "a=b\n",
    ),
    *("engine: x\n", "NPU ID : 1\n", "GPU 0: a\n", "GPU0 ", "a==1\n", "a 1.1\n", "Linux a 1.1 #"),
    *("docker run -", "vllm serve a ", "[[package]]\n", "| 0  A100 On | ", "ID=1\nNAME=\n", "x@y:"),
)


def test_every_file_of_the_folder_is_a_format_of_the_list() -> None:
    files = {path.stem for path in Path(folder.__file__).parent.glob("*.py")} - NO_FORMATS
    listed = {kind.parse.__module__ for kind in FORMATS}
    # Formats that a live probe reads too lie with the probes.
    own = {module for module in listed if not module.startswith("doctor.probes.")}
    assert files == {module.rpartition(".")[2] for module in own}


def test_every_sample_and_every_format_has_expectations() -> None:
    files = {str(path.relative_to(SAMPLES)) for path in SAMPLES.rglob("*") if path.is_file()}
    assert files == set(TEXTS)
    assert {name for row in ROWS for name in row["formats"]} == {kind.name for kind in FORMATS}


@pytest.mark.parametrize("row", ROWS, ids=[row["file"] for row in ROWS])
def test_a_sample_is_recognised_and_read(row: dict[str, Any]) -> None:
    understood = parse_input(TEXTS[row["file"]], row["file"])
    assert list(understood.formats) == row["formats"]
    assert differences(understood.facts, row["expect"]) == []
    assert read_snapshot(write_snapshot(understood.facts)) == understood.facts


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_line_ends_and_colours_change_nothing(name: str) -> None:
    plain = parse_input(TEXTS[name], name)
    coloured = "\ufeff\x1b[1m" + TEXTS[name].replace("\n", "\x1b[0m\r\n")
    logs = {"logs": ()}
    again = parse_input(coloured, name)
    assert again.formats == plain.formats
    assert {**vars(again.facts), **logs} == {**vars(plain.facts), **logs}


def test_a_log_stays_whole() -> None:
    text = "INFO 01-01 start\n" + "step\n" * 200_000 + "RuntimeError: CUDA error: no kernel image\n"
    facts = parse_input(text).facts
    assert facts.logs[0].text.endswith("no kernel image\n")


def test_secrets_do_not_come_in() -> None:
    facts = parse_input(TEXTS["collect_env_vllm_new.txt"]).facts
    assert "hf_abc" not in write_snapshot(facts)
    assert "AWS_SECRET" not in write_snapshot(facts)


def test_a_file_named_requirements_is_one_even_if_all_is_pinned(tmp_path: Path) -> None:
    path = tmp_path / "requirements-gpu.txt"
    path.write_text("torch==2.7.0\nvllm==0.9.0\nnumpy==2.0\n")
    assert read_input(path).scopes[0].id == "requirements"


@pytest.mark.parametrize("text", ["", "\n \n", "hello", "a\0b", "Hello, my GPU does not work."])
def test_what_is_nothing_known_is_one_clear_error(text: str) -> None:
    with pytest.raises(UsageError):
        parse_input(text, "pasted.txt")


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=300) | st.text("ab01 .:=|-+[]{}()\"'\n\t", max_size=400))
def test_no_format_raises_on_any_text(text: str) -> None:
    for kind in FORMATS:
        kind.looks_like(text)
        assert isinstance(kind.parse(text), Facts)


def _mutated(text: str, source: random.Random) -> str:
    """The text with a few lines or characters lost, doubled, swapped or replaced."""
    lines = text.split("\n")
    for _ in range(source.randint(1, 6)):
        i, j = source.randrange(len(lines)), source.randrange(len(lines))
        line = lines[i]
        at = source.randint(0, len(line))
        lines[i] = source.choice(
            ("", line + line, lines[j], line[:at], line[:at] + "\ud7ff" + line[at + 1 :], line[at:])
        )
    return "\n".join(lines)


def _survives(count: int) -> None:
    source = random.Random(20261129)  # noqa: S311 - repeatable, not secret
    for text in TEXTS.values():
        for _ in range(count):
            changed = _mutated(text, source)
            try:
                facts = parse_input(changed).facts
            except UsageError:
                continue
            write_snapshot(facts)
            for kind in FORMATS:
                if kind.fits(text):
                    kind.parse(changed)


def test_no_mutation_of_a_sample_raises() -> None:
    _survives(12)


def _cpu_s(text: str) -> float:
    started = time.process_time()
    with contextlib.suppress(UsageError):
        parse_input(text)
    return time.process_time() - started


@pytest.mark.slow
@pytest.mark.parametrize("text", [*PIECES, *TEXTS.values()], ids=[*map(repr, PIECES), *TEXTS])
def test_a_mebibyte_of_anything_is_read_in_bounded_time(text: str) -> None:
    whole = (text * (MIB // len(text) + 1))[:MIB]
    # 50 ms on an idle machine, as benchmarks/ measure it; what blows up takes seconds on any.
    assert min(_cpu_s(whole) for _ in range(3)) < 0.5
