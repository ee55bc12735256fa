"""Journals, runs and their locks."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from doctor.errors import ProvisionError, UsageError
from doctor.matrix.cache import write_compiled
from doctor.provision.journal import APPLIED, BEGIN, DONE, END, STEP, write_durably
from doctor.provision.runs import Run, Runs


def made_run(runs: Runs, service: str = "local/demo") -> Run:
    run = runs.create()
    write_durably(run.folder / "run.json", f'{{"service": "{service}"}}')
    return run


def test_a_run_without_an_end_is_unfinished(tmp_path: Path) -> None:
    runs = Runs(tmp_path)
    run = made_run(runs)
    assert runs.unfinished("local/demo") is None
    run.journal.write(BEGIN)
    run.journal.write(STEP, "one")
    run.journal.write(DONE, "one")
    run.journal.write(STEP, "two")
    found = runs.unfinished("local/demo")
    assert found is not None
    assert found.journal.last_step == "two"
    assert runs.unfinished("local/other") is None
    run.journal.write(END, text=APPLIED)
    assert runs.unfinished("local/demo") is None
    assert run.journal.end == APPLIED


def test_a_line_that_was_cut_off_is_not_there(tmp_path: Path) -> None:
    run = made_run(Runs(tmp_path))
    run.journal.write(STEP, "one")
    whole = run.journal.path.read_bytes()
    for length in range(len(whole)):
        run.journal.path.write_bytes(whole + whole[:length])
        run.journal.write(STEP, "two")
        steps = [entry.step for entry in run.journal.read()]
        assert (steps[0], steps[-1]) == ("one", "two")


def test_a_disk_that_is_full_is_named(tmp_path: Path) -> None:
    run = made_run(Runs(tmp_path))
    run.journal.path.symlink_to("/dev/full")
    with pytest.raises(ProvisionError, match=r"journal\.jsonl cannot be written: No space left"):
        run.journal.write(STEP, "one")
    (tmp_path / "full").symlink_to("/dev/full/x")
    with pytest.raises(ProvisionError, match="cannot be written"):
        write_durably(tmp_path / "full" / "goal.json", "x")


def test_one_at_a_time(tmp_path: Path) -> None:
    runs = Runs(tmp_path)
    with (
        runs.alone("ssh://host/demo"),
        pytest.raises(ProvisionError, match="another doctor"),
        runs.alone("ssh://host/demo"),
    ):
        pass
    with runs.alone("ssh://host/demo"), runs.alone("local/demo"):
        pass


def test_a_dead_holder_holds_nothing(tmp_path: Path) -> None:
    runs = Runs(tmp_path)
    with runs.alone("local/demo"):
        pass
    with next((tmp_path / "locks").iterdir()).open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_runs_are_private_and_found_by_name(tmp_path: Path) -> None:
    runs = Runs(tmp_path)
    run = made_run(runs)
    assert run.folder.stat().st_mode & 0o077 == 0
    assert runs.get(run.name) == run
    for name in ("../../etc", "20200101-000000-1", ""):
        with pytest.raises(UsageError):
            runs.get(name)


def test_runs_of_one_second_have_names_of_their_own_in_their_order(tmp_path: Path) -> None:
    """A process is marked with its run's name: another's run must not be ended with it."""
    mine, others = Runs(tmp_path / "mine"), Runs(tmp_path / "others")
    for state in (mine, others):
        old = state.folder / "20991231-235959-9"
        old.mkdir(parents=True)
        (old / "run.json").write_text("{}")
    made = [made_run(mine) for _ in range(12)]
    assert [run.name for run in mine.all()][1:] == [run.name for run in made]
    assert {run.name for run in made}.isdisjoint(made_run(others).name for _ in range(12))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to fear other users' folders")
def test_root_keeps_no_runs_in_the_home_of_another(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, 12345, 12345)
    with pytest.raises(UsageError, match="another user can exchange"):
        Runs(home / "doctor").create()
    assert not list((home / "doctor").rglob("run.json"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to fear other users' folders")
def test_root_keeps_no_matrix_in_the_home_of_another(tmp_path: Path) -> None:
    os.chown(tmp_path, 12345, 12345)
    victim = tmp_path / "victim"
    victim.mkdir()
    (tmp_path / "cache").symlink_to(victim)
    write_compiled(tmp_path / "cache" / "vllm.json", b"{}", "x")
    assert list(victim.iterdir()) == []
