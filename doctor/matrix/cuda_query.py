"""Look up CUDA toolkits, driver branches and what compiles what."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, Protocol, TypeVar

from doctor.facts import ComputeCapability, Version
from doctor.matrix.model import (
    CompilerTargets,
    CudaDomain,
    CudaFamily,
    DriverBranch,
    DriverDomain,
    ForwardCompat,
    ImageRequirement,
    Toolkit,
)


class CudaQueries:
    """The part of the matrix that speaks of CUDA and of drivers."""

    _read: Callable[[str], Any]

    @cached_property
    def cuda(self) -> CudaDomain:
        """CUDA toolkits, families, compilers."""
        domain: CudaDomain = self._read("cuda")
        return domain

    @cached_property
    def drivers(self) -> DriverDomain:
        """Driver branches."""
        domain: DriverDomain = self._read("drivers")
        return domain

    def family(self, cuda: Version) -> CudaFamily | None:
        """The CUDA major's row, with the floor of minor-version compatibility."""
        return next((f for f in self.cuda.families if f.major == cuda.major), None)

    def toolkit(self, cuda: Version) -> Toolkit | None:
        """The oldest toolkit row of that major.minor (or of exactly that patch)."""
        wanted = cuda.release
        rows = [t for t in self.cuda.toolkits if release(t.version)[: len(wanted)] == wanted]
        return min(rows, key=lambda row: release(row.version), default=None)

    def compiler(self, cuda: Version) -> CompilerTargets | None:
        """The ptxas row of that major.minor."""
        return _of_minor(self.cuda.compilers, cuda)

    def compilers_of(self, major: int | None) -> list[CompilerTargets]:
        """The ptxas rows of a CUDA major, newest first."""
        return [row for row in self.cuda.compilers if release(row.cuda)[0] == major]

    def ptx_ceiling(self, cuda: Version) -> tuple[int, int] | None:
        """The newest PTX ISA that CUDA version compiles, in ptxas as in its libcuda."""
        row = self.compiler(cuda)
        return _isa(row.ptx_isa) if row else None

    def cuda_of_isa(self, isa: tuple[int, int]) -> Version | None:
        """The oldest CUDA version that compiles PTX of that ISA; None if none known does."""
        able = [row for row in self.cuda.compilers if _isa(row.ptx_isa) >= isa]
        oldest = min(able, key=lambda row: release(row.cuda), default=None)
        return Version(oldest.cuda) if oldest else None

    def forward_compat(self, cuda: Version) -> ForwardCompat | None:
        """Hints about cuda-compat of that CUDA version."""
        return _of_minor(self.cuda.forward_compat, cuda)

    def image_requirement(self, cuda: Version) -> ImageRequirement | None:
        """NVIDIA_REQUIRE_CUDA of the base images of that CUDA version."""
        return _of_minor(self.cuda.image_requirements, cuda)

    @cached_property
    def tegra(self) -> frozenset[ComputeCapability]:
        """Compute capabilities of SoC parts."""
        return frozenset(ComputeCapability.parse(s.capability) for s in self.cuda.socs)

    def branch(self, driver: Version) -> DriverBranch | None:
        """The branch row of a driver version ("580.95.05" belongs to 580)."""
        return self._branches.get(driver.major) if driver.major is not None else None

    @cached_property
    def _branches(self) -> dict[int, DriverBranch]:
        return {row.branch: row for row in self.drivers.branches}

    def newest_branch(self) -> int:
        """The newest driver branch that the matrix knows."""
        return max((b.branch for b in self.drivers.branches), default=0)

    def driver_cuda(self, driver: Version) -> Version | None:
        """CUDA version of the libcuda that a driver brings, or None if unknown."""
        row = self.branch(driver)
        return Version.maybe(row.cuda) if row else None


class _CudaRow(Protocol):
    @property
    def cuda(self) -> str: ...


AnyRow = TypeVar("AnyRow", bound=_CudaRow)


def _of_minor(rows: Iterable[AnyRow], cuda: Version) -> AnyRow | None:
    """The row of that CUDA major.minor."""
    return next((row for row in rows if release(row.cuda) == cuda.release[:2]), None)


def release(text: str) -> tuple[int, ...]:
    """The numbers of a version, to compare by."""
    return Version(text).release


def _isa(text: str) -> tuple[int, int]:
    major, minor = release(text)[:2]
    return major, minor
