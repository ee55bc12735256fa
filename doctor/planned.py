"""Environments that do not exist yet: what files and profiles ask for, put on a host.

Requirements, a Dockerfile, a compose file or a profile are read, what the matrix knows of a
base image is added, and each environment is put alone on the host that was named: so the one
judge can be asked about it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from doctor.diagnose import holds_engine
from doctor.examine import Plans
from doctor.facts import (
    UNSTATED,
    CudaToolkit,
    Facts,
    Package,
    PythonInfo,
    Reading,
    Scope,
    Version,
    seen,
)
from doctor.intake.builds import torch_build
from doctor.intake.detect import read_text, text_of
from doctor.intake.formats import compose, dockerfile
from doctor.intake.project_toml import is_project, read_project
from doctor.intake.requirement_file import read_requirements
from doctor.intake.text import plain
from doctor.matrix import Matrix
from doctor.named_files import read_below
from doctor.rules.image_facts import Tagged, tagged
from doctor.stack.setting import python_of
from doctor.stack.torch_choice import exact_pin

_PLACE = re.compile(r"(.+):\d{1,7}")
_SYSTEM = re.compile(r"([a-z]+)([\d.]+)")


@dataclass(frozen=True)
class Planned:
    """One host a planned environment; `paths` are the files that it was read from."""

    hosts: tuple[Facts, ...]
    paths: tuple[str, ...]


def planned(plans: Plans, read: Iterable[Facts], host: Facts, matrix: Matrix) -> Planned:
    """Put each environment that was read from the files on the host."""
    hosts = [placed for facts in read for placed in _placed(facts, host, matrix)]
    # Databases and proxies beside the engine are nobody's question.
    hosts = [facts for facts in hosts if _is_asked(facts, matrix)] or hosts
    named = (*plans.requirements, *plans.dockerfiles, *plans.composes)
    found = [path for facts in hosts for path in _paths(facts)]
    return Planned(tuple(hosts), tuple(dict.fromkeys((*named, *found))))


def _is_asked(facts: Facts, matrix: Matrix) -> bool:
    """Tell whether an engine is in it, or an image on which engines are built."""
    scope = facts.scopes[0]
    known = tagged(scope.image.ref, matrix) is not None
    return known or bool(facts.workloads) or holds_engine(scope, matrix)


def read_plans(plans: Plans, matrix: Matrix) -> Iterator[Facts]:
    """Read the files, one after the other. Raises UsageError."""
    for path in plans.requirements:
        text = plain(read_text(path))
        wanted = (
            read_project(text, path)
            if is_project(path)
            else read_requirements(text, path, files_beside)
        )
        yield Facts(scopes=(wanted.scope(path),), notes=wanted.notes)
    for path in plans.dockerfiles:
        yield dockerfile.read(plain(read_text(path)), path, files_beside)
    for path in plans.composes:
        yield compose.read(plain(read_text(path)), path, files_beside)
    if plans.profile:
        from doctor.planned_profile import profile_facts

        yield profile_facts(plans.profile, matrix)


def files_beside(named: str, beside: str) -> tuple[str, str] | None:
    """A file that another one names: of its own folder or below, or of the working folder.

    None for any other: whoever sends a repository must not have other files read.
    """
    if not named or named.startswith(("/", "~")) or "\0" in named or "://" in named:
        return None
    path = os.path.normpath(os.path.join(os.path.dirname(beside), named))
    roots = {os.path.realpath(os.path.dirname(beside) or "."), os.path.realpath(".")} - {"/"}
    data = read_below(path, roots)
    return None if data is None else (path, plain(text_of(data, path)))


def _placed(read: Facts, host: Facts, matrix: Matrix) -> Iterator[Facts]:
    """The host with one environment of the file at a time, and its engine."""
    for scope in read.scopes:
        mine = tuple(work for work in read.workloads if work.scope == scope.id)
        on = replace(host, scopes=(), workloads=mine, logs=(), notes=(*host.notes, *read.notes))
        yield on_host(scope, on, matrix, python_of(host))


def on_host(
    scope: Scope, host: Facts, matrix: Matrix, python: Reading[PythonInfo] | None = None
) -> Facts:
    """The host with that environment alone, and what the matrix knows of it."""
    python = python_of(host) if python is None else python
    base = tagged(scope.image.ref, matrix)
    if scope.kind == "venv":
        known = scope.python.value
        settled = python.is_known and not (known and known.version.is_exact)
        scope = replace(scope, python=python) if settled else scope
    elif base is not None:
        scope = _on_base(scope, base, matrix)
        host = _with_toolkit(host, scope, base)
    if scope.kind != "venv":
        host = _with_level(host, matrix)
    return replace(host, scopes=(_with_torch(scope, matrix),))


def _on_base(scope: Scope, base: Tagged, matrix: Matrix) -> Scope:
    """What the tag of the base image tells: CUDA, Python, the C library, the engine."""
    at = scope.image.cuda.at or "image tag"
    cuda = Version.maybe(base.stated(base.row.cuda))
    image = replace(scope.image, cuda=seen(cuda, at)) if cuda else scope.image
    system = _SYSTEM.fullmatch(base.stated(base.row.os))
    row = matrix.distro(system[1], system[2]) if system else None
    stated = base.stated(base.row.python) or (row.python if row and scope.packages.value else "")
    python = scope.python if scope.python.is_known else _python(stated or "", at)
    libc = seen(Version(row.glibc), at) if row and row.glibc else scope.libc
    scope = replace(scope, image=image, python=python, libc=libc)
    return _with_engine(scope, base, at, matrix)


def _python(text: str, at: str) -> Reading[PythonInfo]:
    version = Version.maybe(f"{text}.*" if text.count(".") == 1 else text)
    return seen(PythonInfo(version), at) if version else UNSTATED


def _with_engine(scope: Scope, base: Tagged, at: str, matrix: Matrix) -> Scope:
    """The engine that the base image carries, unless the file installs another version."""
    name, version = base.row.engine, Version.maybe(base.words.get("version"))
    packages = scope.packages.value or ()
    if not name or version is None or any(p.name == name and p.version for p in packages):
        return scope
    if name == "torch":
        label = _label_of_image(scope, matrix)
        build = seen(torch_build(version, label, at), at)
        scope = replace(scope, torch=build, variants={"torch": label})
    others = tuple(package for package in packages if package.name != name)
    listed = (Package(name, version, location=at), *others)
    return replace(scope, packages=seen(listed, scope.packages.at or at, partial=True))


def _with_toolkit(host: Facts, scope: Scope, base: Tagged) -> Facts:
    """The CUDA libraries that extensions find in there are those of the image."""
    flavour, cuda = base.words.get("flavour", ""), scope.image.cuda
    if flavour not in ("runtime", "devel") or cuda.value is None:
        return host
    toolkit = CudaToolkit("/usr/local/cuda", cuda.value, nvcc=flavour == "devel")
    return replace(host, nvidia=replace(host.nvidia, toolkits=seen((toolkit,), cuda.at)))


def _with_level(host: Facts, matrix: Matrix) -> Facts:
    """The CUDA version that the driver offers inside a container: no libcuda was asked there."""
    driver, known = host.nvidia.driver, host.nvidia.cuda_driver_api
    offered = matrix.driver_cuda(driver.value) if driver.value else None
    if offered is None or known.is_known:
        return host
    return replace(host, nvidia=replace(host.nvidia, cuda_driver_api=seen(offered, driver.at)))


def _with_torch(scope: Scope, matrix: Matrix) -> Scope:
    """The torch that an engine pins, in the build that the file's index selects."""
    label = scope.variants.get("torch", "") or _label_of_image(scope, matrix)
    packages = scope.packages.value or ()
    if any(p.name == "torch" and p.version for p in packages):
        return scope
    for package in packages:
        domain = matrix.engine_packages.get(package.name, "")
        release = matrix.release(domain, package.version) if domain and package.version else None
        pinned = exact_pin(release.pins.get("torch", "")) if release else None
        if pinned is not None:
            at = package.location
            torch = Package("torch", pinned, location=at)
            others = tuple(p for p in packages if p.name != "torch")
            return replace(
                scope,
                packages=replace(scope.packages, value=(*others, torch)),
                torch=seen(torch_build(pinned, label, at), at),
            )
    return scope


def _label_of_image(scope: Scope, matrix: Matrix) -> str:
    """The build of torch in an engine's own image: that of the CUDA which it is made for."""
    base, cuda = tagged(scope.image.ref, matrix), scope.image.cuda.value
    if base is None or not base.row.engine or cuda is None or len(cuda.release) < 2:
        return ""
    return "cu" + "".join(str(part) for part in cuda.release[:2])


def _paths(facts: Facts) -> Iterator[str]:
    """Files that lines of an environment are in: those that the named ones include."""
    scope = facts.scopes[0]
    listed = (package.location for package in scope.packages.value or ())
    for at in (*listed, scope.image.cuda.at, scope.python.at):
        match = _PLACE.fullmatch(at)
        if match:
            yield match[1]
