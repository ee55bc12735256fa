"""Text that is nested deeper than Python recurses is refused wherever text is decoded."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent / "doctor"
# Decoders that recurse into what they read. msgspec counts and raises its own error.
_DECODERS = {("json", "loads"), ("json", "load"), ("tomllib", "loads"), ("yaml", "load"),
             ("yaml", "safe_load"), ("ast", "parse"), ("ast", "literal_eval")}  # fmt: skip
_ENOUGH = {"RecursionError", "RuntimeError", "Exception", "BaseException"}
# They read what ships with doctor or what a child of it wrote; in gate.py the caller expects
# it, and image_file.py reads a manifest again that it has understood before.
_OWN = {"images/recipe.py", "images/buildah.py", "probes/forked.py", "probes/zipapp_pruning.py",
        "profile/image_file.py",
        "provision/roles.py", "smoke/launch.py", "gate.py"}  # fmt: skip


def _is_decoder(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    owner = node.func.value
    return isinstance(owner, ast.Name) and (owner.id, node.func.attr) in _DECODERS


def _names(node: ast.expr | None, constants: dict[str, ast.expr]) -> set[str]:
    """Names of exceptions, with those behind a constant of the module."""
    found: set[str] = set()
    for inner in ast.walk(node) if node is not None else ():
        if isinstance(inner, ast.Name):
            found.add(inner.id)
            found |= _names(constants.pop(inner.id, None), constants)
    return found


def _caught(stack: list[ast.AST], constants: dict[str, ast.expr]) -> set[str]:
    found: set[str] = set()
    for node in stack:
        if isinstance(node, ast.Try):
            for handler in node.handlers:
                found |= _names(handler.type, dict(constants))
        if isinstance(node, ast.With):
            for item in node.items:
                found |= _names(item.context_expr, dict(constants))
    return found


def _unguarded(
    node: ast.AST, stack: list[ast.AST], constants: dict[str, ast.expr]
) -> Iterator[int]:
    if _is_decoder(node) and not _caught(stack, constants) & _ENOUGH:
        yield getattr(node, "lineno", 0)
    for child in ast.iter_child_nodes(node):
        yield from _unguarded(child, [*stack, node], constants)


def _files() -> list[str]:
    return sorted(str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py"))


@pytest.mark.parametrize("name", [name for name in _files() if name not in _OWN])
def test_what_decodes_text_expects_any_depth(name: str) -> None:
    tree = ast.parse((ROOT / name).read_text())
    constants = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    assert list(_unguarded(tree, [], constants)) == []
