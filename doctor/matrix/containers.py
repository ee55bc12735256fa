"""How engines run in containers: rows of the domain `containers`."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field

from doctor.matrix.model import Row


class ContainerRun(Row, frozen=True, kw_only=True):
    """How an engine is started in its images.

    Programs are looked for along the image's PATH, {python} as `python`; `command` replaces the
    words of its launch where images differ. With `keeps_entrypoint` the words follow the image's
    own entry point. `shm_gib` is the /dev/shm that it needs, `read_only` whether it can do
    without writing to its own files, `env` what is set in it. `probe` is the program in the
    image that asks {url} for health, where it has no Python. `user` is the number that it must
    run as, "" for any; with `init` it must not be the first process.
    """

    engine: str
    python: str = "python3"
    command: tuple[str, ...] = ()
    keeps_entrypoint: bool = False
    shm_gib: float = 1
    read_only: bool = True
    env: dict[str, str] = field(default_factory=dict)
    probe: tuple[str, ...] = ()
    user: str = ""
    init: bool = False


class DeviceAccess(Row, frozen=True, kw_only=True):
    """What lets a container see devices of a vendor, by the engine that runs it.

    `options` always; then `every` for all devices, `counted` for the first {count}, or
    `chosen` for {ids} of a list, else `each` once for every {id}. What is empty cannot be
    asked for. `mounts` are paths of the host that are shown read-only if they are there.
    `resource` is what Kubernetes calls one device of the vendor's plug-in. The row holds where
    the container engine has `runtime`, "" for everywhere; `group_of` is a device whose group
    the engine must be in.
    """

    vendor: str
    program: str
    runtime: str = ""
    options: tuple[str, ...] = ()
    every: tuple[str, ...] = ()
    counted: tuple[str, ...] = ()
    chosen: tuple[str, ...] = ()
    each: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    resource: str = ""
    group_of: str = ""


class EnginePackages(Row, frozen=True, kw_only=True):
    """What brings a container engine from a distribution (`systems`: ids of os-release).

    `program` is docker or podman and `path` its client, `service` the unit that must run, ""
    for none; `versions` are those of VERSION_ID that the row is for, none for all.
    """

    program: str
    systems: tuple[str, ...]
    packages: tuple[str, ...]
    path: str
    service: str = ""
    versions: tuple[str, ...] = ()


class ContainerDomain(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Engines in containers."""

    as_of: str
    runs: tuple[ContainerRun, ...] = ()
    accesses: tuple[DeviceAccess, ...] = ()
    engine_packages: tuple[EnginePackages, ...] = ()

    def run_of(self, engine: str) -> ContainerRun | None:
        """How an engine is started in its images, or None if that is not known."""
        return next((row for row in self.runs if row.engine == engine), None)

    def access_of(
        self, vendor: str, program: str, runtimes: Iterable[str] = ()
    ) -> DeviceAccess | None:
        """What shows devices of a vendor to containers of a program, or None.

        A way of one of the `runtimes` that the program has comes first.
        """
        there = {"", *runtimes}
        wanted = (vendor, program)
        rows = [r for r in self.accesses if (r.vendor, r.program) == wanted and r.runtime in there]
        return max(rows, key=lambda row: bool(row.runtime), default=None)

    def paths_of(self, vendor: str) -> tuple[str, ...]:
        """Paths of the host that its rows speak of: devices with a group, and what is mounted."""
        rows = [row for row in self.accesses if row.vendor == vendor]
        found = [p for row in rows for p in (row.group_of, *row.mounts) if p]
        return tuple(dict.fromkeys(found))

    def packages_for(self, families: Iterable[str], version: str) -> EnginePackages | None:
        """What to install, by the ids of a system, its own before those it is like."""
        for family in families:
            for row in self.engine_packages:
                if family in row.systems and (not row.versions or version in row.versions):
                    return row
        return None
