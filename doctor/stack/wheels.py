"""Candidates that are installed into a Python: wheels of an index, and sources."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from doctor.facts import Version
from doctor.matrix import Matrix
from doctor.matrix.model import Artefact, Release, Variant
from doctor.matrix.ranges import covers
from doctor.matrix.stacks import Delivery
from doctor.stack.model import Candidate, Torch
from doctor.stack.setting import Setting, newest_python
from doctor.stack.torch_choice import choices

# name-version(-build)-python-abi-platform, where a build number begins with a digit.
_WHEEL = re.compile(r"[^-]+-[^-]+(?:-(\d[^-]*))?-([^-]+)-([^-]+)-([^-]+)\.whl")


def wheels(
    matrix: Matrix, engine: str, release: Release, version: Version, setting: Setting
) -> Iterator[Candidate]:
    """Builds of one release for the devices of the host, the default one first."""
    for delivery in matrix.stacks.deliveries:
        is_for = delivery.engine == engine and delivery.vendor == setting.vendor
        if is_for and covers(delivery, version):
            yield from _of_delivery(matrix, delivery, release, version, setting)


def _of_delivery(
    matrix: Matrix, delivery: Delivery, release: Release, version: Version, setting: Setting
) -> Iterator[Candidate]:
    build = _build(delivery, release, setting)
    if delivery.variant.startswith("cu") and build is None:
        return
    if delivery.engine == "torch" and not delivery.variant:
        yield from _torch_itself(delivery, release, version, setting)
        return
    cuda = Version.maybe(build.cuda) if build else _own_cuda(delivery, release)
    base = _candidate(delivery, release, version, setting, cuda)
    pin = release.pins.get("torch", "")
    for torch in choices(matrix, pin, cuda, delivery.variant, setting.arch):
        unseen = (*base.unseen, torch.unseen) if torch and torch.unseen else base.unseen
        yield replace(base, torch=torch, unseen=unseen, lane=_lane(base))


def _lane(candidate: Candidate) -> str:
    return candidate.kind


def _build(delivery: Delivery, release: Release, setting: Setting) -> Variant | None:
    """The row of that build for the architecture; None if the release lists none."""
    here = [v for v in release.variants if not setting.arch or setting.arch in v.archs]
    if delivery.variant:
        return next((v for v in here if v.name == delivery.variant and not v.default), None)
    return next((v for v in here if v.default), None)


def _own_cuda(delivery: Delivery, release: Release) -> Version | None:
    return Version.maybe(release.cuda) if delivery.vendor == "nvidia" else None


def _candidate(
    delivery: Delivery, release: Release, version: Version, setting: Setting, cuda: Version | None
) -> Candidate:
    label = delivery.variant
    fields = {"version": release.version, "variant": label, "arch": setting.arch or "x86_64"}
    files = () if label else release.files
    file = _file(files, setting, release)
    url = delivery.url.format(**fields)
    return Candidate(
        engine=delivery.engine,
        kind=delivery.kind,
        lane=delivery.kind,
        vendor=delivery.vendor,
        package=delivery.package,
        version=Version(f"{release.version}+{label}") if label else version,
        release=release,
        variant=label,
        cuda=cuda,
        python=setting.python or newest_python(release),
        artifact=url or _named(file, delivery, release),
        index=url or delivery.index.format(**fields),
        extra_index=delivery.extra_index.format(**fields),
        tags=_tags(delivery, file, release, setting, url),
        unseen=(delivery.unseen,) if delivery.unseen else (),
        sources=delivery.source,
        extra=ascend_parts(release) if delivery.vendor == "ascend" else (),
    )


def ascend_parts(release: Release) -> tuple[tuple[str, str], ...]:
    """What else a release for Ascend is made for: the toolkit, and packages beside torch."""
    names = ("vllm", "torch-npu", "triton-ascend")
    pins = tuple((name, release.pins[name]) for name in names if name in release.pins)
    return (*((("cann", release.extra["cann"]),) if "cann" in release.extra else ()), *pins)


def _named(file: Artefact | None, delivery: Delivery, release: Release) -> str:
    """The file, or what to ask an index for that was not listed."""
    is_listed = file is not None and (delivery.kind == "source" or file.file.endswith(".whl"))
    return file.file if file and is_listed else f"{delivery.package} {release.version}"


def _file(files: tuple[Artefact, ...], setting: Setting, release: Release) -> Artefact | None:
    """The wheel for this Python and architecture; where there is none, the nearest to it.

    None where the list holds only some of the files: the release names Pythons beside them.
    """
    found = [(f, match) for f in files if (match := _WHEEL.fullmatch(f.file))]
    python = setting.python or newest_python(release)
    own = "cp" + "".join(map(str, python.release[:2])) if python else ""

    def order(pair: tuple[Artefact, re.Match[str]]) -> tuple[bool, bool, int]:
        match = pair[1]
        serves = match[3] in ("abi3", "none") or (match[2] == own and match[3] == own)
        return _is_for(match[4], setting.arch or "x86_64"), serves, _build_number(match[1])

    best = max(found, key=order, default=None)
    if best is None:
        return next(iter(files), None)
    is_elsewhere = own in release.pythons and not order(best)[1]
    return None if is_elsewhere else best[0]


def _build_number(text: str | None) -> int:
    match = re.match(r"\d+", text or "")
    return int(match[0]) if match else 0


def _is_for(platform: str, arch: str) -> bool:
    return platform == "any" or not arch or platform.endswith(f"_{arch}")


def _tags(
    delivery: Delivery, file: Artefact | None, release: Release, setting: Setting, url: str
) -> tuple[str, ...]:
    """Wheel tags: of the file, else put together from what the release says of its wheels."""
    name = url.rpartition("/")[2] or (file.file if file else "")
    match = _WHEEL.fullmatch(name)
    if match:
        return tuple(f"{match[2]}-{match[3]}-{platform}" for platform in match[4].split("."))
    glibc = delivery.min_glibc or release.min_glibc
    archs = delivery.archs or release.archs
    if not glibc or not archs:
        return ()
    arch = setting.arch if setting.arch in archs else archs[0]
    platform = f"manylinux_{glibc.replace('.', '_')}_{arch}"
    return tuple(f"{tag}-{tag}-{platform}" for tag in release.pythons) or (f"py3-none-{platform}",)


def _torch_itself(
    delivery: Delivery, release: Release, version: Version, setting: Setting
) -> Iterator[Candidate]:
    """Every CUDA build of torch, newest CUDA first; the default one before its equals."""
    here = [v for v in release.variants if not setting.arch or setting.arch in v.archs]
    known = [(v, cuda) for v in here if (cuda := Version.maybe(v.cuda)) is not None]
    known.sort(key=lambda pair: (pair[0].default, pair[1].low), reverse=True)
    for variant, cuda in known:
        base = _candidate(delivery, release, version, setting, cuda)
        torch = Torch(
            version,
            cuda,
            "" if variant.default else variant.name,
            variant.name,
            "" if variant.default else variant.index,
            variant.unseen,
        )
        unseen = (variant.unseen,) if variant.unseen else ()
        yield replace(base, torch=torch, index=torch.index, unseen=unseen)
