"""Each error says what to do next: the one line below it is never missing."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from doctor import errors

ROOT = Path(__file__).parent.parent
# Who catches these says which file it is, and what to do.
WRAPPED = {
    "doctor/images/streams.py": "doctor/images/reading.py",
    "doctor/images/tar.py": "doctor/images/reading.py",
    "doctor/images/tree.py": "doctor/images/reading.py",
    "doctor/provision/apply.py": "the run's own report",
}
KINDS = {
    name for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, errors.DoctorError)
}  # fmt: skip


def _trees() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted((ROOT / "doctor").rglob("*.py")):
        yield str(path.relative_to(ROOT)), ast.parse(path.read_text())


def _kinds() -> set[str]:
    """Names of the errors, those that a folder adds too."""
    return KINDS | {
        node.name
        for _, tree in _trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        and any(isinstance(base, ast.Name) and base.id in KINDS for base in node.bases)
    }


def _bare(tree: ast.Module, kinds: set[str]) -> list[int]:
    """Lines of errors without a hint."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in kinds
        and len(node.args) < 2
        and not any(word.arg in ("hint", None) for word in node.keywords)
    ]


@pytest.fixture(scope="module")
def bare() -> dict[str, list[int]]:
    kinds = _kinds()
    return {name: lines for name, tree in _trees() if (lines := _bare(tree, kinds))}


def test_no_error_is_without_a_next_step(bare: dict[str, list[int]]) -> None:
    assert bare.keys() - WRAPPED == set()


def test_those_that_others_complete_are_still_there(bare: dict[str, list[int]]) -> None:
    assert bare.keys() >= WRAPPED.keys()


def test_the_look_finds_one_that_lacks_it() -> None:
    bad = ast.parse("raise UsageError('no')\nraise UsageError('no', 'do this')")
    assert _bare(bad, KINDS) == [1]
