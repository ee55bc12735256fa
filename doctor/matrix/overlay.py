"""Lay a site's own rows over the matrix: add freely, replace only on purpose.

An overlay file is named after the domain it adds to (vllm.yaml) and has its shape. A row
that replaces one of the matrix must say `override: true` and a reason. Rows of an
overlay name it in their first source, so that whatever they decide names it too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from doctor.errors import MatrixError
from doctor.matrix.domains import IDENTITY, identity

_MARK = "overlay "


def overlay_files(paths: Iterable[Path]) -> tuple[Path, ...]:
    """The YAML files of overlay files and folders, in the order given.

    Raises MatrixError for a path that is relative (an overlay is never taken from
    wherever one happens to stand) or not there.
    """
    return tuple(file for path in paths for file in _files(path))


def _files(path: Path) -> Iterator[Path]:
    if not path.is_absolute():
        raise MatrixError(f"overlay {path} is not an absolute path", "write its full path")
    if not path.exists():
        raise MatrixError(f"no overlay {path}", "name a YAML file, or a folder of them")
    yield from sorted(path.glob("*.yaml")) if path.is_dir() else (path,)


def overlaid(base: Any, extra: Any, path: Path) -> Any:
    """The domain `base` with the rows of `extra`, which came from the file `path`.

    Raises MatrixError if a row replaces without saying so, or says so without cause.
    """
    changes: dict[str, Any] = {"as_of": max(base.as_of, extra.as_of)}
    for field in extra.__struct_fields__:
        if field in IDENTITY and getattr(extra, field):
            changes[field] = _merged(field, getattr(base, field), getattr(extra, field), path)
    return msgspec.structs.replace(base, **changes)


def _merged(field: str, base: Any, extra: Any, path: Path) -> tuple[Any, ...]:
    rows = {identity(field, row): row for row in base}
    for row in extra:
        name = identity(field, row)
        _check(row, name in rows, f"{path}: {field} {' '.join(map(str, name))}")
        rows[name] = msgspec.structs.replace(row, source=(_label(row, path), *row.source))
    return tuple(rows.values())


def _check(row: Any, replaces: bool, place: str) -> None:
    if replaces and not (row.override and row.reason):
        raise MatrixError(
            f"{place} replaces a row of the matrix",
            "say so with `override: true` and a `reason`, or give the row another name",
        )
    if row.override and not replaces:
        raise MatrixError(f"{place} overrides nothing", "mend its name, or drop `override`")


def _label(row: Any, path: Path) -> str:
    return f"{_MARK}{path}: {row.reason}" if row.reason else f"{_MARK}{path}"


def decided_by_overlay(sources: Iterable[str]) -> tuple[str, ...]:
    """Of the sources of a row or finding, those that name an overlay and its reason."""
    return tuple(source for source in sources if source.startswith(_MARK))
