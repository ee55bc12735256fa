"""Turn the YAML sources of the matrix into one JSON per domain.

Every scalar is read as text, so that 3.10 and 12.10 survive; duplicate and unknown
keys are refused. Only used when the JSON is absent or older than its sources.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import yaml

from doctor.errors import MatrixError
from doctor.named_files import read_named

_Loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


class _UniqueKeyLoader(_Loader):  # type: ignore[misc]  # the base is chosen at run time
    """Reads scalars as text and refuses duplicate keys."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[str, Any]:
        """Build a mapping; raise MatrixError for a key that stands twice."""
        seen: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = self.construct_object(key_node, deep=True)
            line = key_node.start_mark.line + 1
            if not isinstance(key, str):
                raise MatrixError(f"a key that is no text in line {line}", "quote it")
            if key in seen:
                raise MatrixError(f"duplicate key {key!r} in line {line}", "keep one of the two")
            seen[key] = self.construct_object(value_node, deep=deep)
        return seen


def read_yaml(path: Path) -> Any:
    """Read one YAML file as text scalars; raise MatrixError with the place of the fault."""
    try:
        return yaml.load(read_named(path), Loader=_UniqueKeyLoader)  # noqa: S506 - text only
    except yaml.YAMLError as fault:
        raise MatrixError(f"{path}: {fault}", "mend the YAML at the line named") from None
    except RecursionError:
        raise MatrixError(f"{path}: nested too deeply", "make it flatter") from None
    except OSError as fault:
        raise MatrixError(f"cannot read {path}: {fault}", "check the path") from None
    except MatrixError as fault:
        raise MatrixError(f"{path}: {fault}", fault.hint) from None


def compile_domain(path: Path, shape: Any) -> bytes:
    """Check one source file against its shape and return it as JSON."""
    data = read_yaml(path)
    try:
        return msgspec.json.encode(msgspec.convert(data, shape, strict=False))
    except msgspec.ValidationError as fault:
        raise MatrixError(f"{path}: {fault}", "docs/matrix.md describes the rows") from None
