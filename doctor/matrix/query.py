"""Look things up in the matrix. Queries only find rows; rules decide what they mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from doctor.facts import ComputeCapability, Device, Version
from doctor.matrix.architectures import ModelDomain, ModelRow
from doctor.matrix.catalogue import (
    Cause,
    CauseDomain,
    ContainerImage,
    Distro,
    DistroDomain,
    ImageDomain,
    Npu,
    NpuDomain,
    Xid,
    XidDomain,
    find_distro,
    find_npu,
)
from doctor.matrix.claims import ClaimMatch, beyond, in_range
from doctor.matrix.gpu_names import GpuIndex
from doctor.matrix.model import (
    CompilerTargets,
    CudaDomain,
    CudaFamily,
    DriverBranch,
    DriverDomain,
    EngineDomain,
    ForwardCompat,
    Gpu,
    GpuDomain,
    Release,
    Signature,
    SignatureDomain,
    Toolkit,
)


@dataclass(frozen=True)
class Fingerprint:
    """What a matrix is made of: a short digest of its sources, the date of the newest."""

    version: str = ""
    as_of: str = ""


class Matrix:
    """The compatibility matrix. Domains load on first use through `read`."""

    def __init__(
        self,
        read: Callable[[str], Any],
        engine_names: tuple[str, ...],
        fingerprint: Callable[[], Fingerprint] = Fingerprint,
    ) -> None:
        self._read = read
        self.engine_names = engine_names
        self._fingerprint = fingerprint
        self._engines: dict[str, EngineDomain] = {}

    # -- domains -------------------------------------------------------------

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

    @cached_property
    def gpus(self) -> GpuDomain:
        """NVIDIA products."""
        domain: GpuDomain = self._read("gpus")
        return domain

    @cached_property
    def cause_domain(self) -> CauseDomain:
        """The closed list of causes."""
        domain: CauseDomain = self._read("causes")
        return domain

    @property
    def causes(self) -> dict[str, Cause]:
        """Causes by name."""
        return self.cause_domain.causes

    @cached_property
    def signatures(self) -> tuple[Signature, ...]:
        """Signatures of faults in logs."""
        domain: SignatureDomain = self._read("signatures")
        return domain.signatures

    @cached_property
    def models(self) -> tuple[ModelRow, ...]:
        """Published models."""
        domain: ModelDomain = self._read("models")
        return domain.models

    def engine(self, name: str) -> EngineDomain | None:
        """The domain of an engine or framework ("vllm", "torch"), or None if there is none."""
        if name not in self.engine_names:
            return None
        if name not in self._engines:
            self._engines[name] = self._read(name)
        return self._engines[name]

    @cached_property
    def engine_packages(self) -> dict[str, str]:
        """Engine or framework domain by the (normalised) name of a distribution that carries it."""
        domains = (self.engine(name) for name in self.engine_names)
        return {package: d.name for d in domains if d for package in d.packages}

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """Digest and date of everything that this matrix is made of."""
        return self._fingerprint()

    @property
    def version(self) -> str:
        """Short digest of the matrix's sources, overlays included."""
        return self.fingerprint.version

    @property
    def as_of(self) -> str:
        """Date of the newest source."""
        return self.fingerprint.as_of

    # -- CUDA and driver -----------------------------------------------------

    def family(self, cuda: Version) -> CudaFamily | None:
        """The CUDA major's row, with the floor of minor-version compatibility."""
        return next((f for f in self.cuda.families if f.major == cuda.major), None)

    def toolkit(self, cuda: Version) -> Toolkit | None:
        """The oldest toolkit row of that major.minor (or of exactly that patch)."""
        wanted = cuda.release
        rows = [t for t in self.cuda.toolkits if _release(t.version)[: len(wanted)] == wanted]
        return min(rows, key=lambda row: _release(row.version), default=None)

    def compiler(self, cuda: Version) -> CompilerTargets | None:
        """The ptxas row of that major.minor."""
        return next((c for c in self.cuda.compilers if _release(c.cuda) == cuda.release[:2]), None)

    def forward_compat(self, cuda: Version) -> ForwardCompat | None:
        """Hints about cuda-compat of that CUDA version."""
        rows = self.cuda.forward_compat
        return next((r for r in rows if _release(r.cuda) == cuda.release[:2]), None)

    @cached_property
    def tegra(self) -> frozenset[ComputeCapability]:
        """Compute capabilities of SoC parts."""
        return frozenset(ComputeCapability.parse(s.capability) for s in self.cuda.socs)

    def branch(self, driver: Version) -> DriverBranch | None:
        """The branch row of a driver version ("580.95.05" belongs to 580)."""
        return next((b for b in self.drivers.branches if b.branch == driver.major), None)

    def newest_branch(self) -> int:
        """The newest driver branch that the matrix knows."""
        return max((b.branch for b in self.drivers.branches), default=0)

    def driver_cuda(self, driver: Version) -> Version | None:
        """CUDA version of the libcuda that a driver brings, or None if unknown."""
        row = self.branch(driver)
        return Version.maybe(row.cuda) if row else None

    # -- GPUs ----------------------------------------------------------------

    @cached_property
    def _gpu_index(self) -> GpuIndex:
        return GpuIndex(self.gpus.gpus)

    def gpus_matching(self, device: Device) -> tuple[Gpu, ...]:
        """Products that an NVIDIA device may be; its PCI id says more than its name."""
        if device.vendor != "nvidia":
            return ()
        return self._gpu_index.find(
            device.pci_id.value or "", device.subsystem.value or "", device.name.value or ""
        )

    def gpus_named(self, name: str) -> tuple[Gpu, ...]:
        """Products that a name may mean: "4090", "A100 80GB", "2x RTX 3090"."""
        return self._gpu_index.named(name)

    def gpu(self, pci_id: str = "", subsystem: str = "", name: str = "") -> Gpu | None:
        """The one product of a PCI id ("10de:2330") or name; None if it may be several."""
        found = self._gpu_index.find(pci_id, subsystem, name)
        return found[0] if len(found) == 1 else None

    def capability_of(self, device: Device) -> ComputeCapability | None:
        """The capability that was read, else the one that all matching products share."""
        if device.compute_capability.value is not None:
            return device.compute_capability.value
        texts = {gpu.capability for gpu in self.gpus_matching(device)}
        text = texts.pop() if len(texts) == 1 else None
        return ComputeCapability.parse(text) if text else None

    # -- things ----------------------------------------------------------------

    @cached_property
    def npus(self) -> tuple[Npu, ...]:
        """Ascend chips."""
        domain: NpuDomain = self._read("ascend-npus")
        return domain.npus

    def npu(self, name: str = "", soc: str = "", pci_id: str = "") -> Npu | None:
        """The chip of a SoC name, an npu-smi or product name, or a PCI id ("19e5:d802").

        None if none fits, or if chips of several generations do ("910B" names two).
        """
        return find_npu(self.npus, name, soc, pci_id)

    def distro(self, name: str, version: str) -> Distro | None:
        """The release of a distribution by os-release ID or name and VERSION_ID."""
        domain: DistroDomain = self._read("distros")
        return find_distro(domain.distros, name, version)

    def xid(self, number: int) -> Xid | None:
        """What an Xid number of the kernel log means."""
        domain: XidDomain = self._read("xid")
        return next((row for row in domain.xids if row.number == number), None)

    @cached_property
    def images(self) -> tuple[ContainerImage, ...]:
        """Container images of engines, most particular first."""
        domain: ImageDomain = self._read("images")
        return domain.images

    # -- releases and claims -------------------------------------------------

    def release(self, name: str, version: Version) -> Release | None:
        """The release of exactly that public version, or None if the matrix has no such row."""
        domain = self.engine(name)
        if domain is None or not version.is_exact:
            return None
        wanted = Version(version.public)
        return next((r for r in domain.releases if Version(r.version).low == wanted.low), None)

    def newest(self, name: str) -> Version | None:
        """The newest final version that the matrix knows of an engine or framework."""
        domain = self.engine(name)
        known = [Version(r.version) for r in domain.releases] if domain else []
        finals = [v for v in known if not v.is_prerelease] or known
        return max(finals, key=lambda v: v.low, default=None)

    def claims(
        self, name: str, kind: str, version: Version | None = None, key: str | None = None
    ) -> Iterator[ClaimMatch]:
        """Claims of that kind whose range may hold `version`; all ranges if it is unknown."""
        domain = self.engine(name)
        for claim in domain.claims if domain else ():
            if claim.kind != kind or (key is not None and claim.key != key):
                continue
            if version is None or in_range(claim, version):
                yield ClaimMatch(claim, beyond(claim, version))


def _release(text: str) -> tuple[int, ...]:
    return Version(text).release
