"""Find and load the matrix: compiled JSON if it is fresh, else compiled once into the cache."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from doctor.errors import MatrixError
from doctor.matrix.catalogue import DistroDomain, ImageDomain, NpuDomain, XidDomain
from doctor.matrix.model import (
    CauseDomain,
    CudaDomain,
    DriverDomain,
    EngineDomain,
    GpuDomain,
    SignatureDomain,
)
from doctor.matrix.query import Matrix

Domain = TypeVar("Domain")

DATA = Path(__file__).parent / "data"
COMPILED = Path(__file__).parent / "compiled"

# Domains that are not engines or frameworks; every other file is an EngineDomain.
SHAPES: dict[str, Any] = {
    "ascend-npus": NpuDomain,
    "causes": CauseDomain,
    "cuda": CudaDomain,
    "distros": DistroDomain,
    "drivers": DriverDomain,
    "gpus": GpuDomain,
    "images": ImageDomain,
    "signatures": SignatureDomain,
    "xid": XidDomain,
}


def engine_names(data: Path = DATA) -> tuple[str, ...]:
    """Names of the engine and framework domains, from the files that exist."""
    return tuple(sorted(p.stem for p in data.glob("*.yaml") if p.stem not in SHAPES))


def load_matrix(data: Path = DATA) -> Matrix:
    """Return the matrix; domains are read on first use."""
    return Matrix(lambda name: _load(name, data), engine_names(data))


def _load(name: str, data: Path) -> Any:
    shape = SHAPES.get(name, EngineDomain)
    source = data / f"{name}.yaml"
    try:
        digest = hashlib.sha256(source.read_bytes()).hexdigest()
    except OSError as fault:
        raise MatrixError(f"no matrix domain {name!r}: {fault}", "reinstall llm-doctor") from None
    for folder in (COMPILED, cache_folder()):
        payload = _fresh(folder / f"{name}.json", digest)
        if payload is not None:
            return _decode(payload, shape)
    return _decode(_compile_into_cache(name, source, shape, digest), shape)


def _decode(payload: bytes, shape: Any) -> Any:
    return msgspec.json.decode(payload, type=shape)


def cache_folder() -> Path:
    """The user's cache folder for compiled domains."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "llm-doctor" / "matrix"


def _fresh(path: Path, digest: str) -> bytes | None:
    """Payload of a compiled file if its first line is the digest of the source."""
    try:
        head, _, payload = path.read_bytes().partition(b"\n")
    except OSError:
        return None
    return payload if head == digest.encode() else None


def _compile_into_cache(name: str, source: Path, shape: Any, digest: str) -> bytes:
    from doctor.matrix.compile import compile_domain

    payload = compile_domain(source, shape)
    write_compiled(cache_folder() / f"{name}.json", payload, digest)
    return payload


def write_compiled(path: Path, payload: bytes, digest: str) -> None:
    """Write a compiled domain whole or not at all; an unwritable folder is no fault."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch.write_bytes(digest.encode() + b"\n" + payload)
        os.replace(scratch, path)
    except OSError:
        scratch.unlink(missing_ok=True)
