"""SIGKILL at every point of the journal: taken up again or undone, nothing is left behind."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.provision.killing import (
    CONTAINER,
    DOCTOR,
    LIBRARY,
    PATIENCE_S,
    PLAYBOOK,
    RESUME,
    ROLLBACK,
    SEED,
    Scene,
    _wait_for_entry,
    kill_along,
    kill_and_mend,
    released_image,
)
from tests.provision.machine import PREPARED, docker_engine, machine, prepared_image
from tests.provision.sandbox import Sandbox

VICTIMS = (DOCTOR, CONTAINER, PLAYBOOK)
WAYS = (RESUME, ROLLBACK)
USER_POINTS, SYSTEM_POINTS = range(1, 10), range(1, 12)
# Up to the making of a release, and all of a run whose release is there already.
USER_BEFORE, SYSTEM_BEFORE, AFTER = range(1, 3), range(1, 5), range(1, 8)


def undone(points: range, *victims: str) -> list[tuple[str, int, str]]:
    """Each victim at every other point, and each point in turn: then the run is undone.

    Of Ansible every point: doctor itself undoes what lost it.
    """
    rows = [(v, p) for n, v in enumerate(victims) for p in points if v == PLAYBOOK or (p + n) % 2]
    return [(victim, point, ROLLBACK) for victim, point in rows]


def sample(points: range, victims: tuple[str, ...], number: int) -> list[tuple[str, int, str]]:
    """A few, by the seed; any will do."""
    everything = [(v, p, w) for v in victims for p in points for w in WAYS]
    return random.Random(SEED).sample(everything, number)  # noqa: S311


def cases(*rows: tuple[str, int, str]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("victim", "point", "way"), rows)


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with docker_engine():
        prepared_image(tmp_path_factory.mktemp("image"))
        yield


@pytest.fixture
def user_here(box: Sandbox) -> Scene:
    return Scene(box)


@pytest.fixture
def user_there(box: Sandbox, image: None, tmp_path: Path) -> Iterator[Scene]:
    with machine(tmp_path, image=PREPARED) as found:
        # No user can install it.
        found.run(*LIBRARY)
        yield Scene(box, ("--user", *found.by_docker), found)


@pytest.fixture
def system_there(box: Sandbox, image: None, tmp_path: Path) -> Iterator[Scene]:
    with machine(tmp_path, image=PREPARED) as found:
        yield Scene(box, found.by_docker, found)


@pytest.fixture(scope="session")
def system_released(
    image: None, wheels: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    with released_image(tmp_path_factory.mktemp("system"), wheels) as name:
        yield name


@pytest.fixture(scope="session")
def user_released(
    image: None, wheels: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    with released_image(tmp_path_factory.mktemp("user"), wheels, "--user") as name:
        yield name


@pytest.mark.slow
@cases(*sample(USER_POINTS, (DOCTOR, PLAYBOOK), 2))
def test_a_sample_for_a_user(user_here: Scene, victim: str, point: int, way: str) -> None:
    kill_and_mend(user_here, victim, point, way)


@pytest.mark.slow
@pytest.mark.docker
@cases(*sample(SYSTEM_POINTS, VICTIMS, 2))
def test_a_sample_for_the_system(system_there: Scene, victim: str, point: int, way: str) -> None:
    kill_and_mend(system_there, victim, point, way)


@pytest.mark.heavy
def test_a_users_run_killed_at_every_point(user_here: Scene) -> None:
    kill_along(user_here, DOCTOR)


@pytest.mark.heavy
@pytest.mark.docker
def test_a_users_machine_killed_at_every_point(user_there: Scene) -> None:
    kill_along(user_there, CONTAINER)


@pytest.mark.heavy
@pytest.mark.docker
@pytest.mark.parametrize("victim", [DOCTOR, CONTAINER])
def test_the_systems_run_killed_at_every_point(system_there: Scene, victim: str) -> None:
    kill_along(system_there, victim)


@pytest.mark.heavy
@cases(*undone(USER_POINTS, DOCTOR, PLAYBOOK))
def test_undone_for_a_user(user_here: Scene, victim: str, point: int, way: str) -> None:
    assert len(USER_POINTS) == user_here.points
    kill_and_mend(user_here, victim, point, way, and_again=False)


@pytest.mark.heavy
@pytest.mark.docker
@cases(*undone(USER_BEFORE, CONTAINER))
def test_undone_there_before_a_users_release(
    user_there: Scene, victim: str, point: int, way: str
) -> None:
    kill_and_mend(user_there, victim, point, way, and_again=False)


@pytest.mark.heavy
@pytest.mark.docker
@cases(*undone(AFTER, CONTAINER))
def test_undone_there_after_a_users_release(
    box: Sandbox, user_released: str, tmp_path: Path, victim: str, point: int, way: str
) -> None:
    with machine(tmp_path, image=user_released) as found:
        scene = Scene(box, ("--user", *found.by_docker), found)
        kill_and_mend(scene, victim, point, way, and_again=False)


@pytest.mark.heavy
@pytest.mark.docker
@cases(*undone(SYSTEM_BEFORE, *VICTIMS))
def test_undone_there_before_the_systems_release(
    system_there: Scene, victim: str, point: int, way: str
) -> None:
    kill_and_mend(system_there, victim, point, way, and_again=False)


@pytest.mark.heavy
@pytest.mark.docker
@cases(*undone(AFTER, *VICTIMS))
def test_undone_there_after_the_systems_release(
    box: Sandbox, system_released: str, tmp_path: Path, victim: str, point: int, way: str
) -> None:
    with machine(tmp_path, image=system_released) as found:
        kill_and_mend(Scene(box, found.by_docker, found), victim, point, way, and_again=False)


@pytest.mark.slow
def test_an_interrupted_run_refuses_the_next(user_here: Scene) -> None:
    profile = user_here.box.profile()
    process = user_here.apply(profile)
    _wait_for_entry(user_here, process, 1)
    process.kill()
    process.communicate(timeout=PATIENCE_S)
    refused = user_here.box.apply(profile)
    assert refused.status == 4
    assert "unfinished" in refused.err
    assert user_here.run("rollback", profile).status == 0
    assert user_here.run("drift", profile).status == 2


@pytest.mark.slow
def test_ctrl_c_ends_ansible_first_and_can_be_taken_up(user_here: Scene) -> None:
    box = user_here.box
    profile = box.profile()
    process = user_here.apply(profile)
    _wait_for_entry(user_here, process, 2)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, said
    assert not box.processes(f"DOCTOR_RUN={box.runs[-1].name}")
    assert box.run("apply", profile, "--resume").status == 0
    assert box.run("drift", profile).status == 0
