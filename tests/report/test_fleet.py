"""Many hosts in one run."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from doctor.checkup import fleet_exit_code
from doctor.errors import ExitCode, UsageError
from doctor.fleets import Question, judge_folder
from doctor.gate import Config, Gate, Ignore
from doctor.report import Fleet, Style, fleet_renderer
from doctor.report.fleet_groups import faults, spread, verdicts

HOSTS = Path(__file__).parent.parent / "hosts"


def _silent(_done: int, _total: int, _name: str) -> None:
    """No progress is shown."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings as folders, snapshots as files, and what is neither."""
    top = tmp_path_factory.mktemp("fleet")
    for host in ("t4-535", "v100-595"):
        (top / host).mkdir()
        shutil.copy(HOSTS / host / "facts.json", top / host)
    for number in (1, 2, 3):
        shutil.copy(HOSTS / "v100-a10-595" / "facts.json", top / f"node{number}.json")
    (top / "broken.json").write_text('{"schema": "doctor/facts/v1", "host": 3}')
    (top / ".hidden").write_text("x")
    (top / "empty").mkdir()
    return top


@pytest.fixture(scope="module")
def fleet(folder: Path) -> Fleet:
    return judge_folder(str(folder), Question(), _silent)


def test_every_host_by_its_name(fleet: Fleet) -> None:
    names = [report.name for report in fleet.hosts]
    assert names == ["node1", "node2", "node3", "t4-535", "v100-595"]
    assert [lost.name for lost in fleet.unreadable] == ["broken"]


def test_equal_names_are_told_apart(tmp_path: Path) -> None:
    for suffix in ("json", "yaml"):
        shutil.copy(HOSTS / "t4-535" / "facts.json", tmp_path / f"a.{suffix}")
    fleet = judge_folder(str(tmp_path), Question(), _silent)
    assert [report.name for report in fleet.hosts] == ["a.json", "a.yaml"]


def test_equal_faults_are_one(fleet: Fleet) -> None:
    first = faults(fleet)[0]
    assert first.example.code == "DRV111"
    assert list(first.hosts) == ["node1", "node2", "node3", "v100-595"]
    assert len(first.roots) >= 3
    assert sum(verdicts(fleet).values()) == 5
    assert spread(fleet)["driver"]["595.71.05"] == 3


def test_the_exit_code_is_the_highest(fleet: Fleet) -> None:
    assert fleet_exit_code(fleet, "error", strict=False) is ExitCode.CANNOT_TELL
    alone = Fleet(fleet.source, fleet.hosts)
    assert fleet_exit_code(alone, "error", strict=False) is ExitCode.NO
    healthy = Fleet(fleet.source, tuple(r for r in fleet.hosts if r.name == "t4-535"))
    assert fleet_exit_code(healthy, "error", strict=False) is ExitCode.OK


def test_a_fleet_has_its_baseline_and_its_ignore_list(folder: Path, fleet: Fleet) -> None:
    known = frozenset(json.loads(fleet_renderer("baseline")(fleet, Style()))["findings"])
    gated = judge_folder(str(folder), Question(gate=Gate(baseline=known)), _silent)
    assert fleet_exit_code(Fleet("", gated.hosts), "error", strict=False) is ExitCode.OK
    ignored = Gate(Config((Ignore("old", code="DRV111", host="node*"),)))
    hosts = judge_folder(str(folder), Question(gate=ignored), _silent).hosts
    assert [r.name for r in hosts if r.hidden] == ["node1", "node2", "node3"]


def test_a_folder_without_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no files"):
        judge_folder(str(tmp_path), Question(), _silent)
    with pytest.raises(UsageError):
        judge_folder(str(tmp_path / "none"), Question(), _silent)


def test_a_long_fleet_is_short_to_read(fleet: Fleet) -> None:
    many = Fleet("many", fleet.hosts * 200)
    text = fleet_renderer("text")(many, Style(width=80))
    assert len(text.splitlines()) < 80
    assert all(len(line) <= 80 for line in text.splitlines())


@pytest.mark.slow
def test_a_thousand_snapshots(tmp_path: Path) -> None:
    """One page of at most 3 MB; what it costs is measured by benchmarks/fleet.py."""
    import subprocess

    sources = sorted(HOSTS.glob("*/facts.json"))
    for number in range(1000):
        shutil.copy(sources[number % len(sources)], tmp_path / f"n{number:04}.json")
    page = tmp_path / "out" / "fleet.html"
    page.parent.mkdir()
    command = [sys.executable, "-m", "doctor", "check", "--facts-dir", str(tmp_path), "-q"]
    done = subprocess.run([*command, "-o", f"html={page}"], capture_output=True, check=False)
    assert done.returncode == ExitCode.NO, done.stderr
    assert b"1000 hosts: " in done.stdout
    assert page.stat().st_size <= 3_000_000
