"""Can the NVIDIA driver be built or brought here: is its kernel released, does its compiler fit?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules.driver_state import DRIVER_DOMAIN
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.host_kernel import is_loaded, need_bare_host
from doctor.rules.host_libc import distribution
from doctor.rules.settings import covering
from doctor.rules.software import software

_CANDIDATE = re.compile(r"(?:-|\.|~)rc\d{1,2}\b", re.IGNORECASE)
_OF_DRIVER = ("driver", "gpu-operator")
_COMPILERS = ("gcc", "g++")
_GCC = re.compile(r"\bgcc[- ]?(?:version |is |v)?(\d{1,2})(?:\.\d{1,2}){0,2}\b", re.IGNORECASE)
# The operator is to bring the driver as a container.
_BY_OPERATOR = re.compile(
    r"\bdriver(?:'s)? (?:container|image|pod|daemonset)|\bnvidia-driver-daemonset\b|"
    r"\bdriver\.enabled\W{1,3}true\b|\bnvidia/driver[:@]|"
    r"\bdriver\b[^.;\n]{0,30}\bas (?:a )?container\b",
    re.IGNORECASE,
)
_OF_HOST = re.compile(
    r"\bdriver\.enabled\W{1,3}false\b|\bpre-?installed\b|\bon the host\b", re.IGNORECASE
)


def _is_about_driver(case: Case) -> bool:
    return case.workload is not None and case.workload.engine in _OF_DRIVER


@rule("HST143", cause="kernel-too-new-for-driver", severity=Severity.WARNING)
def kernel_not_released(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The driver is to be built for a release candidate of the kernel.

    What: the kernel's name ("-rc3"), where the driver is what is reported.
    Why: a driver is made for the kernels that were released before it, and NVIDIA supports no
        candidates: interfaces change until the release, and the module does not compile.
    How to fix: a released kernel for which the driver builds, until a newer driver is there.
    Silent when: the module is loaded, or the report is about an engine that runs.
    Sources: NVIDIA/open-gpu-kernel-modules issues 646 and 840.
    """
    need_bare_host(case, matrix)
    kernel = case.facts.host.kernel.known("host.kernel")
    if is_loaded(case) or not _is_about_driver(case):
        raise NotApplicable("the module is loaded, or nothing tells that it is built")
    if _CANDIDATE.search(kernel):
        yield Fault(
            f"kernel {kernel} is a release candidate, for which NVIDIA makes no drivers",
            evidence=(Evidence(f"running kernel {kernel}", case.facts.host.kernel.at),),
            remedies=(Remedy("boot a released kernel for which the driver builds", reboot=True),),
            sources=("https://github.com/NVIDIA/open-gpu-kernel-modules/issues/646",),
        )


@rule("HST144", cause="build-toolchain-missing", severity=Severity.WARNING)
def compiler_too_new_for_driver(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The system's gcc is newer than the sources of this driver take.

    What: the major of gcc that is told, or that of the distribution, against the newest that the
        matrix records for the driver, where the driver is what is reported.
    Why: a newer gcc takes another C standard by default; the checks that the driver makes before
        its build then fail, and with them the module.
    How to fix: a newer driver, the distribution's package of it, or an older gcc beside (CC=).
    Silent when: the module is loaded, the report is about an engine, or no limit is known.
    Sources: NVIDIA/open-gpu-kernel-modules issues 827 and 854 (claims in the matrix).
    """
    need_bare_host(case, matrix)
    reading = case.facts.nvidia.driver
    driver = reading.known("nvidia.driver")
    if is_loaded(case) or not _is_about_driver(case):
        raise NotApplicable("the module is loaded, or nothing tells that it is built")
    gcc, fact = _gcc(case, matrix)
    found = software(matrix, DRIVER_DOMAIN, driver, reading.at)
    for match in covering(matrix, found, "max-gcc"):
        if gcc > int(match.claim.value):
            yield Fault(
                f"driver {driver} takes gcc up to {match.claim.value}, and gcc {gcc} is here",
                evidence=(fact, Evidence(f"driver {driver}", reading.at)),
                remedies=(Remedy(match.claim.remedy),),
                sources=tuple(match.claim.source),
            )


def _gcc(case: Case, matrix: Matrix) -> tuple[int, Evidence]:
    packages = case.facts.host.packages
    for package in packages.value or ():
        major = package.version.partition(".")[0]
        if package.name in _COMPILERS and major.isdecimal():
            return int(major), Evidence(f"{package.name} {package.version}", packages.at)
    told = next(filter(None, map(_GCC.search, case.facts.notes)), None)
    if told is not None:
        return int(told[1]), Evidence(told[0], "notes")
    row = distribution(case, matrix)
    if row is None or not row.gcc:
        raise NotApplicable("no gcc is known")
    return int(row.gcc.partition(".")[0]), Evidence(f"gcc {row.gcc} of {row.id}", row.source[0])


@rule("DRV193", cause="driver-not-loaded", severity=Severity.WARNING)
def no_driver_image(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The GPU operator is to bring the driver as a container, and none is made for this system.

    What: the system against those for which no container of the driver is published, where the
        operator is told to bring the driver.
    Why: the operator makes the tag from the system's name; such a tag does not exist, and the
        pod of the driver never starts.
    How to fix: the driver of the node's image or of the provider, and driver.enabled=false.
    Silent when: the driver is told to be the host's own, or the system has such containers.
    Sources: NVIDIA GPU Operator platform support (claim in the matrix).
    """
    if case.workload is None or case.workload.engine != "gpu-operator":
        raise NotApplicable("not the GPU operator")
    system = case.facts.host.os.known("host.os")
    texts = (case.scope.runtime.value or "", *case.facts.notes)
    said = next(filter(None, map(_BY_OPERATOR.search, texts)), None)
    if said is None or any(map(_OF_HOST.search, texts)):
        return
    for match in matrix.claims(DRIVER_DOMAIN, "no-driver-image"):
        if system.id in match.claim.value.split("|"):
            yield Fault(
                f"no container of the driver is published for {system.pretty or system.id}",
                evidence=(Evidence(said[0], "notes"), Evidence(system.id, case.facts.host.os.at)),
                remedies=(Remedy(match.claim.remedy),),
                sources=tuple(match.claim.source),
            )


RULES: tuple[Rule, ...] = (kernel_not_released, compiler_too_new_for_driver, no_driver_image)
