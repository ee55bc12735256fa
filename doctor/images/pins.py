"""images.lock: which digest each base's tag led to when it was pinned."""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
import yaml
from msgspec import Meta, Struct

from doctor.errors import UsageError
from doctor.images.recipe import Recipe
from doctor.named_files import read_named, write_named

SCHEMA = "doctor/image-pins/v1"
_LIMIT = 1 << 20
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_BY_DIGEST = re.compile(r"[a-z0-9][\w.:/-]{0,200}@sha256:[0-9a-f]{64}|sha256:[0-9a-f]{64}")

Digest = Annotated[str, Meta(pattern=r"^sha256:[0-9a-f]{64}\Z")]


class Pins(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Digests by reference and architecture ("python:3.11-slim linux/x86_64")."""

    schema: str = SCHEMA
    images: dict[str, Digest] = {}


@dataclass(frozen=True)
class Pin:
    """One reference as it was pinned; `before` is another digest that the lock held, or ""."""

    reference: str
    digest: str
    before: str = ""

    @property
    def is_moved(self) -> bool:
        """True if somebody published the tag again."""
        return bool(self.before) and self.before != self.digest


def read_pins(path: str) -> Pins:
    """Read a lock; an absent one is empty. Raises UsageError for one that is broken."""
    try:
        text = read_named(path, _LIMIT).decode("utf-8")
        data = yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe one
        pins = msgspec.convert(data, Pins)
    except FileNotFoundError:
        return Pins()
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as fault:
        raise UsageError(f"{path}: {fault}", "make it again: doctor image pin NAME") from None
    if pins.schema != SCHEMA:
        raise UsageError(f"{path}: schema {pins.schema[:60]!r}", f"this doctor reads {SCHEMA}")
    return pins


def pin(references: tuple[str, ...], path: str, arch: str = "") -> tuple[Pin, ...]:
    """Ask the registries where the tags lead today and write it down.

    Raises RemoteError where a registry does not answer, UsageError for a bad name or lock.
    """
    from doctor.profile.registry import pin_image

    machine, known = arch or platform.machine(), read_pins(path).images
    done = []
    for reference in references:
        digest = pin_image(reference, machine).image.partition("@")[2]
        done.append(Pin(reference, digest, known.get(_key(reference, machine), "")))
    new = {_key(item.reference, machine): item.digest for item in done}
    data = msgspec.to_builtins(Pins(images=dict(sorted({**known, **new}.items()))))
    try:
        write_named(Path(path), yaml.safe_dump(data, sort_keys=False, width=200))
    except OSError as fault:
        raise UsageError(f"cannot write {path}: {fault.strerror}", "name another file") from None
    return tuple(done)


def pinned_base(recipe: Recipe, named: str, path: str, arch: str = "") -> str:
    """The base by digest: the one named, else that of the lock. Raises UsageError without one."""
    if named:
        if _BY_DIGEST.fullmatch(named):
            return named
        raise UsageError(f"--base {named[:120]!r} names no digest", "write NAME@sha256:...")
    reference = recipe.spec.base
    digest = read_pins(path).images.get(_key(reference, arch or platform.machine())) if path else ""
    if digest:
        return f"{_untagged(reference)}@{digest}"
    raise UsageError(
        f"the base {reference} of {recipe.spec.name} is not pinned: a tag may be published again",
        f"doctor image pin {recipe.spec.name} -o images.lock, then build with --pins images.lock",
    )


def _key(reference: str, arch: str) -> str:
    return f"{reference} linux/{arch}"


def _untagged(reference: str) -> str:
    head, slash, name = reference.rpartition("/")
    return f"{head}{slash}{name.partition(':')[0]}"
