"""A step that needs a reboot: there it is made, here it is waited for; the end is the same."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from doctor.matrix import load_matrix
from doctor.provision.drift import find_drift
from doctor.provision.journal import APPLIED, DONE, REBOOT, SUSPENDED, Entry
from doctor.provision.reboot import MARK, asked_for, awaited, forget, lay_unit
from doctor.provision.runs import Run, Runs
from doctor.provision.session import Desk
from doctor.provision.survey import read_boot
from doctor.provision.target import parse_target
from tests.provision.machine import Machine, checkout, docker_engine, machine, systemd_image
from tests.provision.made import make_goal
from tests.provision.rebooting import STEP_NAME, Rebooting, begin
from tests.provision.sandbox import Sandbox


def entries(*rows: tuple[str, str, str]) -> tuple[Entry, ...]:
    return tuple(Entry(event, "2026", step, text) for event, step, text in rows)


def test_a_reboot_is_awaited_until_the_machine_runs_in_another_boot() -> None:
    asked = entries((REBOOT, "install_driver", "boot-1"), (DONE, "install_driver", ""))
    assert awaited(asked, "boot-1") == "install_driver"
    assert awaited(asked, "boot-2") == ""
    assert awaited(entries((DONE, "x", "")), "") == ""
    again = (*asked, *entries((REBOOT, "install_driver", "boot-2")))
    assert awaited(again, "boot-1") == ""
    assert awaited(again, "boot-2") == "install_driver"
    assert asked_for(asked)
    assert not asked_for(entries((DONE, "x", "")))


def test_what_is_laid_for_the_next_boot_goes_away(tmp_path: Path) -> None:
    (tmp_path / "units").mkdir()
    run = Runs(tmp_path / "state").create()
    assert lay_unit(run, make_goal(), tmp_path / "units")
    unit = tmp_path / "units" / f"doctor-resume-{run.name}.service"
    text = unit.read_text()
    assert f"ConditionPathExists={run.folder / MARK}\n" in text
    assert f'ExecStart="{sys.executable}" -m doctor apply demo --resume --user\n' in text
    link = tmp_path / "units/multi-user.target.wants" / unit.name
    assert link.resolve() == unit.resolve()
    lay_unit(run, make_goal(), tmp_path / "units")
    forget(run, tmp_path / "units")
    assert not unit.exists()
    assert not link.is_symlink()
    assert not (run.folder / MARK).exists()
    forget(run, tmp_path / "units")


@pytest.mark.parametrize("name", ["a b", "100%", "a\nExecStart=x", 'a"b', "$HOME", "a\\x20"])
def test_a_path_that_systemd_would_read_otherwise_stands_in_no_unit(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "units").mkdir()
    run = Run(tmp_path / name / "20261129-000000-1")
    assert not lay_unit(run, make_goal(), tmp_path / "units")
    assert not list((tmp_path / "units").iterdir())


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with docker_engine():
        systemd_image(tmp_path_factory.mktemp("image"))
        yield


@pytest.fixture
def debian(tmp_path: Path, image: None) -> Iterator[Machine]:
    with machine(tmp_path) as found:
        yield found


@pytest.fixture
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))


def _begin(box: Sandbox, machine: Machine, ssh: bool) -> Rebooting:
    words = machine.by_ssh if ssh else machine.by_docker
    target = parse_target(words[1], words[3] if ssh else "")
    lock = box.wheels / "stack.lock"
    return begin(box.profile(), target, lock, box.wheels, Runs(box.home / "state"))


@pytest.mark.slow
@pytest.mark.docker
def test_another_machine_is_rebooted_and_the_run_goes_on(
    box: Sandbox, debian: Machine, own_folders: None
) -> None:
    work = _begin(box, debian, ssh=True)
    target = work.prepared.order.target
    before = read_boot(target)
    outcome = work.apply()
    assert (outcome.end, outcome.failure) == (APPLIED, "")
    assert read_boot(target) != before
    assert [e.text for e in work.run.journal.read() if e.event == REBOOT] == [before]
    assert find_drift(target, "demo", False, load_matrix()).is_clean


@pytest.mark.slow
@pytest.mark.docker
def test_killed_between_a_step_and_its_reboot(
    box: Sandbox, debian: Machine, own_folders: None
) -> None:
    work = _begin(box, debian, ssh=False)
    target = work.prepared.order.target
    before = read_boot(target)
    work.interrupt(is_done=True)
    outcome = Desk(Runs(box.home / "state"), load_matrix()).resume(target, "demo")
    assert (outcome.end, outcome.failure) == (APPLIED, "")
    assert read_boot(target) != before
    assert find_drift(target, "demo", False, load_matrix()).is_clean


@pytest.mark.heavy
@pytest.mark.docker
def test_killed_in_a_step_that_is_made_again_with_one_reboot(
    box: Sandbox, debian: Machine, own_folders: None
) -> None:
    work = _begin(box, debian, ssh=False)
    before = read_boot(work.prepared.order.target)
    work.interrupt(is_done=False)
    outcome = work.apply()
    assert (outcome.end, outcome.failure) == (APPLIED, "")
    boots = [entry.text for entry in work.run.journal.read() if entry.event == REBOOT]
    assert boots == [before, before]


@pytest.mark.slow
@pytest.mark.docker
def test_this_machine_is_waited_for_and_systemd_takes_the_run_up(
    box: Sandbox, tmp_path: Path, image: None
) -> None:
    box.profile(name="demo").rename(box.home / "demo.yaml")
    lock = box.wheels / "stack.lock"
    work = (sys.executable, "-m", "tests.provision.rebooting", f"{box.home}/demo.yaml")
    with machine(tmp_path, *checkout(box.home, box.wheels)) as here:
        status, said = here.status(*work, str(lock), str(box.wheels))
        assert (status, said.split()[0]) == (5, SUSPENDED), said
        doctor = (sys.executable, "-m", "doctor")
        still, words = here.status(*doctor, "apply", "demo", "--resume")
        assert (still, "reboot this machine" in words) == (5, True), words
        assert STEP_NAME in here.run("sh", "-c", "cat /var/lib/doctor/runs/*/journal.jsonl")
        here.restart()
        until = time.monotonic() + 120
        while here.status(*doctor, "drift", "demo")[0] and time.monotonic() < until:
            time.sleep(1)
        status, said = here.status(*doctor, "drift", "demo")
        assert status == 0, said + here.run("journalctl", "-u", "doctor-resume-*", "--no-pager")
        assert here.status("sh", "-c", "ls /etc/systemd/system/doctor-resume-*")[0] != 0
