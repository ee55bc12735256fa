"""Which CUDA version the driver offers, and how a build for another one relates to it.

The procedure of NVIDIA's CUDA Compatibility guide: backward compatibility, minor-version
compatibility down to a floor per major, forward compatibility through another libcuda.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from doctor.facts import DriverLibrary, Version
from doctor.findings import Evidence
from doctor.matrix import Matrix
from doctor.rules.engine import Case


class Load(Enum):
    """What becomes of a build whose CUDA runtime meets a driver."""

    FULL = "all features"
    MINOR = "minor-version compatibility: machine code only"
    BELOW_FLOOR = "the driver is below the floor of this CUDA major"
    NEWER_MAJOR = "the build's CUDA major is newer than the driver's"


@dataclass(frozen=True)
class Level:
    """The CUDA version that applications get: of the host's libcuda, or of a compat copy."""

    cuda: Version
    evidence: Evidence
    compat: bool = False
    sources: tuple[str, ...] = ()


def level(case: Case, matrix: Matrix) -> Level | None:
    """What CUDA version the driver library in use offers; None if nothing known tells it."""
    library = effective_library(case)
    if library is not None and library.compat and library.cuda is not None:
        fact = f"libcuda in use: {library.path}, CUDA {library.cuda}"
        return Level(library.cuda, Evidence(fact, library.path), compat=True)
    api = case.facts.nvidia.cuda_driver_api
    if api.is_known and api.value is not None:
        return Level(api.value, Evidence(f"driver API CUDA {api.value}", api.at))
    return _level_of_driver(case, matrix)


def _level_of_driver(case: Case, matrix: Matrix) -> Level | None:
    reading = case.facts.nvidia.driver
    if reading.value is None:
        return None
    fact = Evidence(f"driver {reading.value}", reading.at)
    if is_windows_driver(case, matrix):
        return _level_of_windows_driver(reading.value, fact, matrix)
    row = matrix.branch(reading.value)
    if row is None or row.cuda is None:
        return None
    bounded = reading.value.is_exact or reading.value.text.endswith(".*")
    cuda = Version(row.cuda if bounded else f">={row.cuda}")
    return Level(_reached(cuda, reading.value, matrix), fact, sources=tuple(row.source))


def _reached(cuda: Version, driver: Version, matrix: Matrix) -> Version:
    """Before CUDA 11 the first drivers of a branch may be older than its toolkit asks for."""
    floors = [
        (two_parts(Version(row.version)), Version(row.min_driver))
        for row in matrix.cuda.toolkits
        if row.min_driver and matrix.family(cuda) is None
    ]
    own = [floor for version, floor in floors if version.same_as(cuda)]
    if not own or any(driver.older_than(floor) is not True for floor in own):
        return cuda
    met = (version for version, floor in floors if driver.at_least(floor))
    return max(met, key=lambda version: version.low, default=cuda)


def is_windows_driver(case: Case, matrix: Matrix) -> bool:
    """Tell whether the driver's number is one of Windows, which counts in steps of its own."""
    host, driver = case.facts.host, case.facts.nvidia.driver.value
    if host.platform.value == "wsl2" or (host.os.value and host.os.value.id == "windows"):
        return True
    major = driver.major if driver is not None else None
    if driver is None or major is None or case.facts.nvidia.driver.at.startswith("/"):
        return False
    return matrix.branch(driver) is None and _oldest_branch(matrix) < major < matrix.newest_branch()


def _oldest_branch(matrix: Matrix) -> int:
    return min((row.branch for row in matrix.drivers.branches), default=0)


def _level_of_windows_driver(driver: Version, fact: Evidence, matrix: Matrix) -> Level | None:
    """Windows drivers have no branch table: the newest toolkit whose Windows floor they meet.

    Their numbers have two parts, and are not shortened ones.
    """
    rows = [row for row in matrix.cuda.toolkits if row.min_driver_windows]
    rows.sort(key=lambda row: Version(row.version).low)
    exact = Version(driver.text.removesuffix(".*")) if driver.minor is not None else driver
    answers = [(row, exact.at_least(Version(str(row.min_driver_windows)))) for row in rows]
    met = [row for row, answer in answers if answer]
    if not met:
        return None
    best = met[-1]
    cuda = str(two_parts(Version(best.version)))
    # Past the last row that lists a Windows driver it may offer more.
    is_bounded = answers[-1][1] is False
    return Level(Version(cuda if is_bounded else f">={cuda}"), fact, sources=tuple(best.source))


def effective_library(case: Case) -> DriverLibrary | None:
    """The copy of libcuda that the loader finds first, or None if that is not known."""
    found = [lib for lib in case.facts.nvidia.libcuda.value or () if lib.searched is not None]
    return min(found, key=lambda lib: lib.searched or 0, default=None)


def two_parts(version: Version) -> Version:
    """CUDA versions are compared by major and minor: 12.8.93 and 12.8.* count as 12.8."""
    if not (version.is_exact or version.text.endswith(".*")) or version.minor is None:
        return version
    return Version(f"{version.major}.{version.minor}")


def relation(
    runtime: Version, offered: Version, driver: Version | None, matrix: Matrix
) -> Load | None:
    """How a build for CUDA `runtime` loads where the driver offers `offered`.

    None if the versions are not known closely enough.
    """
    newer = two_parts(runtime).newer_than(two_parts(offered))
    if newer is not True:
        return Load.FULL if newer is False else _within_major(runtime, offered)
    family = matrix.family(runtime)
    if runtime.major != offered.major or family is None:
        return Load.NEWER_MAJOR
    below = driver.older_than(Version(family.min_driver)) if driver is not None else False
    if below is None:
        return None
    return Load.BELOW_FLOOR if below else Load.MINOR


def _within_major(runtime: Version, offered: Version) -> Load | None:
    """A build known only by its major ("12.*") loads wherever that major is offered."""
    if runtime.is_exact or not runtime.text.endswith(".*"):
        return None
    return Load.MINOR if runtime.major == offered.major else None
