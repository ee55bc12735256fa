"""Look things up in the matrix. Queries only find rows; rules decide what they mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from doctor.facts import CodeTarget, ComputeCapability, Device, Version
from doctor.matrix.architectures import ModelDomain, ModelRow, ScaledCheckpoints
from doctor.matrix.catalogue import Cause, CauseDomain, Signature, SignatureDomain
from doctor.matrix.claims import ClaimMatch, EngineIndex, beyond
from doctor.matrix.cuda_query import CudaQueries
from doctor.matrix.gpu_names import GpuIndex, like
from doctor.matrix.launching import Launch, LaunchDomain, find_launch
from doctor.matrix.likelihood import LikelihoodDomain
from doctor.matrix.memory import MemoryDomain
from doctor.matrix.model import (
    EngineDomain,
    EngineName,
    Gpu,
    GpuDomain,
    Release,
    Variant,
)
from doctor.matrix.ranges import covers
from doctor.matrix.serving import ServingDomain
from doctor.matrix.stacks import StackDomain
from doctor.matrix.thing_query import ThingQueries


@dataclass(frozen=True)
class Fingerprint:
    """What a matrix is made of: a short digest of its sources, the date of the newest."""

    version: str = ""
    as_of: str = ""


@lru_cache(maxsize=256)
def _capability(text: str) -> ComputeCapability:
    return ComputeCapability.parse(text)


class Matrix(CudaQueries, ThingQueries):
    """The compatibility matrix. Domains load on first use through `read`.

    `engine_names` are the domains of engines and frameworks, `other_names` all others.
    """

    def __init__(
        self,
        read: Callable[[str], Any],
        engine_names: tuple[str, ...],
        fingerprint: Callable[[], Fingerprint] = Fingerprint,
        other_names: tuple[str, ...] = (),
        read_heads: Callable[[], tuple[EngineName, ...]] | None = None,
    ) -> None:
        self._read = lru_cache(maxsize=None)(read)
        self.engine_names = engine_names
        self.other_names = other_names
        self._fingerprint = fingerprint
        self._read_heads = read_heads
        self._indexes: dict[str, EngineIndex] = {}
        self._builds: dict[tuple[str, str], tuple[tuple[Release, Variant, Version], ...]] = {}

    # -- domains -------------------------------------------------------------

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
        """Signatures of faults in logs, of all areas."""
        names = (name for name in self.other_names if name.startswith("signatures"))
        domains: list[SignatureDomain] = [self._read(name) for name in names]
        return tuple(signature for domain in domains for signature in domain.signatures)

    @cached_property
    def models(self) -> tuple[ModelRow, ...]:
        """Published models."""
        domain: ModelDomain = self._read("models")
        return domain.models

    @cached_property
    def scaled_checkpoints(self) -> tuple[ScaledCheckpoints, ...]:
        """Habits of makers of quantized checkpoints with scales by blocks."""
        domain: ModelDomain = self._read("models")
        return domain.scaled

    @cached_property
    def default_sizes(self) -> dict[str, str]:
        """The size that a name of Ollama's library has by default ("mixtral": "8x7b")."""
        domain: ModelDomain = self._read("models")
        return {name: row.default for row in domain.default_tags for name in row.names}

    @cached_property
    def memory(self) -> MemoryDomain:
        """Number formats, and how engines divide the memory of a card."""
        domain: MemoryDomain = self._read("memory")
        return domain

    def domain(self, name: str) -> Any:
        """Any domain by the name of its file; raises MatrixError if there is none."""
        return self.engine(name) or self._read(name)

    def engine(self, name: str) -> EngineDomain | None:
        """The domain of an engine or framework ("vllm", "torch"), or None if there is none."""
        return self._read(name) if name in self.engine_names else None

    @cached_property
    def heads(self) -> tuple[EngineName, ...]:
        """Names, aliases and packages of all engines."""
        if self._read_heads is not None:
            return self._read_heads()
        domains: list[EngineDomain] = [self._read(name) for name in self.engine_names]
        return tuple(
            EngineName(name=d.name, aliases=d.aliases, packages=d.packages) for d in domains
        )

    @cached_property
    def engine_packages(self) -> dict[str, str]:
        """Engine or framework domain by the (normalised) name of a distribution that carries it."""
        return {package: head.name for head in self.heads for package in head.packages}

    @cached_property
    def _aliases(self) -> dict[str, str]:
        heads = self.heads
        return {alias.lower(): head.name for head in heads for alias in (head.name, *head.aliases)}

    def canonical(self, name: str) -> str | None:
        """The domain of an engine by its name, an alias ("pytorch") or a package of it."""
        plain = name.strip().lower()
        if plain in self.engine_names:
            return plain
        return self._aliases.get(plain) or self.engine_packages.get(plain)

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

    # -- GPUs ----------------------------------------------------------------

    @cached_property
    def _gpu_index(self) -> GpuIndex:
        return GpuIndex(self.gpus.gpus)

    def gpus_matching(self, device: Device) -> tuple[Gpu, ...]:
        """Products that an NVIDIA device may be; its PCI id says more than its name.

        Of several ("RTX 5000") those whose capability and memory are the device's own.
        """
        if device.vendor != "nvidia":
            return ()
        found = self._gpu_index.find(
            device.pci_id.value or "", device.subsystem.value or "", device.name.value or ""
        )
        if len(found) > 1:
            found = like(found, device.compute_capability.value, device.memory_mib.value)
        return found

    def gpus_named(self, name: str) -> tuple[Gpu, ...]:
        """Products that a name may mean: "4090", "A100 80GB", "2x RTX 3090"."""
        return self._gpu_index.named(name)

    def gpu_names_near(self, name: str) -> list[str]:
        """Names of products that look like an unknown one, for messages."""
        return self._gpu_index.near(name)

    def gpus_of_pci(self, pci_id: str, subsystem: str = "") -> tuple[Gpu, ...]:
        """Products of a PCI id ("10de:2330")."""
        return self._gpu_index.find(pci_id, subsystem)

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
        return _capability(text) if text else None

    # -- stacks -----------------------------------------------------------------

    @cached_property
    def stacks(self) -> StackDomain:
        """How engines are delivered, and which suits which aim."""
        domain: StackDomain = self._read("stacks")
        return domain

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        """How servers of engines are started, asked and stopped."""
        domain: LaunchDomain = self._read("launch")
        return domain.launches

    @cached_property
    def serving(self) -> ServingDomain:
        """Lengths of real requests, and what a running server should reach."""
        domain: ServingDomain = self._read("serving")
        return domain

    @cached_property
    def likelihood(self) -> LikelihoodDomain:
        """What labelled public reports turned out to be, by what they state."""
        domain: LikelihoodDomain = self._read("likelihood")
        return domain

    def launch(self, engine: str, version: Version | None = None) -> Launch | None:
        """The row of an engine's server for a version, or for its newest known range."""
        return find_launch(self.launches, engine, version)

    # -- releases and claims -------------------------------------------------

    def releases(self, name: str) -> tuple[Release, ...]:
        """All releases of an engine or framework, newest first; empty if it is unknown."""
        domain = self.engine(name)
        return domain.releases if domain else ()

    def versions(self, name: str) -> tuple[tuple[Release, Version], ...]:
        """All releases with their parsed versions, in the order of `releases`."""
        return self._index(name).versions

    def release(self, name: str, version: Version) -> Release | None:
        """The release of exactly that public version, or None if the matrix has no such row."""
        return self._index(name).by_version.get(version.low) if version.is_exact else None

    def newest(self, name: str) -> Version | None:
        """The newest final version that the matrix knows of an engine or framework."""
        return self._index(name).newest

    def variants(self, name: str, version: Version, arch: str = "") -> tuple[Variant, ...]:
        """The builds of a release, those of one architecture if it is named."""
        release = self.release(name, version)
        found = release.variants if release else ()
        return tuple(v for v in found if not arch or not v.archs or arch in v.archs)

    def builds_for(
        self, name: str, card: ComputeCapability
    ) -> tuple[tuple[Release, Variant, Version], ...]:
        """Final releases, newest first, with the CUDA builds that hold machine code for a card."""
        key = (name, str(card))
        if key not in self._builds:
            self._builds[key] = tuple(self._covering(name, card))
        return self._builds[key]

    def _covering(
        self, name: str, card: ComputeCapability
    ) -> Iterator[tuple[Release, Variant, Version]]:
        for release in self.releases(name):
            for variant in () if release.prerelease else release.variants:
                cuda = Version.maybe(variant.cuda)
                code = (CodeTarget.parse(t) for t in variant.targets if t.startswith("sm_"))
                if cuda is not None and any(t.runs_on(card, self.tegra) for t in code):
                    yield release, variant, cuda

    def claims(
        self, name: str, kind: str, version: Version | None = None, key: str | None = None
    ) -> Iterator[ClaimMatch]:
        """Claims of that kind whose range may hold `version`; all ranges if it is unknown."""
        for claim in self._index(name).of_kind(kind):
            if key is not None and claim.key != key:
                continue
            if version is None or covers(claim, version) is not False:
                yield ClaimMatch(claim, beyond(claim, version))

    def _index(self, name: str) -> EngineIndex:
        if name not in self._indexes:
            self._indexes[name] = EngineIndex(self.engine(name))
        return self._indexes[name]
