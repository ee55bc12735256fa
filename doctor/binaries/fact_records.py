"""Facts about libraries as JSON values for the cache, and back; light to import."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Optional

from doctor.facts import Binary, CodeTarget, Kernels, Version

_WORDS = ("path", "package", "machine", "build_id", "unreadable")
_VERSIONS = ("glibc", "glibcxx", "cuda", "toolkit", "compiler")
_LISTS = (
    "gfx", "soc", "isa", "needs", "shadowed", "undefined", "other_majors", "versions_missing",
)  # fmt: skip
_FIELDS = (*_WORDS, *_VERSIONS, *_LISTS)
BROKEN = (TypeError, ValueError, KeyError, AttributeError)
"""What readers of records raise for values that are none."""


def to_binary_record(binary: Binary) -> list[Any]:
    """JSON values of a fact, in the order in which `from_binary_record` reads them."""
    return [
        [getattr(binary, name) for name in _WORDS],
        [str(getattr(binary, name) or "") for name in _VERSIONS],
        [getattr(binary, name) for name in _LISTS],
        write_kernels(binary.kernels),
        binary.unresolved,
    ]


def from_binary_record(record: Any) -> Optional[Binary]:
    """The fact, or None if the record is not one."""
    try:
        words, versions, lists, kernels, unresolved = record
        values = [*map(read_text, words), *map(read_version, versions), *map(read_texts, lists)]
        if len(values) != len(_FIELDS):
            return None
        fields: dict[str, Any] = {name: values[place] for place, name in enumerate(_FIELDS)}
        fields["kernels"] = read_kernels(kernels)
        fields["unresolved"] = None if unresolved is None else read_texts(unresolved)
        return Binary(**fields)
    except BROKEN:
        return None


def write_kernels(kernels: tuple[Kernels, ...]) -> list[Any]:
    """Groups of alternatives as a count and their targets in one text."""
    return [[group.count, " ".join(map(str, group.targets))] for group in kernels]


def read_kernels(record: Any) -> tuple[Kernels, ...]:
    """The groups again; raises one of BROKEN."""
    return tuple(Kernels(_targets(read_text(targets)), int(count)) for count, targets in record)


@lru_cache(maxsize=1024)
def _targets(text: str) -> tuple[CodeTarget, ...]:
    return tuple(map(CodeTarget.parse, text.split()))


def read_version(value: Any) -> Optional[Version]:
    """A version, or None for an empty text; raises one of BROKEN."""
    return Version(read_text(value)) if value else None


def read_text(value: Any) -> str:
    """The text; raises TypeError for anything else."""
    if not isinstance(value, str):
        raise TypeError
    return value


def read_texts(values: Any) -> tuple[str, ...]:
    """The texts; raises TypeError for anything else."""
    if not isinstance(values, (list, tuple)):
        raise TypeError
    return tuple(map(read_text, values))
