"""Both READMEs say the same: the same commands in the same order, the same pages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from doctor.cli.commands import COMMANDS
from doctor.matrix import load_matrix

ROOT = Path(__file__).parent.parent.parent
ENGLISH, CHINESE = (ROOT / name for name in ("README.md", "README.zh.md"))


def _commands(text: str) -> list[str]:
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [line.partition(" #")[0].strip() for block in blocks for line in block.splitlines()]


def test_both_readmes_show_the_same_commands_and_pages() -> None:
    english, chinese = ENGLISH.read_text(), CHINESE.read_text()
    assert _commands(english) == _commands(chinese)
    pages = r"docs/[\w/.-]+\.md"
    assert set(re.findall(pages, english)) == set(re.findall(pages, chinese))


def test_the_commands_shown_are_commands() -> None:
    used = {
        line.split()[1] for line in _commands(ENGLISH.read_text()) if line.startswith("doctor ")
    }
    assert used <= set(COMMANDS)
    assert used >= set(COMMANDS) - {"plan", "completion", "fleet"}


def test_every_rung_and_named_cause_of_the_glossary_is_one() -> None:
    text = CHINESE.read_text()
    section = text[text.index("### 层级与原因") : text.index("### 领域词汇")]
    rows = [line.split("|") for line in section.splitlines() if line.count("|") == 4][2:]
    causes = load_matrix().causes
    for _, rung, names, *_ in rows:
        for name in names.replace(" ", "").split(","):
            assert name in causes, name
            assert causes[name].rung == rung.split()[0], name
    assert {row[1].split()[0] for row in rows} == {c.rung for c in causes.values()} - {None, "null"}


@pytest.mark.parametrize("page", ["ci", "fleets"])
def test_options_in_prose_are_options(page: str) -> None:
    from doctor.cli.group import root

    known = {
        option
        for name in COMMANDS
        for param in getattr(root.get_command(None, name), "params", ())  # type: ignore[arg-type]
        for option in param.opts
    }
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", (ROOT / f"docs/{page}.md").read_text()))
    assert named - known - {"--list"} == set()
