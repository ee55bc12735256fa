"""The rows of the matrix. Every row says where it comes from; absent means unknown.

All scalars are text in the YAML files, so that 3.10 and 12.10 survive; the types
here say what each becomes.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from msgspec import Struct, field


class Confidence(str, Enum):
    """How a row is known, from best to weakest."""

    MEASURED = "measured"
    DECLARED = "declared-in-source"
    DOCUMENTED = "documented"
    REPORTED = "reported"
    INFERRED = "inferred"


class Row(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Provenance that every row carries. `source` is URLs, repo@tag:path, or named documents."""

    source: tuple[str, ...]
    confidence: Confidence
    checked: str = ""
    note: str = ""
    override: bool = False
    reason: str = ""


class Toolkit(Row, frozen=True, kw_only=True):
    """A CUDA toolkit release: the driver (or at least its branch) that runs all of it."""

    version: str
    min_driver: str | None = None
    min_driver_windows: str | None = None
    min_branch: int | None = None


class CudaFamily(Row, frozen=True, kw_only=True):
    """A CUDA major: the driver from which minor-version compatibility holds."""

    major: int
    min_driver: str
    min_driver_windows: str | None = None


class CompilerTargets(Row, frozen=True, kw_only=True):
    """What ptxas of a CUDA version knows: newest PTX ISA; SASS targets ("sm_90") if read.

    `max_gcc` is the newest major of gcc that nvcc of that version takes beside itself.
    """

    cuda: str
    ptx_isa: str
    targets: tuple[str, ...] = ()
    max_gcc: int | None = None


class ForwardCompat(Row, frozen=True, kw_only=True):
    """What is known of cuda-compat of a CUDA version: only a hint, its own ELF note beats it.

    `branches` are the driver branches it may run on, `classes` the GPU classes it
    refuses, `brands` the NVML brand numbers it takes.
    """

    cuda: str
    branches: tuple[int, ...] = ()
    classes: tuple[str, ...] = ()
    brands: tuple[int, ...] = ()


class ImageRequirement(Row, frozen=True, kw_only=True):
    """NVIDIA_REQUIRE_CUDA of the base images of a CUDA version.

    A container starts if the driver's CUDA is at least `cuda`, or if a card's brand is
    one of `brands` and the driver's branch one of `branches`. Brands are names of
    libnvidia-container ("tesla", "quadrortx").
    """

    cuda: str
    branches: tuple[int, ...] = ()
    brands: tuple[str, ...] = ()


class SystemOnChip(Row, frozen=True, kw_only=True):
    """Compute capabilities of SoC parts, which share no machine code with other parts."""

    capability: str
    name: str = ""


class CudaDomain(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """CUDA toolkits, families, compilers, forward compatibility, image requirements."""

    as_of: str
    toolkits: tuple[Toolkit, ...] = ()
    families: tuple[CudaFamily, ...] = ()
    compilers: tuple[CompilerTargets, ...] = ()
    forward_compat: tuple[ForwardCompat, ...] = ()
    image_requirements: tuple[ImageRequirement, ...] = ()
    socs: tuple[SystemOnChip, ...] = ()


class DriverBranch(Row, frozen=True, kw_only=True):
    """A driver branch: kind (LTSB, PB, NFB), CUDA version of its libcuda, end of life, modules.

    `modules` is "open" where only open kernel modules exist, else "".
    """

    branch: int
    kind: str = ""
    cuda: str | None = None
    eol: str = ""
    newest: str = ""
    modules: str = ""


class DriverDomain(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Driver branches, newest first."""

    as_of: str
    branches: tuple[DriverBranch, ...] = ()


class Gpu(Row, frozen=True, kw_only=True):
    """An NVIDIA GPU product. `open_modules` is "required", "supported" or "no".

    `names` are those NVML prints, `aliases` others in use ("DGX Spark"); `devices` PCI
    device ids ("2330"); `subsystems` ("10de:16c1") narrow a shared id; `gpu_class` is
    datacenter, workstation, geforce, titan, jetson or soc; `precisions` the number formats
    of its tensor cores (fp16, bf16, fp8, fp4; int8 at least through dp4a); `memory_gb` is
    nominal: never gate on it. `unified_memory` means that it shares the host's memory,
    and that NVML reports none. `host_arch` is that of the processor on its board, "" where
    it goes into hosts of several.
    """

    key: str
    names: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    arch: str = ""
    capability: str | None = None
    memory_gb: float | None = None
    bandwidth_gb_s: float | None = None
    gpu_class: str = ""
    nvlink: str = ""
    host_arch: str = ""
    unified_memory: bool = False
    precisions: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    subsystems: tuple[str, ...] = ()
    first_branch: int | None = None
    last_branch: int | None = None
    open_modules: str = ""
    mig_min_driver: str | None = None
    mig_profiles: tuple[str, ...] = ()


class GpuDomain(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """NVIDIA products by PCI id and name."""

    as_of: str
    gpus: tuple[Gpu, ...] = ()


class Artefact(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One file of a release: a wheel by name, size and sha256."""

    file: str
    size: int | None = None
    sha256: str = ""


class Variant(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One build of a release ("cu128", "cpu"): where it is had and what its code targets are.

    `name` is its local version label; the same name may come twice with other `archs`.
    `default` marks what a plain install on those archs brings; `index` is "" for it.
    `targets` are SASS/PTX names or gfx names, empty if unknown; a PTX name without @ISA
    carries the ISA of the CUDA that built it. `confidence` is that of the targets.
    `unseen` says why the build may not be published, "" where it was seen or is documented.
    """

    name: str
    cuda: str | None = None
    archs: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    index: str = ""
    default: bool = False
    confidence: Confidence = Confidence.DOCUMENTED
    source: tuple[str, ...] = ()
    note: str = ""
    unseen: str = ""


class Release(Row, frozen=True, kw_only=True):
    """One released version of a package or engine; machine-written.

    `pins` are requirement specifiers by package ("*" for any); `pythons` the interpreter
    tags of its wheels, empty where one wheel serves all that `requires_python` admits;
    `cuda` the runtime of the default artefact; `min_capability` the lowest compute
    capability its build supports; `targets` the code measured in each library; `image`
    the container image of it.
    """

    version: str
    released: str = ""
    requires_python: str = ""
    pythons: tuple[str, ...] = ()
    yanked: bool = False
    prerelease: bool = False
    pins: dict[str, str] = field(default_factory=dict)
    cuda: str | None = None
    min_capability: str | None = None
    min_glibc: str | None = None
    archs: tuple[str, ...] = ()
    targets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    variants: tuple[Variant, ...] = ()
    files: tuple[Artefact, ...] = ()
    image: str = ""
    extra: dict[str, str] = field(default_factory=dict)


class Claim(Row, frozen=True, kw_only=True):
    """A hand-written range of versions for which something holds.

    `since` (inclusive) and `until` (exclusive) bound the versions of `subject`;
    beyond `verified_to` the claim is an extrapolation. `kind` says what it speaks of
    (quantization, attention-backend, kv-dtype, dtype, flag, model, advisory, libc ...),
    `key` of which one ("awq", "fp8_e4m3", "--flash-attn"); `when` narrows it
    (capability, vendor, cuda, arch, python: specifiers or "|"-joined names);
    `value` is the statement: "supported", "unsupported", "removed", or a figure.
    `data` holds what only this kind needs.
    """

    id: str
    subject: str
    kind: str
    key: str = ""
    since: str = ""
    until: str = ""
    verified_to: str = ""
    when: dict[str, str] = field(default_factory=dict)
    value: str = ""
    text: str = ""
    remedy: str = ""
    data: dict[str, Any] = field(default_factory=dict)


class Roster(Row, frozen=True, kw_only=True):
    """Names that an engine knows, read version by version: flags, variables, architectures.

    `kind` is that of a claim, `value` what holds while a name is known and `gone` what
    holds afterwards ("": nothing is said). `names` gives by name the versions where it
    comes, goes, comes again ...; a first "", or none at all, means that it was there in
    `first`, the oldest version that was read. `verified_to` is the newest.
    """

    kind: str
    first: str
    verified_to: str
    names: dict[str, tuple[str, ...]]
    value: str = "exists"
    gone: str = "removed"


class EngineName(Struct, frozen=True, kw_only=True):
    """The head of an engine's domain: read alone, it costs a tenth of the whole."""

    name: str
    aliases: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()


class EngineDomain(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One engine or framework: its releases, newest first, and claims about ranges of them.

    `aliases` are other names it goes by, `packages` the distributions that carry it.
    `rosters` stand for one claim per name, but for names that a claim speaks of.
    """

    as_of: str
    name: str
    aliases: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    releases: tuple[Release, ...] = ()
    claims: tuple[Claim, ...] = ()
    rosters: tuple[Roster, ...] = ()


def head_of(domain: EngineDomain) -> EngineName:
    """The head of a domain."""
    return EngineName(name=domain.name, aliases=domain.aliases, packages=domain.packages)
