"""Contents of files as JSON values for the cache, and back."""

from __future__ import annotations

from typing import Any, Optional

from doctor.binaries.contents import Contents
from doctor.binaries.fact_records import (
    BROKEN,
    read_kernels,
    read_text,
    read_texts,
    read_version,
    write_kernels,
)
from doctor.binaries.linkage import Linkage


def to_record(contents: Contents) -> list[Any]:
    """JSON values, in the order in which `from_record` reads them."""
    link = contents.linkage
    return [
        [link.machine, link.soname, link.needed, link.rpath, link.runpath],
        [link.requires, link.provides, link.build_id],
        write_kernels(contents.kernels),
        [contents.gfx, contents.soc, contents.isa, contents.compression],
        [str(v or "") for v in (contents.glibc, contents.glibcxx, contents.toolkit)],
        [contents.sealed, contents.unreadable],
    ]


def from_record(record: Any) -> Optional[Contents]:
    """The contents, or None if the record is not one."""
    try:
        names, needs, kernels, code, versions, texts = record
        glibc, glibcxx, toolkit = map(read_version, versions)
        gfx, soc, isa, compression = map(read_texts, code)
        sealed, unreadable = map(read_text, texts)
        return Contents(
            _linkage(names, needs),
            glibc,
            glibcxx,
            read_kernels(kernels),
            gfx,
            soc,
            isa,
            compression,
            toolkit,
            sealed,
            unreadable,
        )
    except BROKEN:
        return None


def _linkage(names: Any, needs: Any) -> Linkage:
    machine, soname, needed, rpath, runpath = names
    requires, provides, build_id = needs
    return Linkage(
        read_text(machine),
        read_text(soname),
        read_texts(needed),
        read_texts(rpath),
        read_texts(runpath),
        tuple((read_text(library), read_texts(wanted)) for library, wanted in requires),
        read_texts(provides),
        read_text(build_id),
    )
