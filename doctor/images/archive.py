"""Images in files: what `docker save` writes, an OCI layout, or the plain tar of a file system.

Source: OCI image layout specification; Docker image specification v1.2 (manifest.json).
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from doctor.errors import UsageError
from doctor.images.config import ImageConfig, parse_config
from doctor.images.streams import Slice, packed_by
from doctor.images.tar import Kind, Stream, TarReader
from doctor.named_files import open_named

_MAX_JSON = 8 << 20
_MOST_MEMBERS = 10_000
_MOST_LAYERS = 1000
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_BLOB = re.compile(r"blobs/sha256/([0-9a-f]{64})")
_MAGIC = 6
_WANTED = "name an image, a file of docker save, or the folder of an OCI layout"
_ARCHS = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class Layers:
    """An image that was opened: its configuration and its layers from the lowest up."""

    config: ImageConfig
    streams: tuple[Stream, ...]


class Blobs(Protocol):
    """Files of an archive or folder by name."""

    def open(self, name: str) -> Slice | None:
        """The file, or None."""


class TarBlobs:
    """Files of a tar archive; links are followed once, as older `docker save` writes them."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._places: dict[str, tuple[int, int]] = {}
        self._links: dict[str, str] = {}
        size = os.fstat(file.fileno()).st_size
        stream = Slice(file, 0, size)
        for member in TarReader(stream):
            name = os.path.normpath(member.name)
            if member.kind is Kind.FILE:
                self._places[name] = (stream.position, member.size)
            elif member.kind is Kind.LINK:
                self._links[name] = os.path.normpath(f"{os.path.dirname(name)}/{member.target}")
            if len(self._places) > _MOST_MEMBERS:
                return

    def open(self, name: str) -> Slice | None:
        """The member of that name, or None."""
        found = self._places.get(self._links.get(name, name))
        return Slice(self._file, *found) if found else None


class FolderBlobs:
    """Files of an OCI layout in a folder."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack

    def open(self, name: str) -> Slice | None:
        """The file of that name, or None; names are those of the format, never with `..`."""
        try:
            file = self._stack.enter_context(open_named(self._folder / name))
        except OSError:
            return None
        return Slice(file, 0, os.fstat(file.fileno()).st_size)


def open_archive(path: str, stack: ExitStack) -> Layers:
    """Open what a person named; raises UsageError for what holds no image."""
    if os.path.isdir(path):
        if not os.path.isfile(os.path.join(path, "index.json")):
            raise UsageError(f"{path} is a folder without index.json", _WANTED)
        return _oci(FolderBlobs(Path(path), stack), path)
    try:
        file = stack.enter_context(open_named(path))
    except OSError as fault:
        raise UsageError(f"{path}: {fault.strerror}", _WANTED) from None
    _expect_open(file.read(_MAGIC), path)
    blobs = TarBlobs(file)
    if blobs.open("manifest.json"):
        return _saved(blobs, path)
    if blobs.open("index.json"):
        return _oci(blobs, path)
    whole = Slice(file, 0, os.fstat(file.fileno()).st_size)
    return Layers(ImageConfig(ref=path), (whole,))


def _expect_open(first: bytes, path: str) -> None:
    if not first:
        raise UsageError(f"{path} is empty", "save it again: docker save -o image.tar IMAGE")
    tool = packed_by(first)
    if tool:
        raise UsageError(f"{path} is packed", f"{tool.unpack} {path}, and name the tar file")


def _saved(blobs: Blobs, path: str) -> Layers:
    """What `docker save` writes: one entry per image."""
    listed = _json(blobs, "manifest.json", path)
    if not isinstance(listed, list) or len(listed) != 1 or not isinstance(listed[0], dict):
        many = len(listed) if isinstance(listed, list) else 0
        raise UsageError(f"{path} holds {many} images", "save one image a file")
    entry = listed[0]
    tags, layers = entry.get("RepoTags"), entry.get("Layers")
    tag = next((tag for tag in tags if isinstance(tag, str)), "") if isinstance(tags, list) else ""
    name = str(entry.get("Config", ""))
    data = _bytes(blobs, name)
    stated = _parsed(data, name, path)
    config = parse_config(stated, tag or path, _digest(data))
    names = [str(name) for name in layers] if isinstance(layers, list) else []
    return Layers(config, tuple(_layers(blobs, names, path)))


def _oci(blobs: Blobs, path: str) -> Layers:
    """An OCI layout: index.json, perhaps further indexes, a manifest, blobs."""
    index, digest = _json(blobs, "index.json", path), ""
    for _ in range(4):
        if not isinstance(index, dict) or "manifests" not in index:
            break
        digest = _chosen(index.get("manifests"), path)
        index = _json(blobs, _blob(digest, path), path)
    if not isinstance(index, dict) or not isinstance(index.get("config"), dict):
        raise UsageError(f"{path} is no OCI layout", "name the folder with index.json in it")
    identity = str(index["config"].get("digest", ""))
    config = parse_config(_json(blobs, _blob(identity, path), path), path, identity, digest)
    layers = index.get("layers")
    rows = [row for row in layers if isinstance(row, dict)] if isinstance(layers, list) else []
    names = [_blob(str(row.get("digest", "")), path) for row in rows]
    return Layers(config, tuple(_layers(blobs, names, path)))


def _chosen(manifests: Any, path: str) -> str:
    """The manifest for this machine's architecture, else the first that is an image.

    Raises UsageError where images of several names lie side by side.
    """
    rows = [m for m in manifests if isinstance(m, dict)] if isinstance(manifests, list) else []
    names = {str(row.get("digest")): _name_of(row) for row in rows if _name_of(row)}
    if len(names) > 1:
        some = ", ".join(sorted(names.values()))[:200]
        raise UsageError(f"{path} holds {len(names)} images: {some}", "save one image a file")
    machine = _ARCHS.get(platform.machine(), platform.machine())

    def rank(row: dict[str, Any]) -> int:
        stated = row.get("platform")
        arch = stated.get("architecture") if isinstance(stated, dict) else None
        return 0 if arch == machine else 2 if arch == "unknown" else 1

    if not rows:
        raise UsageError(f"{path} holds no image", "name an archive with one image")
    return str(min(rows, key=rank).get("digest", ""))


def _name_of(row: dict[str, Any]) -> str:
    stated = row.get("annotations")
    name = stated.get("org.opencontainers.image.ref.name") if isinstance(stated, dict) else ""
    return name if isinstance(name, str) else ""


def _layers(blobs: Blobs, names: list[str], path: str) -> Iterator[Stream]:
    if len(names) > _MOST_LAYERS:
        raise UsageError(f"{path} has {len(names)} layers", "no engine stacks that many")
    for name in names:
        layer = blobs.open(os.path.normpath(name)) if _is_inside(name) else None
        if layer is None:
            raise UsageError(f"{path} lacks its layer {name[:100]}", "save the image again")
        yield layer


def _json(blobs: Blobs, name: str, path: str) -> Any:
    """A document; one that lies under its digest must have it."""
    data = _bytes(blobs, name)
    match = _BLOB.fullmatch(name)
    if match and data and _digest(data) != f"sha256:{match[1]}":
        raise UsageError(f"{path}: {name} is not what its name says", "do not use it")
    return _parsed(data, name, path)


def _bytes(blobs: Blobs, name: str) -> bytes:
    file = blobs.open(os.path.normpath(name)) if _is_inside(name) else None
    return file.read(_MAX_JSON) if file else b""


def _parsed(data: bytes, name: str, path: str) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise UsageError(f"{path}: {name[:100]} is missing or no JSON", "save it again") from None


def _is_inside(name: str) -> bool:
    return bool(name) and not name.startswith("/") and ".." not in name.split("/")


def _blob(digest: str, path: str) -> str:
    match = _DIGEST.fullmatch(digest)
    if match is None:
        raise UsageError(f"{path} names a blob {digest[:80]!r}", "only sha256 digests are read")
    return f"blobs/sha256/{match[1]}"


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
