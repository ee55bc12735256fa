"""Which builds of torch fit the pin of an engine's release."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.facts import Specifier, Version
from doctor.matrix import Matrix
from doctor.matrix.model import Release, Variant
from doctor.stack.model import Torch

_NEWEST = 2  # Of a pin that admits many versions, so many with a fitting build are proposed.


def choices(
    matrix: Matrix, pin: str, cuda: Version | None, variant: str, arch: str
) -> tuple[Torch | None, ...]:
    """Builds of torch for a release that pins it; (None,) for one that does not.

    `variant` is the engine's own build label, "" for its default build.
    """
    spec = Specifier.parse(pin) if pin else None
    if spec is None:
        return (None,)
    exact = exact_pin(pin)
    rows = _admitted(matrix, spec, exact)
    if exact is not None and not rows:
        return (Torch(exact, cuda, variant, variant),)
    listed = [t for row, v in rows for t in _builds(row, v, cuda, variant, arch)]
    if exact is not None:
        return tuple(listed)
    fitting = [t for t in listed if t.cuda is None or cuda is None or t.cuda.major == cuda.major]
    return (*listed[:1], *(t for t in fitting[:_NEWEST] if t not in listed[:1]))


def _admitted(
    matrix: Matrix, spec: Specifier, exact: Version | None
) -> list[tuple[Release, Version]]:
    """Final releases of torch that a pin admits, newest first."""
    if exact is not None:
        row = matrix.release("torch", exact)
        found = [(row, Version(row.version))] if row else []
    else:
        found = [(row, v) for row, v in matrix.versions("torch") if spec.admits(v) is True]
    return [(row, v) for row, v in found if not row.prerelease and not v.is_prerelease]


def exact_pin(pin: str) -> Version | None:
    """The one version that a pin names, or None: "==2.7.*" leaves a choice."""
    version = Version.maybe(pin.removeprefix("==")) if pin.startswith("==") else None
    return version if version is not None and version.is_exact else None


def _builds(
    row: Release, version: Version, cuda: Version | None, variant: str, arch: str
) -> Iterator[Torch]:
    """Builds of one version: with a label that of the label; else the default, then others."""
    here = [v for v in row.variants if not arch or not v.archs or arch in v.archs]
    if variant:
        named = [v for v in here if v.name == variant]
        if named:
            yield from (_torch(v, version, is_labelled=not v.default) for v in named[:1])
        else:
            unseen = f"no build {variant} of torch {version} is known"
            yield Torch(version, cuda, variant, variant, unseen=unseen)
        return
    default = [v for v in here if v.default]
    yield from (_torch(v, version, is_labelled=False) for v in default[:1])
    if not default:
        yield Torch(version, Version.maybe(row.cuda))
    others = [v for v in here if not v.default and _is_of_major(v, cuda)]
    is_fit = any(_is_of_major(v, cuda) for v in default)
    if not is_fit:
        newest = sorted(others, key=lambda v: Version(v.cuda or "0").low, reverse=True)
        yield from (_torch(v, version, is_labelled=True) for v in newest)


def _is_of_major(variant: Variant, cuda: Version | None) -> bool:
    own = Version.maybe(variant.cuda)
    return own is not None and cuda is not None and own.major == cuda.major


def _torch(variant: Variant, version: Version, is_labelled: bool) -> Torch:
    return Torch(
        version=version,
        cuda=Version.maybe(variant.cuda),
        label=variant.name if is_labelled else "",
        build=variant.name,
        index=variant.index if is_labelled else "",
        unseen=variant.unseen,
    )
