"""Candidates that are run from an image of the engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from doctor.facts import CodeTarget, Facts, MissingFact, Specifier, Version
from doctor.matrix import Matrix
from doctor.matrix.catalogue import ContainerImage
from doctor.matrix.model import Claim, Release
from doctor.matrix.ranges import covers
from doctor.rules import amd_cards
from doctor.stack.model import Candidate, Torch
from doctor.stack.setting import Setting, newest_python
from doctor.stack.torch_choice import exact_pin
from doctor.stack.wheels import ascend_parts

_DROPS_SINCE = 13  # What a build loses from this CUDA major on stands in the claim.
Which = tuple[Release, Version] | tuple[None, None]


def images(matrix: Matrix, engine: str, which: Which, setting: Setting) -> Iterator[Candidate]:
    """Images of a release, or of an engine without releases; with forward compatibility last."""
    release, version = which
    for row in matrix.images:
        is_offered = row.engine == engine and row.form and _is_tagged(matrix, row, version)
        if is_offered and _serves(row, setting, matrix):
            base = _candidate(matrix, row, release, version)
            yield base
            yield from _with_compat(matrix, base, setting.facts)


def _is_tagged(matrix: Matrix, row: ContainerImage, version: Version | None) -> bool:
    """Tell whether the row gives a tag for that version, and is the first that gives it."""
    if version is None:
        return "{version}" not in row.form
    if covers(row, version) is not True:
        return False
    same = (r for r in matrix.images if (r.repository, r.form) == (row.repository, row.form))
    return next(r for r in same if covers(r, version)) is row


def _serves(row: ContainerImage, setting: Setting, matrix: Matrix) -> bool:
    if row.vendor != setting.vendor or (row.archs and setting.arch not in ("", *row.archs)):
        return False
    generation, target = row.extra.get("npu"), row.extra.get("gfx")
    if target is not None and target not in _targets(setting.facts, matrix):
        return False
    return generation is None or generation in _generations(setting.facts, matrix)


def _targets(facts: Facts, matrix: Matrix) -> set[str]:
    """The gfx targets of the host's AMD devices, as far as they are known."""
    found = set()
    for device in facts.devices.value or ():
        with suppress(MissingFact):
            found.add(amd_cards.target(device, matrix).fact)
    return found


def _generations(facts: Facts, matrix: Matrix) -> set[str]:
    """Generations of the NPUs of the host: images are made for one of them."""
    found = set()
    for device in facts.devices.value or ():
        row = matrix.npu(device.name.value or "", device.soc.value or "", device.pci_id.value or "")
        if row is not None:
            found.add(row.generation)
    return found


def _candidate(
    matrix: Matrix, row: ContainerImage, release: Release | None, version: Version | None
) -> Candidate:
    tag = row.form.format(version=version)
    cuda = _two(Version.maybe(row.cuda))
    own_cuda = Version.maybe(release.cuda) if release and row.vendor == "nvidia" else None
    unseen = () if cuda or row.vendor != "nvidia" else ("the CUDA version of the image",)
    return Candidate(
        engine=row.engine,
        kind="image",
        lane="image",
        vendor=row.vendor,
        package=row.engine,
        version=version,
        release=release,
        variant=f"cu{str(cuda).replace('.', '')}" if cuda else "",
        cuda=cuda or own_cuda,
        torch=_torch(matrix, release, cuda, row.vendor),
        code=_code(matrix, row.engine, cuda) if release is None else (),
        python=_python(row, release),
        artifact=f"{row.repository}:{tag}",
        libc=_libc(matrix, row, release),
        unseen=unseen,
        sources=row.source,
        extra=ascend_parts(release) if release and row.vendor == "ascend" else (),
    )


def _code(matrix: Matrix, engine: str, cuda: Version | None) -> tuple[CodeTarget, ...]:
    """GPU code that the build files of an engine without releases name for a CUDA version."""
    found: tuple[CodeTarget, ...] = ()
    for match in matrix.claims(engine, "build-targets", key="cuda-default") if cuda else ():
        spec = Specifier.parse(match.claim.when.get("cuda", ""))
        if cuda is not None and spec is not None and spec.admits(cuda) is True:
            is_13 = (cuda.major or 0) >= _DROPS_SINCE
            dropped = match.claim.data.get("cuda_13_drops", ()) if is_13 else ()
            names = (name for name in match.claim.data.get("targets", ()) if name not in dropped)
            found = tuple(map(CodeTarget.parse, names))
    return found


def _python(row: ContainerImage, release: Release | None) -> Version | None:
    """The Python inside: as it is known, else one that the release is made for."""
    stated = row.python or (release.extra.get("image_python", "") if release else "")
    return Version.maybe(stated) or (newest_python(release) if release else None)


def _two(cuda: Version | None) -> Version | None:
    if cuda is None or cuda.minor is None:
        return cuda
    return Version(f"{cuda.major}.{cuda.minor}")


def _torch(
    matrix: Matrix, release: Release | None, cuda: Version | None, vendor: str
) -> Torch | None:
    """The torch inside: as the release pins it, built for the CUDA of the image.

    An image of a release that takes a range may hold a build of the vendor's own: it is
    judged as the oldest of the range.
    """
    pin = release.pins.get("torch", "") if release else ""
    spec = Specifier.parse(pin) if pin else None
    if spec is None:
        return None
    fitting = (v for _, v in reversed(matrix.versions("torch")) if spec.admits(v) is True)
    version = exact_pin(pin) or next(fitting, None)
    if version is None:
        return None
    if vendor == "amd":
        return Torch(version, None, "rocm", "rocm")
    label = f"cu{str(cuda).replace('.', '')}" if cuda and vendor == "nvidia" else ""
    return Torch(version, cuda if vendor == "nvidia" else None, "", label)


def _libc(matrix: Matrix, row: ContainerImage, release: Release | None) -> Version:
    """The C library inside: of its system, else one that its own build can use."""
    name, digits = row.os.rstrip("0123456789."), row.os.lstrip("abcdefghijklmnopqrstuvwxyz")
    digits = f"{digits[:2]}.{digits[2:]}" if digits.isdecimal() and len(digits) == 4 else digits
    system = matrix.distro(name, digits) if row.os else None
    if system is not None and system.glibc:
        return Version(system.glibc)
    floor = release.min_glibc if release and release.min_glibc else "2.28"
    return Version(f">={max(Version(floor), Version('2.35'), key=lambda v: v.low)}")


def _with_compat(matrix: Matrix, base: Candidate, facts: Facts) -> Iterator[Candidate]:
    """The same image with the forward-compatibility library that it carries switched on."""
    driver = facts.nvidia.driver.value
    if base.cuda is None or driver is None or base.version is None:
        return
    offered = matrix.driver_cuda(driver)
    if offered is None or offered.at_least(base.cuda) is True:
        return
    switch = _switch(matrix, base.engine)
    if switch is None or covers(switch, base.version) is False:
        return
    documented = _is_documented(matrix, base, driver)
    doubt = f"forward compatibility of driver branch {driver.major}: the engine names others"
    yield replace(
        base,
        lane="image with forward compatibility",
        env=((switch.key, "1"),),
        compat=base.cuda,
        unseen=base.unseen if documented else (*base.unseen, doubt),
        sources=(*base.sources, *switch.source),
    )


def _switch(matrix: Matrix, engine: str) -> Claim | None:
    """The variable that makes the engine's image use its forward-compatibility library."""
    for match in matrix.claims(engine, "env-var"):
        if match.claim.data.get("switches") == "forward-compatibility":
            return match.claim
    return None


def _is_documented(matrix: Matrix, base: Candidate, driver: Version) -> bool:
    """Tell whether the engine's documentation names this driver branch."""
    for match in matrix.claims(base.engine, "container-compat", base.version):
        if str(driver.major) in match.claim.value.split("|"):
            return True
    return False
