"""Leave out of a module what nothing that is asked of it needs.

NVIDIA's bindings describe the whole of NVML, of which the probes ask a tenth.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import Optional

# Looked up by the beginning of their names when the module is loaded.
_ALWAYS = "NVML_ERROR_"
_WORD = re.compile(r"\b(?:c_)?(?:nvml[A-Z]|NVML_?)\w+")


def words(source: str) -> frozenset[str]:
    """Names of NVML that a source mentions, be it in code or in texts."""
    return frozenset(_WORD.findall(source))


def pruned(source: str, wanted: Iterable[str]) -> str:
    """The module with what the wanted names lead to; every line keeps its number.

    A name also stands for its newer forms ("_v2"). Statements that define nothing stay.
    """
    body = ast.parse(source).body
    definitions: dict[str, list[ast.stmt]] = {}
    for node in body:
        name = _defined(node)
        if name is not None:
            definitions.setdefault(name, []).append(node)
    kept = _closure(definitions, {*_roots(body, definitions, frozenset(wanted))})
    lines = source.splitlines(keepends=True)
    for node in body:
        name = _defined(node)
        if name is not None and name not in kept:
            _blank(lines, node)
    return "".join(lines)


def _defined(node: ast.stmt) -> Optional[str]:
    """The one name that a statement only defines; None for a statement that does something."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return node.name
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target = node.targets[0]
        if isinstance(target, ast.Name) and not any(_calls(node.value)):
            return target.id
    return None


def _calls(value: ast.expr) -> Iterator[ast.AST]:
    return (node for node in ast.walk(value) if isinstance(node, ast.Call))


def _roots(
    body: list[ast.stmt], definitions: dict[str, list[ast.stmt]], wanted: frozenset[str]
) -> Iterator[str]:
    for name in definitions:
        if name.startswith(_ALWAYS) or re.sub(r"_v\d+$", "", name) in wanted or name in wanted:
            yield name
    for node in body:
        if _defined(node) is None:
            yield from _used(node)


def _closure(definitions: dict[str, list[ast.stmt]], todo: set[str]) -> set[str]:
    kept: set[str] = set()
    while todo:
        name = todo.pop()
        if name in definitions and name not in kept:
            kept.add(name)
            todo.update(used for node in definitions[name] for used in _used(node))
    return kept


def _used(node: ast.stmt) -> Iterator[str]:
    return (part.id for part in ast.walk(node) if isinstance(part, ast.Name))


def _blank(lines: list[str], node: ast.stmt) -> None:
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(item.lineno for item in decorators)])
    last = node.end_lineno or first
    lines[first - 1 : last] = ["\n"] * (last - first + 1)
