"""Contents of a file as JSON values for the cache, and back."""

from __future__ import annotations

from typing import Any, Optional

from doctor.binaries.contents import Contents
from doctor.binaries.linkage import Linkage
from doctor.facts import CodeTarget, Kernels, Version


def to_record(contents: Contents) -> list[Any]:
    """JSON values, in the order in which `from_record` reads them."""
    link = contents.linkage
    return [
        [link.machine, link.soname, link.needed, link.rpath, link.runpath],
        [link.requires, link.provides, link.build_id],
        [[group.count, [str(t) for t in group.targets]] for group in contents.kernels],
        [contents.gfx, contents.soc, contents.isa, contents.compression],
        [str(v or "") for v in (contents.glibc, contents.glibcxx, contents.toolkit)],
        [contents.sealed, contents.unreadable],
    ]


def from_record(record: Any) -> Optional[Contents]:
    """The contents, or None if the record is not one."""
    try:
        names, needs, kernels, code, versions, texts = record
        glibc, glibcxx, toolkit = (Version(v) if v else None for v in map(_text, versions))
        sealed, unreadable = map(_text, texts)
        gfx, soc, isa, compression = map(_texts, code)
        return Contents(
            _linkage(names, needs),
            glibc,
            glibcxx,
            tuple(Kernels(tuple(map(CodeTarget.parse, targets)), int(n)) for n, targets in kernels),
            gfx,
            soc,
            isa,
            compression,
            toolkit,
            sealed,
            unreadable,
        )
    except (TypeError, ValueError, KeyError):
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


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _texts(values: Any) -> tuple[str, ...]:
    if not isinstance(values, (list, tuple)):
        raise TypeError
    return tuple(map(_text, values))
