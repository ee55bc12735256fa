"""Contents of files, and facts made of them, as JSON values for the cache, and back."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Optional

from doctor.binaries.contents import Contents
from doctor.binaries.linkage import Linkage
from doctor.facts import Binary, CodeTarget, Kernels, Version

_WORDS = ("path", "package", "machine", "build_id", "unreadable")
_VERSIONS = ("glibc", "glibcxx", "cuda", "toolkit", "compiler")
_LISTS = (
    "gfx", "soc", "isa", "needs", "shadowed", "undefined", "other_majors", "versions_missing",
)  # fmt: skip
_FIELDS = (*_WORDS, *_VERSIONS, *_LISTS)
_BROKEN = (TypeError, ValueError, KeyError, AttributeError)


def to_record(contents: Contents) -> list[Any]:
    """JSON values, in the order in which `from_record` reads them."""
    link = contents.linkage
    return [
        [link.machine, link.soname, link.needed, link.rpath, link.runpath],
        [link.requires, link.provides, link.build_id],
        _kernels_record(contents.kernels),
        [contents.gfx, contents.soc, contents.isa, contents.compression],
        [str(v or "") for v in (contents.glibc, contents.glibcxx, contents.toolkit)],
        [contents.sealed, contents.unreadable],
    ]


def from_record(record: Any) -> Optional[Contents]:
    """The contents, or None if the record is not one."""
    try:
        names, needs, kernels, code, versions, texts = record
        glibc, glibcxx, toolkit = map(_version, versions)
        gfx, soc, isa, compression = map(_texts, code)
        sealed, unreadable = map(_text, texts)
        return Contents(
            _linkage(names, needs),
            glibc,
            glibcxx,
            _kernels(kernels),
            gfx,
            soc,
            isa,
            compression,
            toolkit,
            sealed,
            unreadable,
        )
    except _BROKEN:
        return None


def to_binary_record(binary: Binary) -> list[Any]:
    """JSON values of a fact, in the order in which `from_binary_record` reads them."""
    return [
        [getattr(binary, name) for name in _WORDS],
        [str(getattr(binary, name) or "") for name in _VERSIONS],
        [getattr(binary, name) for name in _LISTS],
        _kernels_record(binary.kernels),
        binary.unresolved,
    ]


def from_binary_record(record: Any) -> Optional[Binary]:
    """The fact, or None if the record is not one."""
    try:
        words, versions, lists, kernels, unresolved = record
        values = [*map(_text, words), *map(_version, versions), *map(_texts, lists)]
        fields: dict[str, Any] = dict(zip(_FIELDS, values))  # noqa: B905 - counted below
        if len(values) != len(_FIELDS):
            return None
        fields["kernels"] = _kernels(kernels)
        fields["unresolved"] = None if unresolved is None else _texts(unresolved)
        return Binary(**fields)
    except _BROKEN:
        return None


def _linkage(names: Any, needs: Any) -> Linkage:
    machine, soname, needed, rpath, runpath = names
    requires, provides, build_id = needs
    return Linkage(
        _text(machine),
        _text(soname),
        _texts(needed),
        _texts(rpath),
        _texts(runpath),
        tuple((_text(library), _texts(wanted)) for library, wanted in requires),
        _texts(provides),
        _text(build_id),
    )


def _kernels_record(kernels: tuple[Kernels, ...]) -> list[Any]:
    return [[group.count, " ".join(map(str, group.targets))] for group in kernels]


def _kernels(record: Any) -> tuple[Kernels, ...]:
    return tuple(Kernels(_targets(_text(targets)), int(count)) for count, targets in record)


@lru_cache(maxsize=1024)
def _targets(text: str) -> tuple[CodeTarget, ...]:
    return tuple(map(CodeTarget.parse, text.split()))


def _version(value: Any) -> Optional[Version]:
    return Version(_text(value)) if value else None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _texts(values: Any) -> tuple[str, ...]:
    if not isinstance(values, (list, tuple)):
        raise TypeError
    for value in values:
        if not isinstance(value, str):
            raise TypeError
    return tuple(values)
