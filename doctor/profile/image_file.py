"""An image in one file, by its digest: fetched from its registry, told from any other.

The file is a tar that is an OCI layout and, beside it, what `docker save` writes, so that old
and new container engines load it. Every byte of it but the layers follows from the manifest,
whose digest is locked: no other file passes, and nothing of it has to be interpreted.
Source: OCI image layout specification; Docker image specification v1.2 (manifest.json).
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import re
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO

from doctor.errors import RemoteError, UsageError
from doctor.profile.registry import Reference, Repository, parse_reference

FOLDER = "images"
_BLOCK, _CHUNK, _SMALL, _TRIES = 512, 1 << 20, 4 << 20, 3
_MOST_LAYERS, _MOST_BYTES = 1000, 1 << 40
_END = bytes(2 * _BLOCK)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_AGAIN = "make it again: doctor profile lock --download"
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Part:
    """The configuration or a layer: its digest and its size in bytes."""

    digest: str
    size: int

    @property
    def path(self) -> str:
        """Its place in the file."""
        return f"blobs/{self.digest.replace(':', '/')}"


@dataclass(frozen=True)
class ImageFile:
    """What a file holds: `id` is the digest of the configuration, by which engines know it."""

    path: Path
    id: str


def image_path(image: str, folder: Path) -> Path:
    """Where an image, NAME@sha256:..., lies in a folder that is carried."""
    name = image.partition("@")[0].rpartition("/")[2].partition(":")[0]
    return folder / FOLDER / f"{name}-{image.rpartition(':')[2][:12]}.tar"


def fetch_image(image: str, folder: Path, progress: Progress = lambda *_: None) -> ImageFile:
    """Fetch an image, NAME@sha256:..., unless it lies there whole.

    `progress` is told a layer, bytes and size. Raises RemoteError, or UsageError.
    """
    path = image_path(image, folder)
    if path.is_file():
        return read_image_file(path, image, deep=True)
    part = path.with_name(f"{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            _write(file, parse_reference(image), progress)
        os.replace(part, path)
    except OSError as fault:
        raise UsageError(
            f"cannot keep {image} in {folder}: {fault.strerror}", "make room"
        ) from None
    finally:
        part.unlink(missing_ok=True)
    return read_image_file(path, image)


def read_image_file(path: Path, image: str, deep: bool = False) -> ImageFile:
    """Hold a file against the digest of an image; with `deep` every byte, else all but layers.

    Raises UsageError for a file that is not just that image.
    """
    try:
        with path.open("rb") as file:
            return _read(path, file, image, deep)
    except OSError as fault:
        raise UsageError(f"{path}: {fault.strerror}", _AGAIN) from None


def _write(file: BinaryIO, reference: Reference, progress: Progress) -> None:
    door = Repository(reference)
    manifest = door.manifest_bytes(reference.digest)
    config, layers = _parts(manifest, reference)
    small = [(Part(reference.digest, len(manifest)).path, manifest)]
    small += [(config.path, door.blob_bytes(config.digest))]
    for name, data in (*small, *_index(manifest, reference)):
        file.write(_member(name, data))
    for layer in layers:
        file.write(_header(layer.path, layer.size))
        _pour(door, layer, file, progress)
        file.write(bytes(-layer.size % _BLOCK))
    file.write(_END)


def _read(path: Path, file: BinaryIO, image: str, deep: bool) -> ImageFile:
    reference = parse_reference(image)
    other = UsageError(f"{path} is not {image}, or it is damaged: it is not used", _AGAIN)
    size = _size_of(file.read(_BLOCK))
    file.seek(0)
    manifest = _taken(file, Part(reference.digest, size))
    if manifest is None:
        raise other
    config, layers = _parts(manifest, reference)
    good = _taken(file, config) is not None
    for name, data in _index(manifest, reference):
        whole = _member(name, data)
        good = good and file.read(len(whole)) == whole
    good = good and all(_passes(file, layer, deep) for layer in layers)
    if not good or file.read(len(_END) + 1) != _END:
        raise other
    return ImageFile(path, config.digest)


def _parts(manifest: bytes, reference: Reference) -> tuple[Part, tuple[Part, ...]]:
    """The configuration and the layers, each once. Raises UsageError for what is no image."""
    try:
        stated = json.loads(manifest)
        if "manifests" in stated:
            raise UsageError(
                f"{reference.name}@{reference.digest} is a list of images by platform",
                f"name the one that is meant: doctor profile lock, with {reference.name}:TAG",
            )
        config, *layers = (
            Part(row["digest"], row["size"]) for row in (stated["config"], *stated["layers"])
        )
        usable = config.size <= _SMALL and len(layers) <= _MOST_LAYERS
        usable = usable and all(
            _DIGEST.fullmatch(part.digest) and 0 <= part.size <= _MOST_BYTES
            for part in (config, *layers)
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        usable = False
    if not usable:
        raise UsageError(f"{reference.name}@{reference.digest} is no image", "is the name right?")
    return config, tuple(dict.fromkeys(layers))


def _index(manifest: bytes, reference: Reference) -> Iterator[tuple[str, bytes]]:
    """What makes an OCI layout of the parts, and what `docker save` puts beside them.

    The name is one that no registry gave: a tag that is there is not moved.
    """
    stated, tag = json.loads(manifest), reference.digest.replace(":", "-")
    name = f"{reference.registry}/{reference.repository}:{tag}"
    row = {
        "mediaType": stated.get("mediaType") or _MANIFEST,
        "digest": reference.digest,
        "size": len(manifest),
        "annotations": {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": tag},
    }
    saved = {
        "Config": Part(stated["config"]["digest"], 0).path,
        "RepoTags": [name],
        "Layers": [Part(layer["digest"], 0).path for layer in stated["layers"]],
    }
    yield "oci-layout", b'{"imageLayoutVersion": "1.0.0"}'
    yield "index.json", json.dumps({"schemaVersion": 2, "manifests": [row]}).encode()
    yield "manifest.json", json.dumps([saved]).encode()


def _pour(door: Repository, layer: Part, file: BinaryIO, progress: Progress) -> None:
    """A layer of a registry, taken up where it was cut off. Raises RemoteError."""
    start, digest = file.tell(), hashlib.sha256()
    for left in reversed(range(_TRIES)):
        try:
            have = file.tell() - start
            with door.content(layer.digest, have) as reply:
                if have and reply.status == 200:
                    # This registry does not know of ranges.
                    file.seek(start)
                    digest = hashlib.sha256()
                for block in _blocks(reply.stream, layer.size - (file.tell() - start)):
                    file.write(block)
                    digest.update(block)
                    progress(layer.digest, file.tell() - start, layer.size)
            if file.tell() - start == layer.size:
                break
            raise RemoteError(
                f"{layer.digest}: cut off at {file.tell() - start} bytes", "try again"
            )
        except RemoteError:
            if not left:
                raise
    if f"sha256:{digest.hexdigest()}" != layer.digest:
        raise RemoteError(f"{layer.digest}: the registry sends something else", "do not use it")


def _blocks(stream: IO[bytes], left: int) -> Iterator[bytes]:
    """No more than the size that is stated, whatever comes."""
    while left:
        try:
            block = stream.read(min(_CHUNK, left))
        except (OSError, http.client.HTTPException) as fault:
            raise RemoteError(f"cut off: {fault}", "try again") from None
        if not block:
            return
        left -= len(block)
        yield block


def _header(name: str, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size = size
    return info.tobuf(tarfile.GNU_FORMAT)


def _member(name: str, data: bytes) -> bytes:
    return _header(name, len(data)) + data + bytes(-len(data) % _BLOCK)


def _size_of(header: bytes) -> int:
    """The size that a header states; 0 for what is none."""
    text = header[124:135]
    return int(text, 8) if re.fullmatch(rb"[0-7]{11}", text) else 0


def _taken(file: BinaryIO, part: Part) -> bytes | None:
    """A small part with that very header, whole; None if it is another."""
    header = _header(part.path, part.size)
    if part.size > _SMALL or file.read(_BLOCK) != header:
        return None
    data = file.read(part.size)
    is_right = f"sha256:{hashlib.sha256(data).hexdigest()}" == part.digest
    return data if is_right and not any(file.read(-part.size % _BLOCK)) else None


def _passes(file: BinaryIO, layer: Part, deep: bool) -> bool:
    if file.read(_BLOCK) != _header(layer.path, layer.size):
        return False
    if not deep:
        file.seek(layer.size, os.SEEK_CUR)
        return not any(file.read(-layer.size % _BLOCK))
    digest = hashlib.sha256()
    for block in _blocks(file, layer.size):
        digest.update(block)
    is_right = f"sha256:{digest.hexdigest()}" == layer.digest
    return is_right and not any(file.read(-layer.size % _BLOCK))
