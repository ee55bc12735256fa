"""Do kernel module, user-space libraries and the libcuda in use belong together."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace

from doctor.facts import DriverLibrary, Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules import cards
from doctor.rules.compat import Compat, verdict
from doctor.rules.cuda_level import effective_library
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.image_facts import image_cuda

_REBOOT = Remedy(
    action="reboot, so that the installed module is the loaded one",
    commands=("sudo reboot",),
    risk="running GPU work stops",
    reboot=True,
)
_RELOAD = Remedy(
    action="or stop every process that uses a GPU and load the modules again",
    commands=(
        "sudo systemctl stop nvidia-persistenced nvidia-fabricmanager",
        "sudo modprobe -r nvidia_drm nvidia_modeset nvidia_uvm nvidia",
        "sudo modprobe nvidia && sudo modprobe nvidia_uvm",
    ),
    risk="fails while any process holds a GPU",
)


_MISMATCH = 18  # NVML_ERROR_LIB_RM_VERSION_MISMATCH


def _need_linux_driver(case: Case) -> None:
    """A Linux kernel driver for NVIDIA, or `NotApplicable`; `MissingFact` if unknown."""
    if case.facts.host.platform.value == "wsl2":
        raise NotApplicable("the kernel driver is the one of Windows")
    if case.facts.devices.is_known and not case.nvidia_devices:
        raise NotApplicable("no nvidia device")
    if case.facts.nvidia.driver.is_absent:
        raise NotApplicable("no driver is loaded")


@rule("DRV121", cause="driver-library-mismatch", severity=Severity.ERROR)
def module_differs_from_libraries(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The loaded kernel module and the driver's libraries are of different versions.

    What: the version of the loaded module against that of libcuda and libnvidia-ml, to
        the last digit; and NVML's own refusal.
    Why: both sides speak a private protocol. New processes fail with NVML 18
        "Driver/library version mismatch"; those already running go on.
    How to fix: after an upgrade, reboot or load the modules again. Where two installers
        put libraries on disk, remove the foreign set. In a container, mount the host's
        libraries and install none of its own. Then hold the packages.
    Silent when: the library is a forward-compatibility copy, which may be newer.
    Sources: NVIDIA open-gpu-kernel-modules, version check of the client interface; NVML
        return codes.
    """
    _need_linux_driver(case)
    nvidia = case.facts.nvidia
    if nvidia.nvml_error.value == _MISMATCH and not nvidia.driver.is_known:
        yield _refused(case)
        return
    module = nvidia.driver.known("nvidia.driver")
    libraries = list(_library_versions(case))
    if not libraries:
        nvidia.userspace.known("nvidia.userspace")
    for version, fact in libraries:
        if version.same_as(module) is False:
            yield Fault(
                message=f"kernel module {module} and driver libraries {version} do not match",
                evidence=(Evidence(f"kernel module {module}", nvidia.driver.at), fact),
                remedies=_remedies(case, module),
                sources=("NVIDIA/open-gpu-kernel-modules: rm client version check",),
            )
            return
    if nvidia.nvml_error.value == _MISMATCH:
        yield _refused(case)
    elif all(version.same_as(module) is None for version, _ in libraries):
        nvidia.smi_driver.known("nvidia.driver to the last digit")


def _refused(case: Case) -> Fault:
    """NVML compares both to the last digit itself; its refusal says no more than that."""
    nvidia = case.facts.nvidia
    known = [Evidence(f"NVML error {_MISMATCH}: versions do not match", nvidia.nvml_error.at)]
    if nvidia.userspace.is_known:
        known.append(Evidence(f"driver libraries {nvidia.userspace.value}", nvidia.userspace.at))
    return Fault(
        message="the loaded kernel module and the driver libraries are of different versions",
        evidence=tuple(known),
        remedies=(_REBOOT, _RELOAD),
        sources=("NVML API reference, return codes",),
    )


def _library_versions(case: Case) -> Iterator[tuple[Version, Evidence]]:
    """Versions of the libraries that processes of the host load, compat copies left out."""
    nvidia = case.facts.nvidia
    if nvidia.userspace.value is not None:
        version = nvidia.userspace.value
        yield version, Evidence(f"driver libraries {version}", nvidia.userspace.at)
    for lib in (*_searched(nvidia.libcuda.value), *_searched(nvidia.libnvidia_ml.value)):
        if lib.version is not None:
            yield lib.version, Evidence(f"{lib.path} is {lib.version}", lib.path)


def _searched(libraries: tuple[DriverLibrary, ...] | None) -> tuple[DriverLibrary, ...]:
    """The copy that the loader finds first, unless it is a compat copy."""
    found = [lib for lib in libraries or () if lib.searched is not None]
    first = min(found, key=lambda lib: lib.searched or 0, default=None)
    return () if first is None or first.compat else (first,)


def _remedies(case: Case, module: Version) -> tuple[Remedy, ...]:
    on_disk = case.facts.nvidia.module_on_disk.value
    if on_disk is not None and on_disk.same_as(module) is False:
        return (_REBOOT, _RELOAD)
    foreign = Remedy(
        action=f"install driver libraries of exactly {module}, and remove the other set",
        commands=("ldconfig -p | grep -E 'libcuda|libnvidia-ml'",),
        role="nvidia_driver",
    )
    return (foreign, _REBOOT) if on_disk is not None else (_REBOOT, _RELOAD, foreign)


@rule("DRV122", cause="driver-library-mismatch", severity=Severity.WARNING)
def reboot_is_pending(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The kernel module on disk is another version than the loaded one.

    What: the version of the loaded module against the one that the next boot loads.
    Why: the driver was upgraded while it was in use. It works until libraries or the
        machine change; then module and libraries split, or another driver comes up.
    How to fix: plan a reboot, and hold the driver packages until then.
    Silent when: the two agree, or one of them was not read.
    Sources: NVIDIA README, kernel module versions; modinfo(8).
    """
    _need_linux_driver(case)
    loaded = case.facts.nvidia.driver.known("nvidia.driver")
    on_disk = case.facts.nvidia.module_on_disk.known("nvidia.module_on_disk")
    if on_disk.same_as(loaded) is False:
        yield Fault(
            message=f"module {loaded} is loaded, and {on_disk} is installed for the next boot",
            evidence=(
                Evidence(f"loaded module {loaded}", case.facts.nvidia.driver.at),
                Evidence(f"module on disk {on_disk}", case.facts.nvidia.module_on_disk.at),
            ),
            remedies=(_REBOOT,),
        )


@rule("DRV123", cause="driver-library-mismatch", severity=Severity.ERROR)
def compat_library_older_than_driver(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A forward-compatibility libcuda that is older than the driver is found first.

    What: the libcuda that the loader finds first; if it is a compat copy, its version
        against the kernel driver.
    Why: a compat library serves drivers older than itself. With a newer driver the first
        CUDA call fails with 803 "unsupported display driver / cuda driver combination".
    How to fix: let the host's libcuda be found first: take the compat folder out of
        LD_LIBRARY_PATH and of ld.so.conf.d, or put the folder of the host's library first.
    Silent when: no compat copy is found first.
    Sources: CUDA Compatibility guide, forward compatibility; gpustack issue 4678,
        vllm issue 33447.
    """
    library = _compat_in_use(case, matrix)
    driver = case.facts.nvidia.driver.known("nvidia.driver")
    if library.version is None and case.facts.nvidia.libcuda.at == "packages":
        raise NotApplicable("a package alone puts nothing on the loader's path")
    if verdict(library, driver, case.nvidia_devices, matrix) is Compat.OLDER:
        yield Fault(
            message=f"libcuda {_named(library)} from {library.path} is found before the one "
            f"of driver {driver}, and is older",
            evidence=_facts(case, library),
            remedies=(_host_library_first(library),),
            sources=("https://docs.nvidia.com/deploy/cuda-compatibility/",),
            # A folder on the path may be empty; only a file that was read has a version.
            severity=None if library.version is not None else Severity.WARNING,
        )


def _named(library: DriverLibrary) -> str:
    return str(library.version) if library.version is not None else f"of CUDA {library.cuda}"


def _compat_in_use(case: Case, matrix: Matrix) -> DriverLibrary:
    """The compat copy that is found first; `NotApplicable` if the first one is none."""
    _need_linux_driver(case)
    case.facts.nvidia.libcuda.known("nvidia.libcuda")
    library = effective_library(case)
    if library is None or not library.compat:
        raise NotApplicable("the host's own libcuda is found first")
    image = image_cuda(case.scope, matrix) if library.cuda is None else None
    # The library of an image is of the CUDA that the image is made for.
    return library if image is None else replace(library, cuda=image.cuda)


def _facts(case: Case, library: DriverLibrary) -> tuple[Evidence, ...]:
    driver = case.facts.nvidia.driver
    return (
        Evidence(f"compat libcuda {library.version or ''} is found first", library.path),
        Evidence(f"driver {driver.value}", driver.at),
    )


def _host_library_first(library: DriverLibrary) -> Remedy:
    folder = library.path.rpartition("/")[0]
    place = shlex.quote(folder)
    return Remedy(
        action=f"let the host's libcuda be found before {folder}",
        commands=(
            f"grep -rl {place} /etc/ld.so.conf.d/  # remove the file, then run ldconfig",
            "echo $LD_LIBRARY_PATH  # in a container: /usr/local/nvidia/lib64 goes first",
        ),
    )


@rule("DRV131", cause="forward-compat-unsupported-hw", severity=Severity.ERROR)
def compat_library_refused(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A forward-compatibility libcuda is used on a card or branch that does not allow it.

    What: the note inside the compat library that is found first, or what is known of its
        CUDA version: driver branches and brands of cards that it serves.
    Why: forward compatibility is for data-centre cards, some workstation cards and
        Jetson, and for the branches that the library was made for. Elsewhere the first
        CUDA call fails with 804 or 803.
    How to fix: raise the host's driver to the CUDA version of the image; or take the
        compat folder out of the search path and use a build that the driver can run.
    Silent when: the library's note names the branch and the brand, or no compat copy is
        found first.
    Sources: CUDA Compatibility guide, forward compatibility; notes read from the
        libraries (rows in the matrix).
    """
    library = _compat_in_use(case, matrix)
    driver = case.facts.nvidia.driver.value
    answer = verdict(library, driver, case.nvidia_devices, matrix)
    if driver is None and answer is not Compat.CARD:
        case.facts.nvidia.driver.known("nvidia.driver")
    if answer in (Compat.BRANCH, Compat.CARD):
        row = matrix.forward_compat(library.cuda) if library.cuda else None
        yield Fault(
            message=f"{library.path} is {answer.value}"
            + (f" (driver {driver})" if answer is Compat.BRANCH else ""),
            evidence=(*_facts(case, library), *_card_facts(case, matrix)),
            remedies=(_host_library_first(library),),
            sources=tuple(row.source) if row else (),
            # Whether it is in use was not seen where not even the driver was.
            severity=Severity.WARNING if driver is None else None,
        )
    elif answer is None:
        case.need_vendor("nvidia")[0].brand.known("devices.brand")


def _card_facts(case: Case, matrix: Matrix) -> tuple[Evidence, ...]:
    return tuple(cards.evidence(d, matrix) for d in cards.distinct(case.nvidia_devices))


@rule("DRV124", cause="driver-library-mismatch", severity=Severity.WARNING)
def libraries_replaced_under_engine(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A running engine has driver or CUDA libraries mapped that were replaced on disk since.

    What: the libraries that the engine's processes have mapped; the kernel marks those whose
        file is gone.
    Why: an upgrade went on under the engine. It runs on with the old files; what it loads
        later, and every process that it starts, gets the new ones, and the two may not fit.
    How to fix: start the engine again; reboot first if the driver itself was upgraded.
    Silent when: the engine does not run, or its mapped files are all in place.
    Sources: proc_pid_maps(5).
    """
    if case.workload is None or case.workload.pid is None:
        raise NotApplicable("no running engine")
    reading = case.workload.libraries
    gone = [path for path in reading.known("workload.libraries") if path.endswith(_REPLACED)]
    if gone:
        shown = ", ".join(path.removesuffix(_REPLACED) for path in gone[:3])
        yield Fault(
            message=f"replaced on disk since {case.workload.engine} started: {shown}",
            evidence=(Evidence(gone[0], reading.at),),
            remedies=(Remedy("start the engine again"), _REBOOT),
            subject=case.workload.id,
        )


_REPLACED = " (deleted)"

RULES: tuple[Rule, ...] = (
    module_differs_from_libraries,
    reboot_is_pending,
    compat_library_older_than_driver,
    libraries_replaced_under_engine,
    compat_library_refused,
)
