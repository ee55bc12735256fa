"""Hosts with rules of their own: WSL2 and Jetson."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace

from doctor.facts import (
    ComputeCapability,
    Coverage,
    Device,
    Kernels,
    Missing,
    MissingFact,
    Version,
)
from doctor.facts.codes import CodeTarget
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.matrix.model import Release
from doctor.rules import cards
from doctor.rules.builds import runtime_build
from doctor.rules.decide import each
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.gpu_code import holders
from doctor.rules.settings import covering
from doctor.rules.software import admits, engine, installed

_WSL_LIBRARIES = "/usr/lib/wsl/"
_LINUX_DRIVERS = ("nvidia-driver-", "cuda-drivers", "nvidia-kernel-", "nvidia-dkms-",
                  "libnvidia-compute-", "libcuda1", "nvidia-utils-")  # fmt: skip


@rule("HST191", cause="wsl-specific", severity=Severity.ERROR)
def linux_driver_inside_wsl(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A Linux driver is installed inside WSL, where the driver is that of Windows.

    What: driver packages of the distribution, and which libcuda and libnvidia-ml the
        loader finds first.
    Why: WSL passes the Windows driver in through /usr/lib/wsl/lib. A Linux driver's
        library that is found before it talks to a kernel module that does not exist.
    How to fix: remove the Linux driver packages; install toolkit packages only, never
        `cuda` or `cuda-drivers`; update the driver in Windows.
    Silent when: the libraries found first are those of WSL.
    Sources: NVIDIA CUDA on WSL user guide.
    """
    _need_wsl(case)
    yield from each((lambda: _packaged(case), lambda: _shadowed(case), lambda: _userspace(case)))


def _need_wsl(case: Case) -> None:
    if case.facts.host.platform.known("host.platform") != "wsl2":
        raise NotApplicable("not WSL")


def _packaged(case: Case) -> Iterator[Fault]:
    reading = case.facts.host.packages
    names = [p.name for p in reading.known("host.packages") if p.name.startswith(_LINUX_DRIVERS)]
    if names:
        yield _wsl(Evidence(f"installed: {', '.join(names[:4])}", reading.at), names)


def _shadowed(case: Case) -> Iterator[Fault]:
    nvidia = case.facts.nvidia
    for reading in (nvidia.libcuda, nvidia.libnvidia_ml):
        found = [lib for lib in reading.known("nvidia.libcuda") if lib.searched is not None]
        first = min(found, key=lambda lib: lib.searched or 0, default=None)
        if first is not None and not first.path.startswith(_WSL_LIBRARIES) and not first.compat:
            yield _wsl(Evidence(f"{first.path} is found first", first.path), [])
            return


def _userspace(case: Case) -> Iterator[Fault]:
    """A user-space driver version beside that of Windows can only be a Linux one."""
    if case.facts.nvidia.libcuda.is_known:
        raise NotApplicable("the libraries themselves were read")
    reading = case.facts.nvidia.userspace
    version = reading.known("nvidia.userspace")
    windows = case.facts.nvidia.driver.value
    if not reading.at.startswith(_WSL_LIBRARIES) and (
        windows is None or version.same_as(windows) is False
    ):
        yield _wsl(Evidence(f"Linux driver libraries {version}", reading.at), [])


def _wsl(fact: Evidence, names: list[str]) -> Fault:
    remove = (
        f"sudo apt-get purge {shlex.join(names)}" if names else "apt list --installed '*nvidia*'"
    )
    return Fault(
        message="a Linux NVIDIA driver is installed inside WSL and hides the one of Windows",
        evidence=(fact,),
        remedies=(
            Remedy(
                action="remove the Linux driver; the libraries in /usr/lib/wsl/lib are enough",
                commands=(remove, "sudo ldconfig", "ldconfig -p | grep libcuda.so.1"),
            ),
        ),
        sources=("https://docs.nvidia.com/cuda/wsl-user-guide/",),
    )


@rule("HST192", cause="jetson-specific", severity=Severity.ERROR)
def desktop_build_on_jetson(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A build for desktop and server GPUs is meant to run on a Jetson.

    What: on a Jetson, the code of installed builds, and the published builds of an
        engine that is not installed yet, against the module's compute capability.
    Why: code for a Jetson and for other cards does not cross, even within one major; the
        wheels on PyPI and the general CUDA back ends are made for the others.
    How to fix: wheels of the Jetson index for this JetPack, or a container made for it
        (jetson-containers, the vendor's images).
    Silent when: the build holds code for the module, or is not known.
    Sources: CUDA C++ Programming Guide, binary compatibility; Jetson AI Lab index.
    """
    device = _need_jetson(case, matrix)
    yield from each(
        (
            lambda: _installed_build(case, matrix, device),
            lambda: _general_index(case, matrix, device),
            lambda: _published_builds(case, matrix, device),
        )
    )


def _need_jetson(case: Case, matrix: Matrix) -> Device | None:
    tegra = [d for d in case.nvidia_devices if cards.is_tegra(d, matrix)]
    if tegra:
        return tegra[0]
    platform = case.facts.host.platform
    if platform.is_known and platform.value != "jetson":
        raise NotApplicable("not a Jetson")
    if case.nvidia_devices and all(cards.capability(d, matrix).is_known for d in case.devices):
        raise NotApplicable("not a Jetson")
    if platform.value != "jetson":
        raise MissingFact("host.platform", Missing.NOT_STATED)
    return None


def _capability(device: Device | None, matrix: Matrix) -> ComputeCapability:
    if device is None:
        raise MissingFact("devices.compute_capability", Missing.NOT_STATED)
    return cards.need_capability(device, matrix)


def _installed_build(case: Case, matrix: Matrix, device: Device | None) -> Iterator[Fault]:
    card = _capability(device, matrix)
    found = [h for h in holders(case, matrix) if h.is_core and not h.is_assumed]
    if not found:
        raise NotApplicable("no installed build with known code")
    for holder in found:
        total = sum(kernels.count for kernels in holder.kernels)
        if total and holder.count(Coverage.NONE, card, matrix.tegra) == total:
            yield _desktop(
                f"{holder.name} holds no code for {card}", holder.evidence, device, matrix
            )
            return


def _general_index(case: Case, matrix: Matrix, device: Device | None) -> Iterator[Fault]:
    """Versions without a label of their own, which the general index has not for this module."""
    torch = case.scope.torch.value
    if case.scope.binaries.is_known or (torch is not None and torch.cuda.is_known):
        raise NotApplicable("the installed build itself is known")
    named = [f for f in (installed(case, matrix, "torch"), engine(case, matrix)) if f is not None]
    if any((f.version and f.version.local) or case.scope.variants.get(f.name) for f in named):
        raise NotApplicable("a build of its own is named")
    for found in named:
        on_torch = found.name == "torch" or any("torch" in row.pins for row in found.rows)
        stated = found.version is not None and bool(found.rows) and on_torch
        if stated and all(_is_not_for_arm(row) for row in found.rows):
            what = f"{found.label} of the general index is no CUDA build for aarch64"
            fault = _desktop(what, found.evidence, device, matrix)
            # It may still come from an index or a source made for the module.
            yield replace(fault, severity=Severity.WARNING, sources=tuple(found.rows[0].source))
            return


def _is_not_for_arm(row: Release) -> bool:
    """Nothing is published for aarch64, or what pip takes there is the CPU build."""
    own = [v for v in row.variants if "aarch64" in v.archs and v.default]
    absent = bool(row.archs) and "aarch64" not in row.archs
    return absent or (bool(own) and all(v.name == "cpu" for v in own))


def _published_builds(case: Case, matrix: Matrix, device: Device | None) -> Iterator[Fault]:
    """An engine of which nothing is installed: would the newest published build run here?"""
    found = engine(case, matrix)
    if found.version is not None or case.scope.image.ref:
        raise NotApplicable("the engine is installed")
    card = _capability(device, matrix)
    own_torch = case.scope.torch.is_known or case.scope.package("torch") is not None
    on_torch = any("torch" in row.pins for row in found.rows) and not own_torch
    for name in (found.name, "torch") if on_torch else (found.name,):
        names = _arm_targets(matrix, name)
        kernels = Kernels(tuple(map(CodeTarget.parse, names)))
        if names and kernels.coverage(card, matrix.tegra) is Coverage.NONE:
            fact = Evidence(f"{name} for aarch64 is published for {' '.join(names)}", "matrix")
            what = f"no published build of {name} holds code for {card}"
            # Nothing is installed yet: it may still come from a source made for the module.
            yield replace(_desktop(what, fact, device, matrix), severity=Severity.WARNING)
            return


def _arm_targets(matrix: Matrix, name: str) -> tuple[str, ...]:
    """Code of the newest release's default artefact for aarch64."""
    domain = matrix.engine(name)
    for row in domain.releases if domain else ():
        own = [v for v in row.variants if "aarch64" in v.archs and v.default]
        listed = dict.fromkeys(t for v in own for t in v.targets)
        if listed:
            return tuple(t for t in listed if t.startswith(("sm_", "compute_")))
    return ()


def _desktop(what: str, fact: Evidence, device: Device | None, matrix: Matrix) -> Fault:
    return Fault(
        message=f"{what}: it is made for desktop and server cards, and this is a Jetson",
        evidence=(fact, *((cards.evidence(device, matrix),) if device else ())),
        remedies=(
            Remedy("install it from the Jetson index for this JetPack, or use a Jetson container"),
        ),
        sources=("https://pypi.jetson-ai-lab.io/", "https://github.com/dusty-nv/jetson-containers"),
    )


@rule("HST193", cause="jetson-specific", severity=Severity.ERROR)
def jetpack_too_old(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The JetPack of a Jetson is older than the build's CUDA.

    What: the CUDA version of the JetPack against the CUDA runtime of the build, or else against
        the toolkit that the engine's sources need.
    Why: the driver is part of the system image and moves with JetPack only; a build for a
        newer CUDA major does not start.
    How to fix: a build or container made for this JetPack, or flash a newer JetPack where
        the module has one.
    Silent when: the build's CUDA is only assumed, or of the same major.
    Sources: NVIDIA JetPack release notes (rows in the matrix).
    """
    host = case.facts.host
    if host.platform.known("host.platform") != "jetson":
        raise NotApplicable("not a Jetson")
    jetpack = host.jetpack.known("host.jetpack")
    row = matrix.distro("jetpack", str(jetpack).removesuffix(".*"))
    own = Version.maybe(row.cuda) if row else None
    if row is None or own is None:
        raise MissingFact(f"matrix row of JetPack {jetpack}", Missing.NOT_STATED)
    what, fact = _asked_cuda(case, matrix, own)
    if what:
        yield Fault(
            message=f"{what}, and JetPack {row.versions[0]} has CUDA {own}",
            evidence=(fact, Evidence(f"JetPack {jetpack}", host.jetpack.at)),
            remedies=(
                Remedy(f"use a build or container made for JetPack {row.versions[0]}"),
                Remedy("or flash a newer JetPack", reboot=True, undo="none"),
            ),
            sources=tuple(row.source),
        )


def _asked_cuda(case: Case, matrix: Matrix, own: Version) -> tuple[str, Evidence]:
    """What asks for another CUDA than the JetPack has: the build, or the sources of the engine."""
    build = runtime_build(case, matrix)
    if build is not None and not build.assumed:
        later = (build.cuda.major or 0) > (own.major or 0)
        return f"{build.label} is built for CUDA {build.cuda}" if later else "", build.evidence
    found = engine(case, matrix)
    for match in covering(matrix, found, "toolkit"):
        if match.claim.value.startswith(">") and admits(match.claim.value, own) is False:
            return f"{found.label} needs CUDA {match.claim.value} to be built", found.evidence
    raise MissingFact("the CUDA version of the installed build", Missing.NOT_STATED)


RULES: tuple[Rule, ...] = (
    linux_driver_inside_wsl,
    desktop_build_on_jetson,
    jetpack_too_old,
)
