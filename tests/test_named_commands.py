"""Commands that messages, help, pages and documents name: they and their options exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from doctor.cli.group import root

ROOT = Path(__file__).parent.parent
PLACES = ("doctor/**/*.py", "docs/**/*.md", "README*.md", "doctor/matrix/data/*.yaml")
SOURCES = sorted(path for place in PLACES for path in ROOT.glob(place))
COMMAND = re.compile(r"(?<![\w./-])doctor((?: [a-z]+)+)([^`\n\"'|;)]*)")
OPTION = re.compile(r"(?<= )(--[a-z][a-z-]*)")


def texts(path: Path) -> Iterator[str]:
    """What a person may read of a file."""
    if path.suffix != ".py":
        yield path.read_text()
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def named(path: Path) -> Iterator[tuple[str, set[str]]]:
    """Words behind `doctor`, and the options behind them."""
    for text in texts(path):
        for match in COMMAND.finditer(text):
            yield match[1].strip(), set(OPTION.findall(match[2]))


def found(words: str) -> click.Command | None:
    """The command that words begin with, None if the first is no command."""
    context = click.Context(root)
    command = root.get_command(context, words.split(maxsplit=1)[0])
    for word in words.split()[1:]:
        if not isinstance(command, click.Group):
            break
        command = command.get_command(context, word)
    return command


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_commands_that_are_named_exist(path: Path) -> None:
    for words, options in named(path):
        command = found(words)
        if options:
            assert command is not None, words
            known = {o for p in command.params for o in (*p.opts, *p.secondary_opts)}
            assert options <= known | {"--help", "--version"}, words
