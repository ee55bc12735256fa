"""Commands of engines that cannot run here, against the flag tables of the matrix."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from doctor.errors import UsageError
from doctor.facts import Version
from doctor.matrix import Matrix, load_matrix
from doctor.matrix.launching import Launch
from doctor.smoke.flags import standing
from doctor.smoke.launch import LaunchError, Wanted, plan_launch, with_settings

CASES = yaml.safe_load((Path(__file__).parent / "launches.yaml").read_text())


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load_matrix()


def wanted(case: dict[str, Any]) -> Wanted:
    version = Version(case["version"]) if "version" in case else None
    return Wanted(
        case["engine"],
        case.get("model", "/m"),
        version,
        case.get("args", {}),
        python="/env/bin/python",
        bin="/env/bin",
        install="/opt/mindie",
    )


def _name(case: dict[str, Any]) -> str:
    return str(case["name"])


@pytest.mark.parametrize("case", CASES["started"], ids=_name)
def test_command(case: dict[str, Any], matrix: Matrix) -> None:
    plan = plan_launch(wanted(case), matrix)
    assert " ".join(plan.argv) == case["command"]
    for name, value in case.get("env", {}).items():
        assert plan.env[name] == value
    assert plan.settings == case.get("settings", {})
    notes = " ".join(plan.notes)
    assert case["note"] in notes if "note" in case else not notes


@pytest.mark.parametrize("case", CASES["refused"], ids=_name)
def test_refusal(case: dict[str, Any], matrix: Matrix) -> None:
    with pytest.raises((LaunchError, UsageError)) as refused:
        plan_launch(wanted(case), matrix)
    for word in case["says"]:
        assert word in str(refused.value)


def _rows() -> list[Launch]:
    return list(load_matrix().launches)


@pytest.mark.parametrize("row", _rows(), ids=lambda r: f"{r.engine}-{r.since}")
def test_every_flag_of_a_row_exists_at_its_newest_version(row: Launch, matrix: Matrix) -> None:
    if row.engine == "xllamacpp" or not row.verified_to:
        return
    owner = row.flags_of or row.engine
    version = Version(row.verified_to)
    flags = [*row.arguments.values(), *row.on.values(), *row.off.values(), row.metrics_words]
    too_new = {"--attention-backend", "--data-parallel-size", "--shutdown-timeout"}
    too_new |= {"--enable-expert-parallel"}
    for flag in (word for words in flags for word in words if word.startswith("--")):
        refused = standing(matrix, owner, version, flag).refused
        assert not refused or (row.until and flag in too_new), refused


@pytest.mark.parametrize("row", _rows(), ids=lambda r: f"{r.engine}-{r.since}")
def test_every_row_can_be_stopped_and_watched(row: Launch) -> None:
    assert row.stop_signal in ("SIGTERM", "SIGINT")
    assert row.stop_s > 0
    assert row.start_s >= 60
    assert bool(row.health) or row.note
    assert not (set(row.arguments) & set(row.refused))
    assert row.settings or "{model}" in row.command


def test_embedded_server_knows_its_flags(matrix: Matrix) -> None:
    from doctor.smoke.embedded import options

    row = matrix.launch("xllamacpp")
    assert row is not None
    words = [w for flags in row.arguments.values() for w in flags]
    known = {option for action in options()._actions for option in action.option_strings}
    assert set(words) <= known


def test_settings_are_put_in_a_copy() -> None:
    config = json.loads('{"A": {"B": [{"c": 1}, {"c": 2}]}, "D": 3}')
    changed = with_settings(config, {"A.B.0.c": 9, "A.new": True})
    assert changed == {"A": {"B": [{"c": 9}, {"c": 2}], "new": True}, "D": 3}
    assert config["A"]["B"][0]["c"] == 1


@pytest.mark.parametrize("place", ["A.B.5.c", "X.y", "A.B.c", "D.e"])
def test_a_place_that_is_not_there(place: str) -> None:
    config = json.loads('{"A": {"B": [{"c": 1}]}, "D": 3}')
    with pytest.raises(LaunchError, match="no "):
        with_settings(config, {place: 1})


def test_unknown_flag_of_a_read_version_is_refused(matrix: Matrix) -> None:
    assert "has no flag" in standing(matrix, "vllm", Version("0.11.0"), "--turbo").refused
    assert "nothing is known" in standing(matrix, "tgi", Version("3.3.7"), "--turbo").note
    assert standing(matrix, "vllm", Version("99.0"), "--turbo").refused == ""
