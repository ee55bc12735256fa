"""`doctor matrix verify`: faults, age and gaps."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

from click.testing import CliRunner, Result

from doctor.cli.matrix import command
from doctor.matrix import load_matrix
from doctor.matrix.verification import verification

DEMO = """
as_of: '2026-11-01'
name: demo
claims:
  - {id: demo-1, subject: demo, kind: cuda, value: '12.1', source: [s], confidence: documented,
     verified_to: '1.0'}
releases:
  - {version: '1.2', source: [s], confidence: measured}
  - {version: '1.0', pins: {torch: '==2.0'}, source: [s], confidence: measured}
"""


def demo(tmp_path: Path, text: str = DEMO) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "demo.yaml").write_text(text)
    return folder


def faults_of(folder: Path) -> tuple[str, ...]:
    return verification(load_matrix(folder), date(2026, 11, 1)).faults


def run(*words: str) -> Result:
    return CliRunner().invoke(command, words)


def test_what_ships_is_sound() -> None:
    result = run("verify", "--json")
    found = json.loads(result.output)
    assert (found["faults"], result.exit_code) == ([], 0)
    assert {"drivers", "vllm", "stacks"} <= {row["domain"] for row in found["domains"]}


def test_age_counts_only_where_it_is_asked_for(tmp_path: Path) -> None:
    matrix = load_matrix(demo(tmp_path))
    later = date(2026, 12, 1)
    assert verification(matrix, later).oldest_days == 30
    assert not verification(matrix, later).is_old
    assert not verification(matrix, later, 30).is_old
    assert verification(matrix, later, 29).is_old


def test_gaps_are_counted(tmp_path: Path) -> None:
    state = verification(load_matrix(demo(tmp_path)), date(2026, 11, 1)).domains[0]
    assert dict(state.gaps) == {
        "newest releases without pins": 1,
        "open claims not verified to the newest release": 1,
    }


def test_a_row_without_source_is_a_fault(tmp_path: Path) -> None:
    folder = demo(
        tmp_path, DEMO.replace("source: [s], confidence: m", "source: [' '], confidence: m")
    )
    faults = verification(load_matrix(folder), date(2026, 11, 1)).faults
    assert faults == ("demo: releases 1.2: no source", "demo: releases 1.0: no source")


def test_claims_of_equal_rank_that_contradict_are_a_fault(tmp_path: Path) -> None:
    other = DEMO.splitlines()[4].replace("demo-1", "demo-2").replace("'12.1'", "'12.4'")
    text = DEMO.replace("releases:", f"{other}\n     verified_to: '1.0'}}\nreleases:")
    assert any(
        "demo-2" in fault
        for fault in verification(load_matrix(demo(tmp_path, text)), date(2026, 11, 1)).faults
    )


def test_an_overlay_that_cannot_be_read_is_a_fault(tmp_path: Path) -> None:
    overlay = tmp_path / "vllm.yaml"
    overlay.write_text("as_of: '2026-11-29'\nname: vllm\nclaims:\n  - {id: vllm-own}\n")
    result = run("--overlay", str(overlay), "verify")
    assert result.exit_code == 1
    assert "fault: " in result.output


def test_a_domain_can_be_too_old(tmp_path: Path) -> None:
    overlay = tmp_path / "demo.yaml"
    overlay.write_text(DEMO.replace("2026-11-01", "2001-01-01"))
    assert run("--overlay", str(overlay), "verify", "--max-age", "3650").exit_code == 1
    assert run("--overlay", str(overlay), "verify", "--max-age", "36500").exit_code == 0
