"""Odd words and files for every argument and option of every command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from doctor.cli.finite import Finite
from doctor.cli.group import root
from tests.faults.hostile_words import complaints

SEED = int(os.environ.get("DOCTOR_SEED", "20261130"))


def _names(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[str]:
    if not isinstance(command, click.Group):
        yield " ".join(words)
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from _names(found, (*words, name))


NAMES = tuple(_names(root))


def _wrong(folder: Path, number: int, name: str) -> list[list[str]]:
    command = [sys.executable, "-m", "tests.faults.hostile_words", str(folder), str(SEED),
               str(number), *name.split()]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows: list[list[str]] = json.loads(done.stdout)
    return rows


@pytest.mark.slow
@pytest.mark.real
@pytest.mark.parametrize("name", NAMES)
def test_two_of_them_for_each_word(name: str, tmp_path: Path) -> None:
    assert _wrong(tmp_path, 2, name) == []


@pytest.mark.heavy
@pytest.mark.real
@pytest.mark.parametrize("name", NAMES)
def test_all_of_them_for_each_word(name: str, tmp_path: Path) -> None:
    assert _wrong(tmp_path, 1000, name) == []


@pytest.mark.real
@pytest.mark.parametrize("name", ["\x1b[31mred", "\u202eabc", "a\nb"])
def test_a_folder_that_was_written_is_named_in_plain_letters(name: str, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    assert complaints(["record", name], tmp_path) == []


def _options(name: str) -> list[click.Parameter]:
    found: click.Command = root
    for word in name.split():
        assert isinstance(found, click.Group)
        inner = found.get_command(click.Context(found), word)
        assert inner is not None
        found = inner
    return found.params


@pytest.mark.parametrize("name", NAMES)
def test_no_option_takes_what_is_no_number(name: str) -> None:
    kinds = [parameter.type for parameter in _options(name)]
    loose = [k for k in kinds if isinstance(k, click.types.FloatParamType)]
    assert all(isinstance(kind, Finite) for kind in loose)
