"""Recipes: one folder of images/ an engine, with a Containerfile and what describes it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import yaml
from msgspec import Meta, Struct

from doctor.errors import UsageError
from doctor.profile.lock import Lock, read_lock
from doctor.resources import PACKAGE, resource

SCHEMA = "doctor/image/v1"
FOLDER = "images"
_COMMON = "common"

Name = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9.-]{0,60}\Z")]


class SystemPackage(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A package of Debian, by its path on a mirror and its hash."""

    name: Name
    path: Annotated[str, Meta(pattern=r"^pool/[\w/%+~][\w./%+~-]{1,300}\.deb\Z")]
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]


class Spec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """image.yaml: what is built, from which base by tag, and how it is asked.

    `content` is "wheels" for packages held to a lock, "vendor" for an image as its maker
    publishes it; `head` names the file of common/ with which its Containerfile begins.
    `programs` are files that go into /opt/doctor, `packages` what the wheels need
    of the system and the base lacks; `python` and `platform` are what a lock is to be for.
    `built_here` tells that the project has built and run it.
    """

    schema: Literal["doctor/image/v1"]
    name: Name
    description: str
    engine: Name
    base: str
    content: Literal["wheels", "vendor"]
    head: Literal["wheels", "vendor", ""] = ""
    port: int
    profile: str = ""
    built_here: bool = False
    programs: tuple[str, ...] = ()
    packages: tuple[SystemPackage, ...] = ()
    python: str = ""
    platform: str = ""


@dataclass(frozen=True)
class Recipe:
    """One folder of images/; `other` is a lock in place of its own."""

    spec: Spec
    folder: Path
    other: Lock | None = None

    @cached_property
    def lock(self) -> Lock | None:
        """The lock of its packages, None if it has none of its own. Raises UsageError."""
        path = self.folder / "stack.lock"
        return self.other or (read_lock(path) if path.is_file() else None)

    @property
    def containerfile(self) -> str:
        """The text that builders read: what recipes of its kind begin with, then its own."""
        head = f"{self.spec.head}.Containerfile"
        paths = [resource(FOLDER, _COMMON, head)] if self.spec.head else []
        paths.append(self.folder / "Containerfile")
        return "".join(path.read_text(encoding="utf-8") for path in paths)

    @property
    def programs(self) -> dict[str, bytes]:
        """Files for /opt/doctor by name: the health check and those of the recipe."""
        paths = [resource(FOLDER, _COMMON, "health.py"), *map(_shipped, self.spec.programs)]
        return {path.name: path.read_bytes() for path in paths}

    @property
    def revision(self) -> str:
        """A hash of everything that the recipe itself puts into the image."""
        digest = hashlib.sha256(self.containerfile.encode())
        for name, data in sorted(self.programs.items()):
            digest.update(f"\0{name}\0".encode() + data)
        digest.update("".join(package.sha256 for package in self.spec.packages).encode())
        return digest.hexdigest()


def recipe_names() -> tuple[str, ...]:
    """Names of all recipes."""
    folder = resource(FOLDER)
    return tuple(sorted(path.parent.name for path in folder.glob("*/image.yaml")))


def read_recipe(name: str) -> Recipe:
    """The recipe of that name; raises UsageError, with the names that there are."""
    if name not in recipe_names():
        raise UsageError(f"no image {name[:60]!r}", f"one of {', '.join(recipe_names())}")
    folder = resource(FOLDER, name)
    try:
        data = yaml.safe_load((folder / "image.yaml").read_text(encoding="utf-8"))
        spec = msgspec.convert(data, Spec, strict=False)
    except (msgspec.ValidationError, yaml.YAMLError) as fault:
        raise UsageError(f"images/{name}/image.yaml: {fault}", "reinstall llm-doctor") from None
    return Recipe(spec, folder)


def reference_of(name: str) -> str:
    """The base of a recipe; anything else is taken as a reference itself."""
    return read_recipe(name).spec.base if name in recipe_names() else name


def pip_requirement() -> str:
    """The pip that installs the packages, held to its hash; it is no part of the image."""
    return resource(FOLDER, _COMMON, "pip.txt").read_text(encoding="utf-8")


def _shipped(path: str) -> Path:
    """A file of this package or of images/, by its path from the top of the repository."""
    first, _, rest = path.partition("/")
    return resource(*path.split("/")) if first == FOLDER else PACKAGE / rest
