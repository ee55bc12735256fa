"""Every way to install, on a Debian that has Python and pipx: data inside, and nothing left."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fresh.box import ENGINE, PYTHON, SUITES, Answer, Box, box
from tests.provision.machine import call

pytestmark = [pytest.mark.heavy, pytest.mark.docker]

# What is installed ("" for the checkout), how ({} is its path), where the command is then, and
# how it is taken away.
# The environment of pip is one for all ways: what the smoke test needs goes too.
PIP = ("env/bin/pip install -q {}", "env/bin/doctor",
       "env/bin/pip uninstall -q -y llm-doctor aiohttp xllamacpp")  # fmt: skip
PIPX = (".local/bin/doctor", "pipx uninstall llm-doctor")
UV = (".local/bin/doctor", "env/bin/uv tool uninstall -q llm-doctor")
WAYS = {
    "pip, wheel": ("whl", *PIP),
    "pip, wheel with all extras": ("whl", PIP[0].replace("{}", "{}[all]"), *PIP[1:]),
    "pip, sdist": ("gz", *PIP),
    "pip, checkout": ("", *PIP),
    "pipx": ("whl", "pipx install {}", *PIPX),
    "pipx, checkout with all extras": ("", "pipx install {}[all]", *PIPX),
    "uv": ("whl", "env/bin/uv tool install -q {}", *UV),
    "uv, checkout with all extras": ("", "env/bin/uv tool install -q {}[all]", *UV),
}  # fmt: skip
# Each with its right exits; {} is the checkout.
ANSWERS = (
    ("check", (0, 1)),
    ("check --facts {}/examples/old-driver.yaml", (1,)),
    ("resolve vllm --host H100x8,driver=550.54.15,python=3.11,ubuntu=22.04", (0,)),
    ("profile list", (0,)),
    ("image list", (0,)),
    ("matrix verify", (0,)),
    ("explain driver-too-old", (0,)),
    ("--help", (0,)),
)
WITH_ALL = (("plan llamacpp-cpu --user", (0,)), ("smoke", (0,)))


@pytest.fixture(scope="module", params=SUITES)
def person(
    request: pytest.FixtureRequest, images: dict[str, str], artefacts: dict[str, Path]
) -> Iterator[Box]:
    """A user with Python, an environment that holds uv alone, pipx, and what engines need."""
    with box(images[request.param], "ada", (*PYTHON, "pipx", *ENGINE)) as machine:
        for path in artefacts.values():
            call("docker", "cp", str(path), f"{machine.name}:/tmp/{path.name}")
        assert machine.run("python3", "-m", "venv", "env").status == 0
        assert machine.run("env/bin/pip", "install", "-q", "uv").status == 0
        yield machine


@pytest.mark.parametrize("way", WAYS)
def test_installed_asked_and_taken_away(person: Box, artefacts: dict[str, Path], way: str) -> None:
    ending, install, program, remove = WAYS[way]
    what = f"/tmp/{artefacts[ending].name}" if ending else f"{person.home}/doctor"
    started = time.monotonic()
    expect(person.run(*install.format(what).split()), 0)
    expect(person.run(program, "check"), 0, 1)
    print(f"{way}: first answer after {time.monotonic() - started:.1f} s")
    for line, right in (*ANSWERS, *(WITH_ALL if "extras" in way else ())):
        expect(person.run(program, *line.replace("{}", f"{person.home}/doctor").split()), *right)
    if "extras" not in way:
        add_what_smoke_lacks(person, program)
    other = program.replace("bin/doctor", "bin/llm-doctor")
    expect(person.run(other, "--version"), 0)
    expect(person.run(*remove.split()), 0)
    assert left_of_it(person) == []


def add_what_smoke_lacks(person: Box, program: str) -> None:
    """What doctor says of the extra that is not there can be typed as it stands."""
    lacking = person.run(program, "smoke")
    expect(lacking, 4)
    hint = lacking.err.splitlines()[-1].strip()
    assert "llm-doctor[smoke]" in hint
    expect(person.run("sh", "-c", f"PATH=$PWD/env/bin:$PATH {hint}"), 0)
    expect(person.run(program, "smoke"), 0)


def expect(answer: Answer, *statuses: int) -> None:
    assert answer.status in statuses, answer.all[-2000:]
    assert "Traceback" not in answer.all


def left_of_it(person: Box) -> list[str]:
    """Files of doctor outside caches and the checkout."""
    words = ("find", ".", "-path", "./doctor", "-prune", "-o", "-path", "./.cache", "-prune",
             "-o", "-iname", "*doctor*", "-print")  # fmt: skip
    return person.run(*words).out.splitlines()


@pytest.fixture(scope="module")
def installed(person: Box, artefacts: dict[str, Path]) -> Box:
    expect(person.run("python3", "-m", "venv", "odd"), 0)
    expect(person.run("odd/bin/pip", "install", "-q", f"/tmp/{artefacts['whl'].name}"), 0)
    return person


@pytest.mark.parametrize(
    "env",
    [
        {"LC_ALL": "POSIX"},
        {"LANG": "C", "LC_ALL": ""},
        {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"LC_ALL": "de_DE.ISO-8859-1", "PYTHONUTF8": "0"},
        {"COLUMNS": "40"},
        {"COLUMNS": "20"},
        {"COLUMNS": "x", "TERM": "dumb"},
        {"HOME": "/nowhere"},
        {"HOME": "/proc"},
        {"XDG_CACHE_HOME": "/proc", "XDG_DATA_HOME": "/proc", "XDG_STATE_HOME": "/proc"},
        {"PATH": "/nowhere"},
        {"TMPDIR": "/nowhere"},
    ],
    ids=str,
)
def test_odd_surroundings(installed: Box, env: dict[str, str]) -> None:
    program = f"{installed.home}/odd/bin/doctor"
    facts = f"{installed.home}/doctor/examples/old-driver.yaml"
    for words, right in ((("check",), (0, 1)), (("check", "--facts", facts), (1,))):
        answer = installed.run(program, *words, env=env)
        expect(answer, *right)
        assert answer.out


@pytest.mark.parametrize("columns", [40, 20, 1])
def test_a_small_terminal(installed: Box, columns: int) -> None:
    """`script` gives the command a real terminal; nothing is wider than it, as far as words go."""
    facts = f"{installed.home}/doctor/examples/old-driver.yaml"
    line = f"stty cols {columns}; odd/bin/doctor check --facts {facts}"
    answer = installed.run("script", "-qec", line, "/dev/null", env={"TERM": "xterm"})
    expect(answer, 1)
    assert "driver-too-old" in answer.out
