"""Commands that install a build of a package, quoted for people who paste them as root."""

from __future__ import annotations

import shlex

from doctor.facts import Version
from doctor.findings import Remedy
from doctor.matrix import Matrix
from doctor.matrix.model import Release, Variant
from doctor.matrix.stacks import Delivery
from doctor.rules.engine import Case

_MUST_FOLLOW = "packages built against the present one must change with it"


def install_build(
    case: Case, matrix: Matrix, package: str, build: tuple[Release, Variant], why: str
) -> Remedy:
    """The remedy to install one build of a release; `why` says what is gained by it.

    The command names the build's index or file. A page that lists files is no index: then
    the text names the page.
    """
    release, variant = build
    row = _delivery(matrix, matrix.engine_packages.get(package, package), release, variant)
    command = _command(case, matrix, package, build, row)
    doubts = (_MUST_FOLLOW, variant.unseen, row.unseen if row else "")
    page = "" if command else f"; its files are at {variant.index}"
    return Remedy(
        action=f"install {package} {release.version} in its {variant.name} build, {why}{page}",
        commands=(command,) if command else (),
        role="python_env",
        risk="; ".join(filter(None, doubts)),
    )


def _command(
    case: Case,
    matrix: Matrix,
    package: str,
    build: tuple[Release, Variant],
    row: Delivery | None,
) -> str | None:
    release, variant = build
    wanted = f"pip install --force-reinstall {shlex.quote(f'{package}=={release.version}')}"
    if not variant.index.startswith("http"):
        return wanted
    if row is not None and row.url:
        arch = case.facts.host.arch.value or "x86_64"
        url = row.url.format(version=release.version, variant=variant.name, arch=arch)
        index = row.extra_index or _torch_index(matrix, release, variant)
        beside = f" --extra-index-url {index}" if index else ""
        return f"pip install --force-reinstall {shlex.quote(url)}{beside}"
    return None if "/releases" in variant.index else f"{wanted} --index-url {variant.index}"


def _torch_index(matrix: Matrix, release: Release, variant: Variant) -> str:
    """Where the torch that this build pins is to be had for the same CUDA version."""
    version = Version.maybe(release.pins.get("torch", "").removeprefix("=="))
    row = matrix.release("torch", version) if version else None
    found = (v.index for v in (row.variants if row else ()) if v.name == variant.name)
    return next((index for index in found if index.startswith("http")), "")


def _delivery(matrix: Matrix, engine: str, release: Release, variant: Variant) -> Delivery | None:
    version = Version(release.version)
    for row in matrix.stacks.deliveries:
        since, until = Version.maybe(row.since), Version.maybe(row.until)
        fits = (since is None or version.at_least(since)) and (
            until is None or version.older_than(until)
        )
        if row.engine == engine and row.variant == variant.name and fits:
            return row
    return None
