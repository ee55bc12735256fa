"""YAML as a graph of nodes that know their lines. No tags, no code, no expanded aliases."""

from __future__ import annotations

from typing import Any

import yaml

from doctor.errors import UsageError

_Loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_LIMIT = 128 << 10
_DEEPEST = 8


def composed(text: str, name: str) -> yaml.Node:
    """The outermost node; raises UsageError that names the place of the fault."""
    if len(text) > _LIMIT:
        raise UsageError(f"{name}: larger than {_LIMIT >> 10} KiB", "this is no file of people")
    try:
        node: yaml.Node | None = yaml.compose(text, Loader=_Loader)
    except (yaml.YAMLError, RecursionError, ValueError) as fault:
        reason = " ".join(str(fault).split())[:300]
        raise UsageError(f"{name}: {reason}", "mend the file at the place named") from None
    return node or yaml.MappingNode("", [])


def table(node: yaml.Node | None, depth: int = 0) -> dict[str, yaml.Node]:
    """The keys of a table, with those that `<<` merges into it; {} for anything else."""
    found: dict[str, yaml.Node] = {}
    if not isinstance(node, yaml.MappingNode) or depth > _DEEPEST:
        return found
    for key, value in node.value:
        if isinstance(key, yaml.ScalarNode) and key.value == "<<":
            merged = value.value if isinstance(value, yaml.SequenceNode) else [value]
            for part in merged[:50]:
                found = {**table(part, depth + 1), **found}
    own = {k.value: v for k, v in node.value if isinstance(k, yaml.ScalarNode) and k.value != "<<"}
    return {**found, **own}


def items(node: yaml.Node | None) -> list[yaml.Node]:
    """The items of a list; [] for anything else."""
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def scalar(node: yaml.Node | None) -> str:
    """The text of a scalar; "" for anything else."""
    return str(node.value) if isinstance(node, yaml.ScalarNode) else ""


def line(node: yaml.Node | None) -> int:
    """The line on which a node begins, from 1."""
    mark: Any = node.start_mark if node is not None else None
    return int(mark.line) + 1 if mark is not None else 1
