"""A project's page on a package index: the files that it lists (PEP 691)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin

PAGE_LIMIT, METADATA_LIMIT = 64 << 20, 4 << 20


class NotFetched(Exception):  # noqa: N818 - an answer about one file, not a failure of the work
    """One thing could not be had; the rest of the work goes on."""


@dataclass(frozen=True)
class IndexFile:
    """One file of a project, as the index lists it."""

    name: str
    url: str
    sha256: str = ""
    size: int | None = None
    requires_python: str = ""
    uploaded: str = ""
    yanked: bool = False
    metadata: str | None = None


def listed(body: bytes, base: str) -> Iterator[IndexFile]:
    """Files of a JSON page (PEP 691); what is not of its form is left out."""
    try:
        page = json.loads(body)
        files = page["files"]
    except (ValueError, KeyError, TypeError, RecursionError):
        files = None
    if not isinstance(files, list):
        raise NotFetched("the index's page is not one of a package index")
    for entry in files:
        if isinstance(entry, dict) and isinstance(entry.get("filename"), str):
            yield _file(entry, base)


def _file(entry: dict[str, Any], base: str) -> IndexFile:
    hashes = entry.get("hashes")
    size = entry.get("size")
    return IndexFile(
        name=entry["filename"],
        url=joined(base, str(entry.get("url") or "")),
        sha256=_sha256(hashes),
        size=size if isinstance(size, int) and size > 0 else None,
        requires_python=str(entry.get("requires-python") or "")[:200],
        uploaded=str(entry.get("upload-time") or "")[:10],
        yanked=bool(entry.get("yanked")),
        metadata=_announced(entry.get("core-metadata", entry.get("dist-info-metadata"))),
    )


def joined(base: str, url: str) -> str:
    """The address that a page means; "" for what is none."""
    try:
        return urljoin(base, url)
    except ValueError:
        return ""


def _sha256(hashes: Any) -> str:
    found = str(hashes.get("sha256", "")) if isinstance(hashes, dict) else ""
    return found if len(found) == 64 and all(c in "0123456789abcdef" for c in found) else ""


def _announced(value: Any) -> str | None:
    """The hash of the metadata file, "" if it is announced without one, None if it is not."""
    if isinstance(value, dict):
        return _sha256(value)
    return "" if value is True else None
