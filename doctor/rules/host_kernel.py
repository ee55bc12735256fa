"""What keeps the NVIDIA kernel module from being built or loaded."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping

from doctor.facts import Version
from doctor.facts.host import DkmsModule
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules.decide import each, missed
from doctor.rules.driver_choice import family, package_commands
from doctor.rules.driver_state import DRIVER_DOMAIN
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.host_libc import distribution
from doctor.rules.settings import possible, settings
from doctor.rules.software import software

HEADERS = re.compile(
    r"(?:linux|kernel|pve|proxmox)[\w.+ -]{0,40}(?:headers|devel)[\w.+~ -]{0,80}|dkms|"
    r"(?:kernel|linux) sources?(?: tree)?",
    re.IGNORECASE,
)
_COMPILERS = re.compile(
    r"(?:gcc|cc|clang|g\+\+)(?:-\d{1,2}(?:\.\d)?)?|make|build-essential|base-devel|"
    r"libelf-dev|elfutils-libelf-devel|flex|bison|(?:the |a )?(?:c )?compiler",
    re.IGNORECASE,
)
_BUILDS_IN_CONTAINER = "gpu-operator"
_DRIVER_IMAGE = re.compile(r"nvidia/driver[:@]")
# What reports about the driver itself name in place of an engine.
_NO_ENGINES = (None, "driver", "gpu-operator", "container-toolkit")
_NVIDIA_DKMS = re.compile(r"nvidia(?:-current|-open|-tesla|-srv)?[\w.-]*", re.IGNORECASE)


def need_bare_host(case: Case, matrix: Matrix) -> None:
    """A host whose NVIDIA module is its own; `NotApplicable` elsewhere."""
    if case.facts.host.platform.value in ("wsl2", "jetson"):
        raise NotApplicable("the driver is not built on this system")
    if case.facts.devices.is_known and not case.nvidia_devices:
        raise NotApplicable("no nvidia device")


def is_loaded(case: Case) -> bool:
    """Tell whether the module was seen loaded, and not only named in a report."""
    loaded = case.facts.nvidia.driver
    modules = case.facts.host.modules.value or ()
    return "nvidia" in modules or loaded.at.startswith(("/proc", "/sys"))


@rule("HST141", cause="kernel-headers-dkms", severity=Severity.ERROR)
def module_not_built(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The NVIDIA module is not built for the running kernel, or its headers are missing.

    What: DKMS's state of the NVIDIA module for the running kernel, and the headers of
        that kernel; for a driver that is compiled in a container, kernels whose headers no
        public archive has.
    Why: after a kernel upgrade DKMS must build the module anew; without headers, or if
        the build fails, the package installs without a word and the driver is gone.
    How to fix: install the headers of the running kernel and its metapackage, so that
        later kernels get theirs, and build again.
    Silent when: the module is loaded, or the driver comes as a ready-made module.
    Sources: dkms(8); NVIDIA Driver Installation Guide, kernel headers.
    """
    names = missed(case, HEADERS) or (missed(case, _COMPILERS) if _is_build(case) else ())
    if names and _is_amd(case):
        yield _no_headers(case, names[0])
        return
    need_bare_host(case, matrix)
    if is_loaded(case):
        raise NotApplicable("the module is loaded")
    if names:
        yield _no_headers(case, names[0])
        return
    kernel = case.facts.host.kernel.known("host.kernel")
    yield from each(
        (
            lambda: _dkms(case, kernel),
            lambda: _headers(case, kernel),
            lambda: _private_headers(case, matrix, kernel),
            lambda: _foreign_kernel(case, matrix, kernel),
        )
    )


def _is_build(case: Case) -> bool:
    """The driver is the subject: then a compiler that is missed is the one of its module."""
    return case.workload is not None and case.workload.engine in ("driver", _BUILDS_IN_CONTAINER)


def _is_amd(case: Case) -> bool:
    """All cards are AMD's, whose driver for ROCm is built for the kernel by DKMS too."""
    return bool(case.devices) and all(device.vendor == "amd" for device in case.devices)


def _private_headers(case: Case, matrix: Matrix, kernel: str) -> Iterator[Fault]:
    """A container that compiles the driver sees public archives only."""
    if case.workload is None or case.workload.engine != _BUILDS_IN_CONTAINER:
        raise NotApplicable("the driver is not compiled in a container")
    for match in matrix.claims(DRIVER_DOMAIN, "kernel-flavour"):
        if kernel.endswith(f"-{match.claim.key}"):
            yield Fault(
                message=f"the driver's container finds no headers of kernel {kernel}: "
                f"{match.claim.text}",
                evidence=(_kernel(case, kernel),),
                remedies=(Remedy(match.claim.remedy),),
                sources=tuple(match.claim.source),
                severity=Severity.WARNING,
            )


def _foreign_kernel(case: Case, matrix: Matrix, kernel: str) -> Iterator[Fault]:
    """A container that compiles the driver finds the headers of the distribution's kernel only."""
    is_driver_image = bool(_DRIVER_IMAGE.search(case.scope.image.ref))
    named = case.workload is not None and case.workload.engine == _BUILDS_IN_CONTAINER
    system = case.facts.host.os.value
    row = distribution(case, matrix) if named or is_driver_image else None
    if row is None or not row.kernel or family(system) != "rhel" or row.id == "fedora":
        raise NotApplicable("the driver is not compiled in a container, or kernels vary")
    own = Version(row.kernel).release[:2]
    running = Version.maybe(kernel.partition("-")[0])
    if running is not None and running.release[:2] != own:
        yield Fault(
            message=f"kernel {kernel} is not one of {row.id} {row.versions[0]}, which has "
            f"{row.kernel}: its archives have no headers for the driver's container",
            evidence=(_kernel(case, kernel),),
            remedies=(
                Remedy("boot the kernel of the distribution"),
                Remedy("or install the driver on the host, with the headers of that kernel"),
            ),
            sources=("https://github.com/NVIDIA/gpu-operator/issues/155", *row.source),
            severity=Severity.WARNING,
        )


def _no_headers(case: Case, name: str) -> Fault:
    kernel = case.facts.host.kernel.value or ""
    return Fault(
        message=f"{name} is not installed: the driver's module cannot be built"
        + (f" for kernel {kernel}" if kernel else ""),
        evidence=(Evidence(f"{name} was not found", "absent"),),
        remedies=(_build(case, kernel or "$(uname -r)", None),),
        sources=("https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/",),
    )


def _dkms(case: Case, kernel: str) -> Iterator[Fault]:
    reading = case.facts.host.dkms
    modules = [m for m in reading.known("host.dkms") if _NVIDIA_DKMS.fullmatch(m.name)]
    if not modules:
        raise NotApplicable("the NVIDIA module is not built by DKMS")
    if any(m.kernel == kernel and m.state == "installed" for m in modules):
        return
    yield Fault(
        message=f"DKMS has no NVIDIA module installed for the running kernel {kernel}",
        evidence=(Evidence(_states(modules), reading.at), _kernel(case, kernel)),
        remedies=(_build(case, kernel, modules[0]),),
        sources=("https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/",),
    )


def _states(modules: list[DkmsModule]) -> str:
    return "; ".join(f"{m.name} {m.version}, {m.kernel or 'no kernel'}: {m.state}" for m in modules)


def _headers(case: Case, kernel: str) -> Iterator[Fault]:
    reading = case.facts.host.kernel_headers
    headers = reading.present("host.kernel_headers")
    if headers is not None and kernel in headers:
        return
    uses_dkms = any(_NVIDIA_DKMS.fullmatch(m.name) for m in case.facts.host.dkms.value or ())
    if headers is None and not uses_dkms and case.facts.host.dkms.is_known:
        raise NotApplicable("nothing here is built for the kernel")
    have = f"those of {headers} are" if headers else "none are"
    yield Fault(
        message=f"the running kernel is {kernel}, and of its headers {have} installed",
        evidence=(Evidence(f"headers: {headers or 'none'}", reading.at), _kernel(case, kernel)),
        remedies=(_build(case, kernel, None),),
        sources=("https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/",),
    )


def _kernel(case: Case, kernel: str) -> Evidence:
    return Evidence(f"running kernel {kernel}", case.facts.host.kernel.at)


def _build(case: Case, kernel: str, module: DkmsModule | None) -> Remedy:
    names = {
        "debian": (f"linux-headers-{kernel}",),
        "rhel": (f"kernel-devel-{kernel}", "kernel-headers"),
        "suse": ("kernel-default-devel",),
    }
    again = f"sudo dkms autoinstall -k {shlex.quote(kernel)}"
    return Remedy(
        action="install the headers of the running kernel and build the module",
        commands=(
            *package_commands(case.facts.host.os.value, names),
            again,
            "sudo modprobe amdgpu" if _is_amd(case) else "sudo modprobe nvidia",
        ),
        role="kernel_headers",
        risk="the build takes minutes and shows its errors only in make.log",
    )


@rule("HST142", cause="kernel-too-new-for-driver", severity=Severity.ERROR)
def kernel_too_new(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The running kernel is newer than the source of this driver version supports.

    What: the kernel against the first one with which the driver is known not to build.
    Why: kernel interfaces change; the module then fails to compile and is not there
        after the reboot.
    How to fix: a newer driver branch, or boot an older kernel; hold both together.
    Silent when: the module is loaded, or no limit is known for the version. A warning where only
        the branch is named, some releases of which build.
    Sources: issue threads and release notes (claims in the matrix).
    """
    need_bare_host(case, matrix)
    if is_loaded(case):
        raise NotApplicable("the module is loaded")
    if missed(case, HEADERS):
        raise NotApplicable("without the kernel's headers no build begins")
    nvidia = case.facts.nvidia
    installed = (nvidia.driver, nvidia.module_on_disk, nvidia.userspace)
    reading = next((r for r in installed if r.is_known), nvidia.driver)
    driver = reading.known("nvidia.driver")
    kernel = kernel_series(case.facts.host.kernel.known("host.kernel"))
    found = software(matrix, DRIVER_DOMAIN, driver, reading.at)
    for match, is_sure in possible(matrix, found, "kernel", settings(case, matrix)[0]):
        limit = _first_reached(kernel, match.claim.value)
        if limit is not None and not _is_spared(case, match.claim.data):
            yield Fault(
                message=f"{'' if is_sure else 'some releases of '}driver {driver} "
                f"{'does' if is_sure else 'do'} not build for kernel {kernel}: "
                f"kernels from {limit} on need a newer driver",
                evidence=(
                    _kernel(case, str(case.facts.host.kernel.value)),
                    Evidence(f"driver {driver}", reading.at),
                ),
                remedies=(Remedy(match.claim.remedy),) if match.claim.remedy else (),
                sources=tuple(match.claim.source),
                extrapolated=match.extrapolated,
                severity=_severity(case, is_sure),
            )
            return


def _severity(case: Case, is_sure: bool) -> Severity | None:
    """A warning where only the branch is named, some of whose releases do build."""
    if _likely_runs(case):
        return Severity.INFO
    return None if is_sure else Severity.WARNING


def _likely_runs(case: Case) -> bool:
    """Tell whether a report is about an engine: then its driver was most likely read loaded.

    Distributions patch the sources of a version for their kernels.
    """
    work, driver = case.workload, case.facts.nvidia.driver
    return driver.is_known and work is not None and work.engine not in _NO_ENGINES


def _first_reached(kernel: Version | None, first: str) -> Version | None:
    """Which of the first kernels of "6.1.76|6.6.15|6.8" a kernel is at or above.

    What went into stable kernels too is told by their series; the last one is of the mainline.
    """
    *stable, mainline = map(Version, first.split("|"))
    if kernel is None:
        return None
    if kernel.at_least(mainline) is True:
        return mainline
    same = (v for v in stable if v.release[:2] == kernel.release[:2])
    return next((v for v in same if kernel.at_least(v) is True), None)


def _is_spared(case: Case, data: Mapping[str, object]) -> bool:
    """Tell whether the limit is one of the other flavour of the module."""
    flavour = case.facts.nvidia.module_flavour.value
    return flavour is not None and data.get("module") not in (None, str(flavour))


def kernel_series(text: str) -> Version | None:
    """The numbers at the start of a kernel release: "6.17.13-2-pve" gives 6.17.13."""
    match = re.match(r"\d{1,4}(?:\.\d{1,6}){1,3}", text)
    return Version.maybe(match[0]) if match else None


RULES: tuple[Rule, ...] = (module_not_built, kernel_too_new)
