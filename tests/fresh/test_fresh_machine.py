"""The README followed word by word on machines that have nothing yet."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fresh.box import Box, box, built_wheel, image_of
from tests.provision.machine import call, docker_engine

pytestmark = [pytest.mark.heavy, pytest.mark.docker]
SUITES = ("bookworm", "trixie")
PYTHON = ("python3", "python3-venv")


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    folder = tmp_path_factory.mktemp("suites")
    with docker_engine():
        yield {suite: image_of(suite, folder) for suite in SUITES}


@pytest.mark.parametrize("suite", SUITES)
def test_the_demo_as_root_with_nothing_installed(images: dict[str, str], suite: str) -> None:
    with box(images[suite]) as machine:
        answer = machine.run("./dev", "demo", folder="/root/doctor")
        assert answer.status == 0, answer.all[-3000:]
        assert "Traceback" not in answer.all
        assert "driver-too-old" in answer.out
        assert "known answer" in answer.all


@pytest.mark.parametrize("suite", SUITES)
def test_the_demo_as_a_user(images: dict[str, str], suite: str) -> None:
    with box(images[suite], "ada", PYTHON) as machine:
        answer = machine.run("./dev", "demo", folder="/home/ada/doctor")
        assert answer.status == 0, answer.all[-3000:]
        assert "Traceback" not in answer.all
        assert "driver-too-old" in answer.out


def test_a_user_without_python_is_told_the_one_line(images: dict[str, str]) -> None:
    with box(images["bookworm"], "ada") as machine:
        answer = machine.run("./dev", "demo", folder="/home/ada/doctor")
        assert answer.status == 2, answer.all
        assert "sudo apt-get" in answer.err
        assert "python3-venv" in answer.err


@pytest.mark.parametrize("suite", SUITES)
def test_the_tests_as_root(images: dict[str, str], suite: str) -> None:
    """What needs a Docker engine is left out: there is none inside a container."""
    with box(images[suite]) as machine:
        words = ("./dev", "test", "--deselect", "tests/fresh")
        answer = machine.run(*words, folder="/root/doctor", limit_s=3600)
        assert answer.status == 0, answer.all[-6000:]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_wheel(tmp_path_factory.mktemp("wheel"), sys.executable)


@pytest.fixture
def person(images: dict[str, str], wheel: Path) -> Iterator[Box]:
    """A user with an environment that holds the wheel with all its extras."""
    with box(images["bookworm"], "ada", (*PYTHON, "pipx")) as machine:
        carry(wheel, machine)
        yield machine


def carry(wheel: Path, machine: Box) -> None:
    call("docker", "cp", str(wheel), f"{machine.name}:/tmp/{wheel.name}")


def test_the_wheel_with_all_extras(person: Box, wheel: Path) -> None:
    assert person.run("python3", "-m", "venv", "env").status == 0
    started = time.monotonic()
    answer = person.run("env/bin/pip", "install", "-q", f"/tmp/{wheel.name}[all]")
    assert answer.status == 0, answer.all
    check = person.run("env/bin/doctor", "check")
    print(f"first answer after {time.monotonic() - started:.0f} s")
    assert check.status == 0, check.all
    for words in (("profile", "list"), ("matrix", "verify"), ("explain", "driver-too-old"),
                  ("plan", "llamacpp-cpu", "--user"), ("smoke",)):  # fmt: skip
        answer = person.run("env/bin/doctor", *words)
        assert answer.status in (0, 1), (words, answer.all)
        assert "Traceback" not in answer.all
    assert person.run("env/bin/pip", "uninstall", "-q", "-y", "llm-doctor").status == 0
    left = person.run("find", "env", "-path", "*doctor*", "-not", "-name", "*.pyc")
    assert [line for line in left.out.splitlines() if "__pycache__" not in line] == []


def test_by_pipx(person: Box, wheel: Path) -> None:
    answer = person.run("pipx", "install", f"/tmp/{wheel.name}")
    assert answer.status == 0, answer.all
    assert person.run(".local/bin/doctor", "check").status == 0
    assert person.run(".local/bin/llm-doctor", "--version").status == 0


@pytest.mark.parametrize(
    "env",
    [
        {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"LC_ALL": "de_DE.ISO-8859-1", "PYTHONUTF8": "0"},
        {"COLUMNS": "20"},
        {"COLUMNS": "x", "TERM": "dumb"},
        {"HOME": "/nowhere"},
        {"HOME": "/proc"},
        {"XDG_CACHE_HOME": "/proc", "XDG_DATA_HOME": "/proc", "XDG_STATE_HOME": "/proc"},
        {"PATH": "/nowhere"},
    ],
)
def test_odd_surroundings(person: Box, wheel: Path, env: dict[str, str]) -> None:
    assert person.run("python3", "-m", "venv", "env").status == 0
    assert person.run("env/bin/pip", "install", "-q", f"/tmp/{wheel.name}").status == 0
    program = f"{person.home}/env/bin/doctor"
    for words in (
        ("check",),
        ("check", "--facts", f"{person.home}/doctor/examples/old-driver.yaml"),
    ):
        answer = person.run(program, *words, env=env)
        assert answer.status in (0, 1), answer.all
        assert "Traceback" not in answer.all
        assert answer.out
