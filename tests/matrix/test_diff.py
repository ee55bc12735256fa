"""`doctor matrix diff`: two drivers or two versions of an engine, alone and on a host."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from doctor.cli.matrix import command
from doctor.errors import UsageError
from doctor.matrix import load_matrix
from doctor.matrix.diff import difference, parse_point

MATRIX = load_matrix()
BOX = "python=3.12,ubuntu=22.04,arch=x86_64,glibc=2.35"
L40S = f"L40Sx2,driver=550.163.01,{BOX}"


def run(*words: str) -> Result:
    return CliRunner().invoke(command, ["diff", *words])


def wire(*words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(*words, "--json").output)
    return found


def changes(old: str, new: str) -> dict[str, tuple[str, str]]:
    found = difference(MATRIX, parse_point(MATRIX, old), parse_point(MATRIX, new))
    return {change.what: (change.old, change.new) for change in found.changes}


def test_two_drivers() -> None:
    found = changes("550.163.01", "driver 580.95.05")
    assert found["branch"] == ("550", "580")
    assert found["CUDA of its libcuda"] == ("12.4", "13.0")
    assert found["CUDA majors that run"] == ("11 12", "11 12 13")


def test_two_versions_of_an_engine() -> None:
    found = difference(
        MATRIX, parse_point(MATRIX, "vllm==0.19.1"), parse_point(MATRIX, "vLLM 0.33.0")
    )
    stated = {change.what: (change.old, change.new) for change in found.changes}
    assert stated["pin of torch"] == ("==2.10.0", "==2.14.0")
    assert stated["lowest compute capability"] == ("7.0", "7.5")
    names = {row.kind: row for row in found.names}
    assert "gguf" in names["quantizations"].gone
    assert not set(names["flags"].gone) & set(names["flags"].come)


def test_the_same_on_both_sides_is_no_change() -> None:
    assert changes("580.95.05", "580.95.05") == {}
    assert "nothing that the matrix knows of" in run("580.95.05", "580.95.05").output


@pytest.mark.parametrize("old", ["580.95.05", "vllm==0.19.1", "sglang==0.5.9"])
def test_the_other_way_round_is_the_mirror_image(old: str) -> None:
    new = {"5": "610.57", "v": "vllm==0.33.0", "s": "sglang==0.5.23"}[old[0]]
    there, back = changes(old, new), changes(new, old)
    assert {what: (b, a) for what, (a, b) in there.items()} == back


def test_a_newer_driver_on_a_host_gains_newer_stacks() -> None:
    found = wire("550.163.01", "580.178.04", "--host", L40S)
    answers = {row["subject"]: (row["old"], row["new"]) for row in found["host"]["answers"]}
    assert answers["vllm"][0].startswith("0.19.1 (wheel, CUDA 12.9")
    assert answers["vllm"][1].startswith("0.33.0 (wheel, CUDA 13.0")


def test_a_driver_that_drops_the_card_is_said() -> None:
    found = wire("580.95.05", "610.57", "--host", f"V100x2,driver=580.95.05,{BOX}")
    assert any("V100" in row["message"] for row in found["host"]["come"])
    assert all(row["new"].startswith("none") for row in found["host"]["answers"])


def test_a_newer_engine_on_a_host_is_refused_or_not() -> None:
    found = wire("vllm==0.19.1", "vllm==0.33.0", "--host", f"RTX 4090,driver=550.163.01,{BOX}")
    wheel = next(row for row in found["host"]["answers"] if row["subject"].startswith("wheel"))
    assert wheel["old"] == "proven"
    assert wheel["new"].startswith("refused: ")
    assert found["host"]["come"]


def test_versions_that_the_matrix_does_not_have_are_said() -> None:
    assert "not in the matrix" in run("vllm==0.33.0", "vllm==0.99.0").output
    assert "not in the matrix" in run("580.95.05", "999.1").output


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("580.95.05", "vllm==0.33.0", "cannot be compared"),
        ("vllm==0.33.0", "sglang==0.5.23", "cannot be compared"),
        ("nothing==1.0", "nothing==2.0", "nothing is known of"),
        ("vllm>=1", "vllm==2", "no driver and no version"),
        ("\x1b[31m", "580", "no driver and no version"),
    ],
)
def test_what_cannot_be_compared(old: str, new: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        difference(MATRIX, parse_point(MATRIX, old), parse_point(MATRIX, new))


def test_text_keeps_to_the_width() -> None:
    text = run("vllm==0.19.1", "vllm==0.33.0", "--host", L40S).output
    assert max(len(line) for line in text.splitlines()) <= 110
    assert "pin of nvidia-cudnn-frontend <1.19.0" in text
