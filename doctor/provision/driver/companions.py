"""What goes beside a driver at versions of its own: the toolkit for containers, DCGM. Pure."""

from __future__ import annotations

import msgspec

from doctor.matrix import Matrix
from doctor.matrix.packaging import DCGM, TOOLKIT, Companion, companion
from doctor.profile.schema import Profile


def toolkit(matrix: Matrix) -> tuple[str, ...]:
    """Packages by which a container engine hands out GPUs."""
    return companion(matrix, TOOLKIT).packages


def monitor(profile: Profile, matrix: Matrix) -> Companion | None:
    """DCGM for the CUDA line of a profile's branch; None if the profile does not want it."""
    if not profile.monitoring.dcgm:
        return None
    branches = matrix.drivers.branches
    line = next((b.cuda for b in branches if b.branch == profile.driver.branch), None)
    major = (line or "").partition(".")[0]
    row = companion(matrix, DCGM)
    names = tuple(name.format(cuda=major) for name in row.packages)
    return msgspec.structs.replace(row, packages=names)


def names_beside(profile: Profile, matrix: Matrix) -> tuple[str, ...]:
    """Names that are looked for beside the driver's own, and what would have to go for them."""
    row = monitor(profile, matrix)
    return (*toolkit(matrix), *((*row.packages, *row.conflicts) if row else ()))
