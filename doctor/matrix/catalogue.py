"""Rows that describe things rather than versions: NPUs, distributions, Xid numbers, images."""

from __future__ import annotations

from msgspec import Struct, field

from doctor.matrix.model import Row


class Npu(Row, frozen=True, kw_only=True):
    """An Ascend chip. `names` are what npu-smi prints, `socs` what the toolkit calls it.

    `pci` are vendor:device ids; `memory_mib` sizes per logical device; `dtypes` the number
    formats it computes in (float16, bfloat16, int8, fp8); `image_suffix` that of engine images;
    `engines` says per engine "supported", "unsupported" or "experimental".
    """

    key: str
    names: tuple[str, ...] = ()
    socs: tuple[str, ...] = ()
    generation: str = ""
    pci: tuple[str, ...] = ()
    products: tuple[str, ...] = ()
    memory_mib: tuple[int, ...] = ()
    dies: int = 1
    dtypes: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    image_suffix: str = ""
    engines: dict[str, str] = field(default_factory=dict)


class NpuDomain(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ascend chips by npu-smi name, SoC name and PCI id."""

    as_of: str
    npus: tuple[Npu, ...] = ()


class Distro(Row, frozen=True, kw_only=True):
    """A release of a distribution and the libraries it ships.

    `id` is /etc/os-release's ID, `versions` the VERSION_ID values it covers ("22.04", "8.*");
    `aliases` other spellings of the name; `libstdcxx` the newest GLIBCXX_ version; `libc`
    is "glibc" or "musl"; `eol` the month in which public support ends.
    """

    id: str
    versions: tuple[str, ...]
    aliases: tuple[str, ...] = ()
    like: str = ""
    libc: str = "glibc"
    glibc: str | None = None
    libstdcxx: str | None = None
    gcc: str | None = None
    kernel: str | None = None
    python: str | None = None
    pythons: tuple[str, ...] = ()
    cuda: str | None = None
    eol: str = ""


class DistroDomain(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Distributions with the versions of what they ship."""

    as_of: str
    distros: tuple[Distro, ...] = ()


class Xid(Row, frozen=True, kw_only=True):
    """One Xid number of the NVIDIA kernel log. `severity` is error, warning or info.

    `scope` says whose fault it mostly is: hardware, driver, application, link.
    """

    number: int
    meaning: str
    severity: str
    scope: str
    advice: str
    name: str = ""


class XidDomain(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Xid numbers worth reporting."""

    as_of: str
    xids: tuple[Xid, ...] = ()


class ContainerImage(Row, frozen=True, kw_only=True):
    """Images of one repository whose tags match `tag`, a regular expression for the whole tag.

    The group `version` of `tag` is the engine's version; `since` (inclusive) and `until`
    (exclusive) bound it. `require_cuda` is the NVIDIA_REQUIRE_CUDA of the CUDA base, empty if
    not known; `entrypoint` "" means that the command must be given in full.
    """

    repository: str
    tag: str
    engine: str
    since: str = ""
    until: str = ""
    cuda: str | None = None
    base: str = ""
    os: str = ""
    python: str = ""
    archs: tuple[str, ...] = ()
    vendor: str = "nvidia"
    require_cuda: str = ""
    entrypoint: str = ""
    extra: dict[str, str] = field(default_factory=dict)


class ImageDomain(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Container images of engines, most particular first."""

    as_of: str
    images: tuple[ContainerImage, ...] = ()
