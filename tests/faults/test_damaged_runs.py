"""Journals, notes of a run and their lock, damaged in every way: one clear error, nothing done."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from doctor.cli.main import run as doctor
from doctor.errors import ProvisionError
from doctor.provision.goal import Goal
from doctor.provision.journal import APPLIED, BEGIN, DONE, END, STEP
from doctor.provision.noted import ASKED, BEFORE, GOAL, MEANS, note_run, noted_goal, noted_means
from doctor.provision.plan import Plan
from doctor.provision.runs import Run, Runs
from doctor.provision.variables import Means
from tests.faults.damage import DAMAGE, flipped

SERVICE = "local/demo"
NOTES = (ASKED, GOAL, BEFORE, MEANS)
JOURNAL = "journal.jsonl"
VERBS = ("rollback demo --user", "apply demo --user --resume", "apply demo --user --yes")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("STATE", "CACHE", "DATA", "CONFIG"):
        monkeypatch.delenv(f"XDG_{name}_HOME", raising=False)
    return tmp_path


def begun(home: Path) -> Run:
    """A run of the service demo that was interrupted in its first step."""
    run = Runs(home / ".local/state/doctor").create()
    goal = Goal(profile="demo", home=str(home / "demo"))
    means = Means(python="python3", wheels=str(home / "wheels"))
    asked = {"verb": "apply", "service": SERVICE, "profile": "demo", "target": "local"}
    plan = Plan(target="local", goal=goal, steps=(), inputs="")
    note_run(run, plan, goal, means, asked)
    run.journal.write(BEGIN)
    run.journal.write(STEP, "make_release")
    return run


def read_notes(run: Run) -> tuple[object, ...]:
    return (noted_goal(run, GOAL), noted_goal(run, BEFORE), noted_means(run), run.asked)


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", [*NOTES, JOURNAL])
def test_a_damaged_note_is_named_or_nothing_is_lost(home: Path, name: str, damage: str) -> None:
    run = begun(home)
    DAMAGE[damage](run.folder / name)
    runs = Runs(home / ".local/state/doctor")
    if name == JOURNAL and damage not in ("a folder", "a pipe", "a loop of links"):
        # Lines that cannot be read are not there.
        steps = [entry.step for entry in run.journal.read()]
        assert steps in (["", "make_release"], [""], ["make_release"], [])
        return
    with pytest.raises(ProvisionError) as fault:
        _ = (runs.unfinished(SERVICE), *read_notes(run))
    assert str(run.folder) in str(fault.value)
    assert "move the folder of that run away" in fault.value.hint


@pytest.mark.parametrize("name", NOTES)
def test_no_flipped_bit_of_a_note_is_carried_out(home: Path, name: str) -> None:
    run = begun(home)
    whole = {note: (run.folder / note).read_bytes() for note in NOTES}
    right = read_notes(run)
    for number in range(200):
        (run.folder / name).write_bytes(flipped(whole[name], number))
        try:
            read = read_notes(run)
        except ProvisionError:
            continue
        assert read[:3] == right[:3]
        assert run.asked["service"] == SERVICE


@pytest.mark.real
@pytest.mark.parametrize("name", [ASKED, GOAL, JOURNAL])
def test_the_verbs_say_it_in_one_line(
    home: Path, name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    run_folder = begun(home).folder
    for damage in ("noise", "other types", "deep", "a folder", "a pipe"):
        DAMAGE[damage](run_folder / name)
        for line in VERBS[:2]:
            status = doctor(line.split())
            out, err = capsys.readouterr()
            assert (status in (2, 4), out) == (True, ""), (damage, err)
            assert err.startswith("doctor: ")
            assert "bug" not in err
        _restore(run_folder / name)


def _restore(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink()
    path.write_text("{}\n")


def test_a_journal_without_end_is_not_read_into_memory(home: Path) -> None:
    run = begun(home)
    os.truncate(run.journal.path, 100 << 20)
    with pytest.raises(ProvisionError, match="larger than 16 MiB"):
        run.journal.read()


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("/dev/full")])
def test_what_lies_in_place_of_a_lock_is_named(home: Path, make: Callable[[Path], None]) -> None:
    runs = Runs(home)
    (home / "locks").mkdir()
    make(home / "locks/local_demo")
    with pytest.raises(ProvisionError, match="locks/local_demo cannot be written"):  # noqa: SIM117
        with runs.alone(SERVICE):
            pass


def test_a_lock_that_holds_nonsense_is_a_lock(home: Path) -> None:
    runs = Runs(home)
    (home / "locks").mkdir()
    (home / "locks/local_demo").write_bytes(b"\xff\x00" * (1 << 20))
    with (
        runs.alone(SERVICE),
        pytest.raises(ProvisionError, match=rf"another doctor .* \(process {os.getpid()}\)"),
        runs.alone(SERVICE),
    ):
        pass


def test_a_clock_that_was_set_back_does_not_change_which_run_is_the_last(home: Path) -> None:
    runs = Runs(home / ".local/state/doctor")
    future = runs.folder / "20991231-235959-1"
    begun(home).folder.rename(future)
    made = [begun(home) for _ in range(12)]
    for run in made[:-1]:
        run.journal.write(DONE, "make_release")
        run.journal.write(END, text=APPLIED)
    assert [run.name for run in runs.all()] == [future.name, *(run.name for run in made)]
    assert runs.unfinished(SERVICE) == made[-1]


def test_a_run_that_an_older_doctor_noted_has_no_hashes(home: Path) -> None:
    run = begun(home)
    asked = {k: v for k, v in run.asked.items() if k not in NOTES}
    (run.folder / ASKED).write_bytes(msgspec.json.encode(asked))
    assert noted_goal(run, GOAL).profile == "demo"
