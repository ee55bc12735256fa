"""The software of NPUs as data: what shall be, what is there. Part of goals and states."""

from __future__ import annotations

from msgspec import Struct, field

from doctor.facts import Version

NAME = "ascend-driver"
HOME = "/opt/doctor/ascend-driver"
DRIVER, FIRMWARE, RUNTIME = "driver", "firmware", "runtime"
CANN = ("toolkit", "ops", "nnal")
# In the order in which they go in, but for driver and firmware of a machine that has some.
KINDS = (DRIVER, FIRMWARE, *CANN, RUNTIME)
# The machine itself tells their versions; of the others doctor notes what it has installed.
SEEN = (DRIVER, FIRMWARE, "toolkit")


class NpuPart(Struct, frozen=True, kw_only=True):
    """One part at a version; `path` is its installer's, "" for what was there before."""

    kind: str
    version: str
    path: str = ""
    sha256: str = ""


class NpuSet(Struct, frozen=True, kw_only=True):
    """What of the software of NPUs shall be on a machine."""

    parts: tuple[NpuPart, ...] = ()

    def of(self, *kinds: str) -> tuple[NpuPart, ...]:
        """Its parts of these kinds, in their order."""
        return tuple(part for kind in kinds for part in self.parts if part.kind == kind)


class NpuState(Struct, frozen=True, kw_only=True):
    """What was found: versions by kind, "" for none; a kind that is not listed is not known.

    `hashes` are those of installers, "" for one that is not there; `users` are programs that
    run on the NPUs, `devices` is how many NPUs are seen.
    """

    versions: dict[str, str] = field(default_factory=dict)
    hashes: dict[str, str] = field(default_factory=dict)
    users: tuple[str, ...] = ()
    devices: int = 0

    @property
    def relevant(self) -> NpuState:
        """What of it decides the steps."""
        return NpuState(versions=self.versions, hashes=self.hashes)

    def has(self, part: NpuPart) -> bool:
        """True if the part is there at just that version."""
        there = self.versions.get(part.kind)
        if part.path and not part.version:
            return False
        if there is None or not (there and part.version):
            return there == part.version
        one, other = Version.maybe(there), Version.maybe(part.version)
        return there == part.version or bool(one and other and one.same_as(other))


def mark_of(kind: str) -> str:
    """The file in which the version of a part is noted once it is installed."""
    return f"{HOME}/installed/{kind}"
