"""Python environments as scopes: their distributions, their torch, what they lack."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Optional

from doctor.facts import (
    Missing,
    Package,
    PythonInfo,
    Reading,
    Scope,
    TorchBuild,
    Version,
    missing,
    seen,
)
from doctor.facts.host import SystemPackage
from doctor.probes import dists, layout, torch_build
from doctor.probes.files import relay
from doctor.probes.host import Host
from doctor.probes.pyenvs import Environment, discover

# An environment that nobody named and that has none of these is of no interest.
_OF_INTEREST = frozenset(
    """
    torch vllm sglang tensorrt_llm text_generation_server llama_cpp xllamacpp lmdeploy onnxruntime
    mlx mlx_lm torch_npu vllm_ascend tensorrt transformers flash_attn bitsandbytes
    """.split()  # noqa: SIM905
)


def read(
    host: Host,
    named: Iterable[str] = (),
    running: Iterable[str] = (),
    packages: tuple[SystemPackage, ...] = (),
) -> tuple[Scope, ...]:
    """All environments of this host that matter; each has the id "KIND:ROOT"."""
    scopes = (
        read_environment(host, environment, packages)
        for environment in discover(host, named, running)
    )
    return tuple(scope for scope in scopes if scope is not None)


def read_environment(
    host: Host, environment: Environment, packages: tuple[SystemPackage, ...] = ()
) -> Optional[Scope]:
    """One environment; None if nobody asked for it and it holds nothing of interest."""
    plan = layout.read(host, environment, packages)
    listings = {site: host.list_dir(site) for site in plan.sites}
    if not environment.asked and not _is_of_interest(listings.values()):
        return None
    found = _packages(host, environment, listings)
    folders = dict.fromkeys([*(p.location for p in found.value or () if p.name == "torch")])
    return Scope(
        id=f"{environment.kind}:{environment.root}",
        kind=environment.kind,
        parent="host",
        root=environment.root,
        python=plan.python,
        packages=found,
        torch=_torch(host, (*folders, *plan.sites), found),
        absent=_absent(host, plan.headers, plan.python),
    )


def _is_of_interest(listings: Iterable[Reading[tuple[str, ...]]]) -> bool:
    """True also for an environment that cannot be looked into."""
    return any(
        names.missing is Missing.NOT_PERMITTED or _OF_INTEREST & set(names.value or ())
        for names in listings
    )


def _packages(
    host: Host, environment: Environment, listings: dict[str, Reading[tuple[str, ...]]]
) -> Reading[tuple[Package, ...]]:
    """Distributions in the order of the path: of two with one name the first is imported."""
    refused = [r for r in listings.values() if not (r.is_known or r.is_absent)]
    if refused and len(refused) == len(listings):
        return relay(refused[0])
    if not listings:
        return missing(Missing.NOT_THERE, f"{environment.root}/lib/python3*/site-packages")
    found: list[Package] = []
    for site, names in listings.items():
        found += dists.read_site(host, site, names.value or ())
        known = {package.name for package in found}
        found += _sources(host, site, names.value or (), known)
    if environment.kind == "conda":
        found += _conda_packages(host, environment.root, {package.name for package in found})
    named = torch_build.with_labels(host, found)
    return seen(named, ", ".join(listings), partial=bool(refused))


def _sources(host: Host, site: str, names: tuple[str, ...], known: set[str]) -> list[Package]:
    """Distributions in folders that .pth files add; an editable install shows there again."""
    found = []
    for folder in dists.added_folders(host, site, names):
        listed = dists.read_site(host, folder, host.list_dir(folder).value or ())
        found += [package for package in listed if package.name not in known]
    return found


def _conda_packages(host: Host, root: str, known: set[str]) -> list[Package]:
    """What conda installed and Python's metadata does not name (CUDA libraries, compilers)."""
    found = []
    for entry in host.list_dir(f"{root}/conda-meta").value or ():
        parts = entry[: -len(".json")].rsplit("-", 2) if entry.endswith(".json") else []
        name = dists.normalized(parts[0]) if len(parts) == 3 else ""
        if name and name not in known:
            version = Version.maybe(parts[1])
            broken = "" if version else f"{parts[1][:60]!r} is not a version"
            place = f"{root}/conda-meta"
            found.append(Package(name, version, tags=(parts[2],), location=place, broken=broken))
    return found


def _torch(
    host: Host, folders: tuple[str, ...], packages: Reading[tuple[Package, ...]]
) -> Reading[TorchBuild]:
    found = torch_build.read(host, folders)
    if found.is_absent and not packages.is_known and not packages.is_absent:
        return relay(packages)
    return found


def _absent(host: Host, headers: str, python: Reading[PythonInfo]) -> Reading[tuple[str, ...]]:
    """Python.h, which compilers of kernels need at run time."""
    if not headers or not python.is_known:
        return missing(Missing.NOT_STATED)
    header = host.stat(f"{headers}/Python.h")
    return seen(("Python.h",) if header.is_absent else (), header.at, partial=True)
