"""`hosts/<id>.lock`: the driver of one machine by name, version, sha256 and origin.

Made from what a plan chose, or from what was applied; the same set gives the same bytes. It
names no index and no host, so that a fleet of equal machines can share one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec
import yaml
from msgspec import Meta, Struct

from doctor.errors import UsageError
from doctor.named_files import write_named
from doctor.profile.lock import read_lock_text
from doctor.provision.driver.sets import DriverSet, Package

SCHEMA: Literal["doctor/host-lock/v1"] = "doctor/host-lock/v1"
SIZE_LIMIT = 4 << 20
MADE_BY = "doctor plan PROFILE --driver --write-lock FILE"

Name = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9+.-]{0,120}\Z")]
DebVersion = Annotated[str, Meta(pattern=r"^[0-9A-Za-z][0-9A-Za-z.+:~-]{0,120}\Z")]
Arch = Annotated[str, Meta(pattern=r"^[a-z0-9_-]{1,30}\Z")]
Sha256 = Annotated[str, Meta(pattern=r"^([0-9a-f]{64})?\Z")]
Place = Annotated[str, Meta(pattern=r"^[\w./+~:%-]{0,400}\Z")]


class LockedFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One package: its file by sha256 and size, and its place in the repository it came from."""

    name: Name
    version: DebVersion
    arch: Arch
    sha256: Sha256 = ""
    size: Annotated[int, Meta(ge=0)] = 0
    source: Annotated[str, Meta(pattern=r"^[a-z0-9+.-]{0,120}\Z")] = ""
    origin: Place = ""


class HostLock(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The set of a machine's driver; `needs` are packages that it brings along."""

    schema: Literal["doctor/host-lock/v1"]
    scheme: Name
    branch: Annotated[int, Meta(ge=0, le=9999)]
    modules: Literal["open", "proprietary"]
    version: DebVersion
    packages: Annotated[tuple[LockedFile, ...], Meta(min_length=1, max_length=500)]
    needs: Annotated[tuple[LockedFile, ...], Meta(max_length=500)] = ()
    absent: Annotated[tuple[Name, ...], Meta(max_length=500)] = ()
    holds: Annotated[tuple[Name, ...], Meta(max_length=500)] = ()
    builds: bool = False
    units: Annotated[tuple[Annotated[str, Meta(max_length=100)], ...], Meta(max_length=20)] = ()


def host_lock_text(wanted: DriverSet) -> str:
    """A driver's set as YAML, always in the same order."""
    lock = HostLock(
        schema=SCHEMA,
        scheme=wanted.scheme,
        branch=wanted.branch,
        modules="open" if wanted.modules == "open" else "proprietary",
        version=wanted.version,
        packages=tuple(map(_file, wanted.packages)),
        needs=tuple(map(_file, wanted.needs)),
        absent=wanted.absent,
        holds=wanted.holds,
        builds=wanted.builds,
        units=wanted.units,
    )
    return yaml.safe_dump(msgspec.to_builtins(lock), sort_keys=False, width=100)


def _file(package: Package) -> LockedFile:
    return msgspec.convert(msgspec.to_builtins(package), LockedFile)


def parse_host_lock(text: str, name: str) -> DriverSet:
    """Read a host's lock; raises UsageError with the place of the fault."""
    if len(text) > SIZE_LIMIT:
        raise UsageError(f"{name}: larger than {SIZE_LIMIT >> 20} MiB", "this is no host's lock")
    try:
        data = yaml.load(text, Loader=yaml.CBaseLoader)  # noqa: S506 - makes texts only
        lock = msgspec.convert(data, HostLock, strict=False)
    except (msgspec.ValidationError, yaml.YAMLError, RecursionError, ValueError) as fault:
        where = " ".join(str(fault).split())[:300]
        raise UsageError(f"{name}: {where}", f"make it: {MADE_BY}") from None
    kept = {k: v for k, v in msgspec.to_builtins(lock).items() if k != "schema"}
    return msgspec.convert(kept, DriverSet)


def read_host_lock(path: Path) -> DriverSet:
    """Read a host's lock file; raises UsageError."""
    return parse_host_lock(read_lock_text(path, MADE_BY), str(path))


def write_host_lock(path: Path, wanted: DriverSet) -> None:
    """Write a lock whole or not at all; its folder is made if it is not there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_named(path, host_lock_text(wanted))
    except OSError as fault:
        raise UsageError(f"cannot write {path}: {fault.strerror}", "name a writable file") from None
