"""The README followed word by word on machines that have nothing yet."""

from __future__ import annotations

import pytest

from tests.fresh.box import ENGINE, PYTHON, SUITES, Box, box, the_port

# Neither UTF-8 nor room for words.
ODD = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "COLUMNS": "40"}

pytestmark = [pytest.mark.heavy, pytest.mark.docker]


@pytest.mark.parametrize("suite", SUITES)
def test_the_demo_as_root_with_nothing_installed(images: dict[str, str], suite: str) -> None:
    with the_port(), box(images[suite]) as machine:
        answer = machine.run("./dev", "demo", folder="/root/doctor")
        assert answer.status == 0, answer.all[-3000:]
        assert "Traceback" not in answer.all
        assert "driver-too-old" in answer.out
        assert "known answer" in answer.all


@pytest.mark.parametrize("suite", SUITES)
def test_the_demo_twice_as_a_user_without_compiler(images: dict[str, str], suite: str) -> None:
    with box(images[suite], "ada", PYTHON) as machine:
        assert machine.run("sh", "-c", "command -v cc gcc clang").status
        for env in ({}, ODD):
            answer = machine.run("./dev", "demo", folder="/home/ada/doctor", env=env)
            assert answer.status == 0, answer.all[-3000:]
            assert "Traceback" not in answer.all
            assert "driver-too-old" in answer.out
            assert "sudo apt-get install libgomp1" in " ".join(answer.out.split())


@pytest.mark.parametrize("mode", ["755", "700"])
@pytest.mark.parametrize("suite", SUITES)
def test_the_demo_where_the_home_is_another_s(
    images: dict[str, str], suite: str, mode: str
) -> None:
    with the_port(), box(images[suite], "ada", (*PYTHON, *ENGINE)) as machine:
        root = Box(machine.name)
        for words in (("mv", "/home/ada/doctor", "/srv"), ("chown", "root:", "/home/ada"),
                      ("chmod", mode, "/home/ada")):  # fmt: skip
            assert root.run(*words, folder="/").status == 0
        assert machine.run("touch", "/home/ada/x", folder="/").status
        answer = machine.run("./dev", "demo", folder="/srv/doctor")
        assert answer.status == 0, answer.all[-3000:]
        assert "known answer" in answer.all
        assert "Traceback" not in answer.all


@pytest.mark.parametrize("env", [
    {"PIP_INDEX_URL": "http://127.0.0.1:9/simple"}, {"HTTPS_PROXY": "http://127.0.0.1:9"},
], ids=["index", "proxy"])  # fmt: skip
@pytest.mark.parametrize("suite", SUITES)
def test_a_user_without_an_index_is_told(
    images: dict[str, str], suite: str, env: dict[str, str]
) -> None:
    with box(images[suite], "ada", PYTHON) as machine:
        answer = machine.run(
            "./dev", "demo", folder="/home/ada/doctor", env={"PIP_RETRIES": "0", **env}
        )
        assert answer.status == 4, answer.all
        assert "is the index reachable?" in answer.err.splitlines()[-2]


def test_a_user_without_python_is_told_the_one_line(images: dict[str, str]) -> None:
    with box(images["bookworm"], "ada") as machine:
        answer = machine.run("./dev", "demo", folder="/home/ada/doctor")
        assert answer.status == 2, answer.all
        assert "sudo apt-get" in answer.err
        assert "python3-venv" in answer.err


@pytest.mark.parametrize("suite", SUITES)
def test_the_tests_as_root(images: dict[str, str], suite: str) -> None:
    """What needs a Docker engine skips with a reason: none can be started in a container."""
    with box(images[suite]) as machine:
        answer = machine.run("./dev", "test", "-rfEs", folder="/root/doctor", limit_s=5400)
        assert answer.status == 0, answer.out[-9000:]
        assert "the right to mount" in answer.out


@pytest.mark.parametrize("suite", SUITES)
def test_the_tests_as_a_user(images: dict[str, str], suite: str) -> None:
    """What is missing is named in one line for who may install it; then they pass."""
    with box(images[suite], "ada", PYTHON) as machine:
        first = machine.run("./dev", "test", folder="/home/ada/doctor")
        lines = [line.strip() for line in first.all.splitlines()]
        line = next(line for line in lines if line.startswith("sudo apt-get"))
        assert first.status == 2
        told = Box(machine.name).run("sh", "-c", line.replace("sudo ", ""), folder="/")
        assert told.status == 0, told.all[-3000:]
        answer = machine.run("./dev", "test", "-rfEs", folder="/home/ada/doctor", limit_s=5400)
        assert answer.status == 0, answer.out[-9000:]
