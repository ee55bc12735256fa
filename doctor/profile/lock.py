"""`stack.lock`: what a profile was resolved to, by version and hash. Host-independent.

It names no index, no path and no secret. The same resolution gives the same bytes, so that
a new lock differs from the old one only where something changed.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Any

import msgspec
import yaml
from msgspec import Meta, Struct

from doctor.errors import UsageError
from doctor.named_files import read_named, write_named

SCHEMA = "doctor/lock/v1"
SIZE_LIMIT = 8 << 20

Name = Annotated[str, Meta(pattern=r"^[a-z0-9]([a-z0-9._-]{0,98}[a-z0-9])?$")]
PackageVersion = Annotated[str, Meta(pattern=r"^[0-9A-Za-z][0-9A-Za-z.+!_-]{0,98}$")]
Sha256 = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")]
PythonMinor = Annotated[str, Meta(pattern=r"^3\.[0-9]{1,2}$")]
Platform = Annotated[str, Meta(pattern=r"^(x86_64|aarch64)-[a-z0-9_-]{1,40}$")]
Image = Annotated[str, Meta(pattern=r"^$|^[a-z0-9][\w./:-]{0,200}@sha256:[0-9a-f]{64}$")]
ImageTag = Annotated[str, Meta(pattern=r"^(\w[\w.-]{0,127})?$")]
ImageId = Annotated[str, Meta(pattern=r"^(sha256:[0-9a-f]{64})?$")]
ModelId = Annotated[str, Meta(pattern=r"^[\w.-]{1,96}(/[\w.-]{1,96})?$")]
Commit = Annotated[str, Meta(pattern=r"^[0-9a-f]{40}$")]
# No part of it leads out of the model's folder.
FileName = Annotated[
    str, Meta(pattern=r"^(?!.*(^|/)\.{1,2}(/|$))[^/\x00-\x1f\\][^\x00-\x1f\\]{0,400}$")
]
Index = Annotated[str, Meta(pattern=r"^$|^https://[\w.-]{1,200}(:[0-9]{1,5})?/[\w./+-]{0,200}$")]


class LockedPackage(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One distribution; any of its files with one of these hashes may be installed."""

    name: Name
    version: PackageVersion
    sha256: Annotated[tuple[Sha256, ...], Meta(min_length=1)]


class LockedFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file of a model, by its path in the repository; `size` in bytes."""

    name: FileName
    size: Annotated[int, Meta(ge=0)]
    sha256: Sha256


class LockedModel(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model of a hub: `wanted` is the revision that was asked for, `commit` what it was.

    `pick` are the patterns of the files that were asked for.
    """

    id: ModelId
    commit: Commit
    wanted: Annotated[str, Meta(max_length=100)] = ""
    pick: tuple[Annotated[str, Meta(max_length=200)], ...] = ()
    files: Annotated[tuple[LockedFile, ...], Meta(min_length=1)]


class Lock(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A resolved profile.

    `wanted` are the profile's requirements, `python` is the minor version and `platform` the
    architecture and libc that the packages were resolved for; `index` is asked beside the
    user's own. A profile of a container has `image`, by digest, in place of packages; `tag`
    is what led to it, `image_id` the digest of its configuration. `model` is one of a hub.
    """

    schema: str
    profile: Name
    engine: Name
    version: PackageVersion = ""
    python: PythonMinor | None = None
    platform: Platform | None = None
    index: Index = ""
    image: Image = ""
    tag: ImageTag = ""
    image_id: ImageId = ""
    model: LockedModel | None = None
    wanted: tuple[Annotated[str, Meta(max_length=600)], ...] = ()
    packages: tuple[LockedPackage, ...] = ()

    @property
    def digest(self) -> str:
        """A hash of the content, which names the release folder."""
        return hashlib.sha256(msgspec.json.encode(self, order="sorted")).hexdigest()

    @property
    def arch(self) -> str:
        """The architecture of packages or image, as uname gives it; "" if it is not stated."""
        return (self.platform or "").partition("-")[0]

    def package(self, name: str) -> LockedPackage | None:
        """The package of that name, or None."""
        return next((p for p in self.packages if p.name == name), None)


def requirements_text(lock: Lock) -> str:
    """The packages as a requirements file for `--require-hashes`."""
    lines = []
    for package in lock.packages:
        hashes = "".join(f" \\\n    --hash=sha256:{value}" for value in package.sha256)
        lines.append(f"{package.name}=={package.version}{hashes}\n")
    return "".join(lines)


def lock_text(lock: Lock) -> str:
    """The lock as YAML, always in the same order."""
    data = msgspec.to_builtins(lock)
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=100)


def parse_lock(text: str, name: str = "stack.lock") -> Lock:
    """Read a lock; raises UsageError with the place of the fault."""
    if len(text) > SIZE_LIMIT:
        raise UsageError(f"{name}: larger than {SIZE_LIMIT >> 20} MiB", "this is no lock")
    try:
        data = yaml.load(text, Loader=_TextLoader)  # noqa: S506 - text only
        lock = msgspec.convert(data, Lock, strict=False)
    except (msgspec.ValidationError, yaml.YAMLError, RecursionError, ValueError) as fault:
        where = " ".join(str(fault).split())[:300]
        raise UsageError(f"{name}: {where}", "make it again: doctor profile lock") from None
    if lock.schema != SCHEMA:
        raise UsageError(f"{name}: schema {lock.schema[:60]!r}", f"this doctor reads {SCHEMA}")
    return lock


def read_lock(path: Path) -> Lock:
    """Read a lock file; raises UsageError."""
    return parse_lock(read_lock_text(path, "doctor profile lock PROFILE"), str(path))


def read_lock_text(path: Path, made_by: str) -> str:
    """The text of a lock of any kind; raises UsageError, which names the command that makes one."""
    try:
        return read_named(path, SIZE_LIMIT + 1).decode("utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        raise UsageError(f"{path}: {fault}", f"make it: {made_by}") from None


def write_lock(path: Path, lock: Lock) -> bool:
    """Write a lock whole or not at all; False if the file says the same already."""
    text = lock_text(lock)
    try:
        if path.is_file() and read_named(path) == text.encode():
            return False
        write_named(path, text)
    except OSError as fault:
        raise UsageError(f"cannot write {path}: {fault.strerror}", "name a writable file") from None
    return True


_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _TextLoader(_Loader):  # type: ignore[misc]  # the base is chosen at run time
    """Every scalar is text, and a key that comes twice is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[object, object]:
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.YAMLError(f"line {key.start_mark.line + 1}: a key that is no text")
            if key.value in seen:
                raise yaml.YAMLError(f"line {key.start_mark.line + 1}: {key.value!r} comes twice")
            seen.add(key.value)
        found: dict[object, object] = super().construct_mapping(node, deep)
        return found


_TextLoader.yaml_implicit_resolvers = {}
