"""Every command of the README, typed as it stands by a person on a bare Debian without a GPU."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.fresh.box import ENGINE, PYTHON, ROOT, SUITES, Box, box, the_port

pytestmark = [pytest.mark.heavy, pytest.mark.docker]

# What the README speaks of, made from the checkout.
READY = """set -e
python3 -m venv all
all/bin/pip install -q --disable-pip-version-check './doctor[all]'
mkdir work && cd work
cp ../doctor/examples/old-driver.yaml report.yaml
cp ../doctor/tests/intake/samples/bug_report.md issue.md
cp ../doctor/tests/intake/samples/log_vllm.txt server.log
cp ../doctor/tests/binaries/samples/suffixes.so some.whl
echo vllm==0.20.0 >requirements.txt
echo FROM vllm/vllm-openai:v0.33.0 >Dockerfile
printf '[gpu]\\nhere ansible_connection=local\\n' >hosts.ini
python3 -m venv .venv
"""
# Exits other than 0, by the command's beginning; what needs a GPU, Docker or a server says so.
OTHER = {
    "check --python": {1},
    "check --engine": {1},
    "check --facts report.yaml": {1},
    "check --facts issue.md": {1, 3},
    "check --root": {2},
    "check --image": {4},
    "check requirements.txt": {1},
    "scan": {2},
    "diagnose": {1, 3},
    "resolve --goal": {1},
    "fit": {0, 2},
    "smoke http": {1},
    "bench": {4},
    "apply llamacpp-cpu --inventory": {4},
    "image pin": {0, 4},
    "image build": {2, 4},
    "image verify": {4},
}


def lines() -> list[str]:
    """The commands of doctor in the README's blocks."""
    text = (ROOT / "README.md").read_text()
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    shown = [line.partition(" #")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in shown if line.startswith("doctor ")]


@pytest.fixture(scope="module", params=SUITES)
def person(request: pytest.FixtureRequest, images: dict[str, str]) -> Iterator[Box]:
    with the_port(), box(images[request.param], "ada", (*PYTHON, *ENGINE)) as machine:
        answer = machine.run("sh", "-c", READY)
        assert answer.status == 0, answer.all[-3000:]
        yield machine


@pytest.mark.parametrize("line", lines())
def test_a_line_of_the_readme(person: Box, line: str) -> None:
    words = line.removeprefix("doctor ")
    right = next((exits for start, exits in OTHER.items() if words.startswith(start)), {0})
    answer = person.run(
        "sh", "-c", f'PATH="$HOME/all/bin:$PATH" {line}', folder=f"{person.home}/work"
    )
    assert answer.status in right, answer.all[-2000:]
    assert "Traceback" not in answer.all
    if answer.status in (2, 4) and "doctor: " in answer.err:
        assert re.search(r"^doctor: .+\n  \S", answer.err, re.MULTILINE), answer.err
