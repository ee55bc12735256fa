"""`isdigit` admits what `int` does not read ("\u00b2"): where both stand, `isascii` stands too."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent / "doctor"
_BYTES = {"images/tar.py"}  # of bytes, only ASCII digits are digits


def _called(node: ast.AST) -> set[str]:
    """Names of the functions and methods that are called or handed on below a node."""
    inner = list(ast.walk(node))
    attributes = {one.attr for one in inner if isinstance(one, ast.Attribute)}
    return attributes | {one.id for one in inner if isinstance(one, ast.Name)}


@pytest.mark.parametrize(
    "name", sorted({str(p.relative_to(ROOT)) for p in ROOT.rglob("*.py")} - _BYTES)
)
def test_what_becomes_a_number_is_one(name: str) -> None:
    found = [
        node.lineno
        for node in ast.walk(ast.parse((ROOT / name).read_text()))
        if isinstance(node, ast.FunctionDef)
        and {"isdigit", "int"} <= (called := _called(node))
        and "isascii" not in called
    ]
    assert found == []
