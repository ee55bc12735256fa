"""Find and load the matrix: compiled JSON if it is fresh, else compiled once into the cache."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from doctor.errors import MatrixError
from doctor.matrix.cache import cache_folder, read_compiled, write_compiled
from doctor.matrix.domains import SHAPES, shape_of
from doctor.matrix.learnt import learnt_files, with_learnt
from doctor.matrix.model import EngineDomain, EngineName, head_of
from doctor.matrix.overlay import overlaid, overlay_files
from doctor.matrix.query import Fingerprint, Matrix
from doctor.named_files import read_named

DATA = Path(__file__).parent / "data"
COMPILED = Path(__file__).parent / "compiled"
NAMES = "names.json"

_AS_OF = re.compile(rb"^as_of: *['\"]?(\d{4}-\d\d-\d\d)", re.MULTILINE)


def load_matrix(data: Path = DATA, overlays: Sequence[Path] = ()) -> Matrix:
    """Return the matrix; domains are read on first use.

    Releases that this user has learnt (`doctor matrix update`) are laid over the shipped ones.
    `overlays` are absolute paths of YAML files, or folders of them, whose rows add to
    the matrix or, on purpose, replace rows of it; later ones win.
    """
    # What was learnt belongs to the shipped matrix, not to another one.
    files = (*(learnt_files() if data == DATA else ()), *overlay_files(overlays))
    sources = (*sorted(data.glob("*.yaml")), *files)
    names = sorted({path.stem for path in sources if path.suffix == ".yaml"})
    return Matrix(
        lambda name: _read(name, data, files),
        tuple(name for name in names if name not in SHAPES),
        lambda: fingerprint(sources),
        tuple(name for name in names if name in SHAPES),
        lambda: _heads(sources, data, files),
    )


def fingerprint(sources: Sequence[Path]) -> Fingerprint:
    """Short digest and newest date of the files that a matrix is made of."""
    total = hashlib.sha256()
    newest = ""
    for path in sources:
        content = _bytes_of(path)
        total.update(f"{path.name} {hashlib.sha256(content).hexdigest()}\n".encode())
        stated = _AS_OF.search(content)
        newest = max(newest, stated[1].decode() if stated else "")
    return Fingerprint(version=total.hexdigest()[:12], as_of=newest)


def _read(name: str, data: Path, overlays: tuple[Path, ...]) -> Any:
    layers = list(_layers(name, data, overlays))
    if not layers:
        raise MatrixError(f"no matrix domain {name!r}", "reinstall llm-doctor")
    base = _domain(name, layers[0])
    for path in layers[1:]:
        is_learnt = path.suffix == ".json"
        base = with_learnt(base, path) if is_learnt else overlaid(base, _fresh(name, path), path)
    return base


def _heads(
    sources: Sequence[Path], data: Path, overlays: tuple[Path, ...]
) -> tuple[EngineName, ...]:
    """Names, aliases and packages of all engines, kept beside the compiled domains.

    Most checks only ask which package belongs to which engine; that must not cost the
    reading of every domain.
    """
    version = fingerprint(sources).version
    folder = cache_folder()
    kept = folder / NAMES if folder else None
    payload = read_compiled(COMPILED / NAMES, version)
    if payload is None and kept:
        payload = read_compiled(kept, version, own_only=True)
    with suppress(msgspec.MsgspecError):  # what another doctor kept
        if payload is not None:
            return msgspec.json.decode(payload, type=tuple[EngineName, ...])
    stems = {path.stem for path in sources if path.suffix == ".yaml"}
    names = sorted(stems - set(SHAPES))
    domains: list[EngineDomain] = [_read(name, data, overlays) for name in names]
    heads = tuple(map(head_of, domains))
    if kept:
        write_compiled(kept, msgspec.json.encode(heads), version)
    return heads


def _layers(name: str, data: Path, overlays: tuple[Path, ...]) -> Iterator[Path]:
    own = data / f"{name}.yaml"
    if own.exists():
        yield own
    yield from (path for path in overlays if path.stem == name)


def _domain(name: str, source: Path) -> Any:
    digest = hashlib.sha256(_bytes_of(source)).hexdigest()
    domain = _decoded(read_compiled(COMPILED / f"{name}.json", digest), name)
    if domain is not None:
        return domain
    folder = cache_folder()
    if folder is None:
        return _fresh(name, source)
    cached = folder / f"{name}.json"
    domain = _decoded(read_compiled(cached, digest, own_only=True), name)
    return _compiled(name, source, cached, digest) if domain is None else domain


def _decoded(payload: bytes | None, name: str) -> Any:
    """The domain, or None for a payload that an older or damaged version left behind."""
    try:
        return msgspec.json.decode(payload, type=shape_of(name)) if payload else None
    except msgspec.MsgspecError:
        return None


def _compiled(name: str, source: Path, cached: Path, digest: str) -> Any:
    from doctor.matrix.compile import compile_domain

    payload = compile_domain(source, shape_of(name))
    write_compiled(cached, payload, digest)
    return msgspec.json.decode(payload, type=shape_of(name))


def _fresh(name: str, source: Path) -> Any:
    """The domain compiled anew, and not kept."""
    from doctor.matrix.compile import compile_domain

    return msgspec.json.decode(compile_domain(source, shape_of(name)), type=shape_of(name))


def _bytes_of(path: Path) -> bytes:
    try:
        return read_named(path)
    except OSError as fault:
        raise MatrixError(f"cannot read {path}: {fault}", "reinstall llm-doctor") from None
