"""Rows that describe things rather than versions: NPUs, distributions, Xids, images, causes."""

from __future__ import annotations

import re
from collections.abc import Iterable

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

    `form` is the tag to ask for, {version} in place of the version; "" for none of use.
    The group `version` of `tag` is the engine's version; `since` (inclusive) and `until`
    (exclusive) bound it. `require_cuda` is the NVIDIA_REQUIRE_CUDA of the CUDA base, empty if
    not known; `entrypoint` "" means that the command must be given in full. `engine` "" is a
    base on which engines are built. In `cuda`, `os` and `python`, {name} stands for a group of
    `tag`.
    """

    repository: str
    tag: str
    engine: str
    form: str = ""
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


def find_npu(rows: Iterable[Npu], name: str, soc: str, pci_id: str) -> Npu | None:
    """The chip that the words name; None if none does, or chips of several generations do."""
    found = [row for row in rows if not pci_id or pci_id.lower() in row.pci]
    for wanted in filter(None, (soc, name)):
        exact = [row for row in found if _chip(wanted) in _chips(row)]
        found = exact or [row for row in found if is_of(row, wanted)]
    return found[0] if len({row.generation for row in found}) == 1 else None


def is_of(row: Npu, text: str) -> bool:
    """Tell whether a text that says more than a chip's name names it, or a product of it."""
    plain = text.lower().removeprefix("huawei").strip()
    is_part = len(plain) >= _TELLING and any(c.isdigit() for c in plain)
    for product in map(str.lower, row.products):
        if product in plain or (is_part and plain in product):
            return True
    return not _chips(row).isdisjoint(map(_chip, _CHIP.findall(text)))


_TELLING = 7  # letters of a product's name that leave something out: "300I Duo"
_CHIP = re.compile(
    r"(?:310[BP]?\d?|910(?:[A-C]\d?C?(?:-1)?|_\d{4}| ?Pro ?[AB]| ?Premium ?A)?|950(?:PR|DT)?)"
    r"(?![A-Z0-9])",
    re.IGNORECASE,
)


def _chips(row: Npu) -> set[str]:
    return {_chip(text) for text in (row.key, *row.names, *row.socs)}


def _chip(name: str) -> str:
    """Compare chip names without the word Ascend, case and spaces."""
    return name.lower().replace(" ", "").removeprefix("ascend")


def find_distro(rows: Iterable[Distro], name: str, version: str) -> Distro | None:
    """The row whose id or alias is the name and whose versions hold VERSION_ID."""
    plain, wanted = name.lower().strip(), version.lower().strip()
    for row in rows:
        if plain in (row.id, *row.aliases) and any(_holds(v, wanted) for v in row.versions):
            return row
    return None


def _holds(pattern: str, version: str) -> bool:
    """Tell whether VERSION_ID is the pattern, or begins as "8.*" does."""
    stem = pattern.removesuffix(".*")
    return version == stem or (pattern != stem and version.startswith(stem + "."))


class Cause(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A cause of the closed list: its rung, and causes of which it is often a symptom."""

    rung: str | None
    after: tuple[str, ...]
    text: str


class CauseDomain(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The closed list of causes."""

    rungs: tuple[str, ...]
    causes: dict[str, Cause]


class Candidate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A cause that a log signature may speak of; `when` are the facts that make it so.

    Without `when` it is the ordinary meaning of the words. `decide` is the command or
    fact that would settle it, `remedy` what to do where this cause is the one, `rule` the
    code whose page explains it where that is not the first rule of the cause.
    """

    cause: str
    when: dict[str, str] = field(default_factory=dict)
    decide: str = ""
    remedy: str = ""
    rule: str = ""


class Signature(Row, frozen=True, kw_only=True):
    """Words in a log that speak of a fault.

    One literal of `any` must stand in the text, all of `all`, none of `none`; `pattern`
    must match the line of the literal of `any`. `engines` limits it. `consequence` marks
    words that only say that something failed before ("engine core failed to start"),
    `brief` what people say in their own words: it counts in a short text only, as a hint.
    `hint` marks what stops nothing and costs speed: it makes a warning.
    """

    id: str
    any: tuple[str, ...] = ()
    all: tuple[str, ...] = ()
    none: tuple[str, ...] = ()
    pattern: str = ""
    engines: tuple[str, ...] = ()
    consequence: bool = False
    brief: bool = False
    hint: bool = False
    meaning: str = ""
    candidates: tuple[Candidate, ...] = ()


class SignatureDomain(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Signatures of faults in logs."""

    as_of: str
    signatures: tuple[Signature, ...] = ()
