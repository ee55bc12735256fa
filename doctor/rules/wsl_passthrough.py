"""What Windows passes into WSL: a GPU reaches WSL 2 only, with the libraries of Windows."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.facts import Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules.container_runtime import TOOLKIT_DOMAIN
from doctor.rules.decide import missed
from doctor.rules.driver_state import DRIVER_DOMAIN
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.host_kernel import kernel_series
from doctor.rules.settings import covering
from doctor.rules.software import admits, software

_GUIDE = "https://docs.nvidia.com/cuda/wsl-user-guide/"
# WSL 1 names the build of Windows: "4.4.0-19041-Microsoft". WSL 2 has a kernel of its own.
_WSL_1 = re.compile(r"4\.4\.0-\d{5}-Microsoft")
_WINDOWS_10 = re.compile(
    r"\bwin(?:dows)? ?10\b[^;\n]{0,40}?"
    r"\b(?:(19\d\d|20\d\d|2[01]H[12])\b(?!-)|(1[5-9]\d{3})(?:\.\d{1,6})?\b)",
    re.IGNORECASE,
)
_SERVER = re.compile(r"\bwindows server (?:version )?(2016|2019|2022)\b", re.IGNORECASE)
# The driver model of a card in Windows; only under WDDM does Windows share it with WSL.
_TCC = re.compile(
    r"(?<!not )(?<!not in )\bTCC\b(?! (?:is |was )?(?:off|disabled)| to WDDM)", re.IGNORECASE
)
_PASSED_IN = re.compile(r"/usr/lib/wsl(?:/lib)?(?:/lib(?:cuda|nvidia|dx)\S*)?|/dev/dxg")
# Without a path it may also be missed inside a container, to which somebody hands it.
_ITS_LIBRARIES = re.compile(r"lib(?:cuda|nvidia-ml|dxcore)\.so(?:\.1)?")


@rule("HST196", cause="wsl-specific", severity=Severity.ERROR)
def wsl_without_gpu(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """WSL has no GPU: it is version 1 or too old, or what Windows passes in is not there.

    What: the kernel's name and version, the build of Windows, the driver model of the card
        there (TCC), and files of /usr/lib/wsl that were looked for in vain.
    Why: WSL 1 translates system calls and has no devices; in WSL 2 libcuda and /dev/dxg
        come from the driver of Windows, and are not there without one. Kernels before the one
        named passed GPUs through on preview builds of Windows only.
    How to fix: turn the distribution into WSL 2; update Windows, WSL and the driver in
        Windows; restart WSL.
    Silent when: the kernel is that of a current WSL 2 and nobody missed a file.
    Sources: NVIDIA CUDA on WSL user guide; Microsoft's page on CUDA in WSL (row in the matrix).
    """
    exclusive = next(filter(_TCC.search, case.facts.notes), None)
    is_wsl = case.facts.host.platform.value == "wsl2"
    old = None if exclusive and is_wsl else next(_old_windows(case, matrix), None)
    if old is not None:
        yield old
        return
    if case.facts.host.platform.known("host.platform") != "wsl2":
        raise NotApplicable("not WSL")
    if exclusive is not None:
        yield _fault(
            "the card is in TCC mode: Windows shares only cards under WDDM with WSL",
            Evidence(exclusive, "notes"),
            Remedy("switch it, as administrator of Windows", ("nvidia-smi -g 0 -dm 0",)),
        )
        return
    yield from _inside(case, matrix)


def _inside(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """What is missed inside of the distribution, and its kernel."""
    inside = case.scope.kind in ("container", "image")
    names = missed(case, _PASSED_IN) or (() if inside else missed(case, _ITS_LIBRARIES))
    if names:
        yield _fault(
            f"{names[0]}, which Windows passes in, is not there",
            Evidence(f"{names[0]} was not found", "absent"),
            Remedy("install the driver in Windows, then restart WSL", ("wsl.exe --shutdown",)),
            *_to_loader(names[0]),
        )
        return
    kernel = case.facts.host.kernel.known("host.kernel")
    if _WSL_1.fullmatch(kernel):
        yield _fault(
            "this distribution runs in WSL 1, which passes no GPU through",
            Evidence(f"kernel {kernel}", case.facts.host.kernel.at),
            Remedy(
                "turn it into WSL 2", ("wsl.exe --list --verbose", "wsl.exe --set-version NAME 2")
            ),
        )
        return
    yield from _old_kernel(case, matrix, kernel_series(kernel))


def _old_windows(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Docker Desktop or WSL on a Windows 10 of which a build is told that passes no GPU."""
    host = case.facts.host
    system = host.os.value
    runtime = (case.scope.runtime.value or "").lower()
    linux_inside = _is_desktop(case) or "docker desktop" in runtime or "wsl" in runtime
    is_windows = system is not None and system.id == "windows" and linux_inside
    if not is_windows and host.platform.value != "wsl2":
        return
    stated = system.pretty if is_windows and system else ""
    yield from _of_server((stated, *case.facts.notes), matrix)
    for match in matrix.claims(DRIVER_DOMAIN, "wsl-windows-build"):
        labels: dict[str, str] = match.claim.data["labels"]
        for text in (stated, *case.facts.notes):
            found = _WINDOWS_10.search(text)
            build = int(labels.get((found[1] or "").upper(), found[2] or 0)) if found else 0
            if found and 0 < build < int(match.claim.value):
                yield _fault(
                    f"this build of Windows 10 ({build}) passes no GPU into WSL 2; builds from "
                    f"{match.claim.value} (21H2) on do",
                    Evidence(found[0], host.os.at if text == stated else "notes"),
                    Remedy("update Windows"),
                )


def _of_server(texts: tuple[str, ...], matrix: Matrix) -> Iterator[Fault]:
    """A server whose Windows is older than the first that shares GPUs."""
    for text in texts:
        server = _SERVER.search(text)
        for match in matrix.claims(DRIVER_DOMAIN, "wsl-windows-server") if server else ():
            yield Fault(
                f"Windows Server {server[1] if server else ''} passes no GPU into WSL 2: "
                f"{match.claim.text}",
                evidence=(Evidence(text, "notes"),),
                remedies=(Remedy("use Linux on the machine, or a newer Windows"),),
                sources=tuple(match.claim.source),
                severity=Severity.WARNING,
            )


def _old_kernel(case: Case, matrix: Matrix, kernel: Version | None) -> Iterator[Fault]:
    """A warning: on a preview build of Windows such a kernel may do."""
    for match in matrix.claims(DRIVER_DOMAIN, "wsl-kernel"):
        if kernel is not None and kernel.older_than(Version(match.claim.value)) is True:
            yield Fault(
                f"the kernel of WSL is {kernel}: released builds of Windows pass GPUs through from "
                f"{match.claim.value} on",
                evidence=(Evidence(f"kernel {kernel}", case.facts.host.kernel.at),),
                remedies=(
                    Remedy("update Windows, then WSL", ("wsl.exe --update", "wsl.exe --shutdown")),
                ),
                sources=tuple(match.claim.source),
                severity=Severity.WARNING,
            )


def _to_loader(name: str) -> tuple[Remedy, ...]:
    if name.startswith("/"):
        return ()
    return (
        Remedy(
            "or, if the folder holds it, show the folder to the loader",
            ("ls -l /usr/lib/wsl/lib", 'export LD_LIBRARY_PATH="/usr/lib/wsl/lib"'),
        ),
    )


def _fault(message: str, fact: Evidence, *remedies: Remedy) -> Fault:
    return Fault(message=message, evidence=(fact,), remedies=remedies, sources=(_GUIDE,))


@rule("HST194", cause="wsl-specific", severity=Severity.ERROR)
def toolkit_too_old_for_windows_driver(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Under WSL the container toolkit is older than the Windows driver needs.

    What: versions of the container toolkit and of the Windows driver against pairs known
        not to work.
    Why: the Windows driver is a set of libraries that the toolkit maps into containers
        by name; a new driver brings names that an old toolkit does not know.
    How to fix: update the container toolkit, or Docker Desktop, which brings its own.
    Silent when: one of the versions is not known, or the pair is fine.
    Sources: issue threads of the NVIDIA Container Toolkit (claims in the matrix).
    """
    nvidia = case.facts.nvidia
    if not nvidia.container_toolkit.is_known and _is_desktop(case):
        yield from _toolkit_of_desktop(case, matrix)
        return
    if case.facts.host.platform.known("host.platform") != "wsl2":
        raise NotApplicable("not WSL")
    version = nvidia.container_toolkit.known("nvidia.container_toolkit")
    driver = nvidia.driver.known("nvidia.driver")
    found = software(matrix, TOOLKIT_DOMAIN, version, nvidia.container_toolkit.at)
    for match in covering(matrix, found, "known-bad", "wsl2"):
        if admits(match.claim.value, driver):
            yield Fault(
                message=f"{found.label} with Windows driver {driver}: {match.claim.text}",
                evidence=(found.evidence, Evidence(f"driver {driver}", nvidia.driver.at)),
                remedies=(Remedy(match.claim.remedy),),
                sources=tuple(match.claim.source),
            )


def _is_desktop(case: Case) -> bool:
    """A container on Windows is one of Docker Desktop, which brings a toolkit of its own."""
    system, runtime = case.facts.host.os.value, (case.scope.runtime.value or "").lower()
    on_windows = system is not None and system.id == "windows"
    return case.scope.kind in ("container", "image") and (
        on_windows or ("docker desktop" in runtime and case.facts.host.platform.value == "wsl2")
    )


def _toolkit_of_desktop(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Drivers that were out before the Docker Desktop with a toolkit that knows them."""
    reading = case.facts.nvidia.driver
    driver = reading.known("nvidia.driver")
    for match in matrix.claims(TOOLKIT_DOMAIN, "known-bad", key="wsl2"):
        if admits(str(match.claim.data.get("desktop", "<0")), driver):
            yield Fault(
                message=f"Docker Desktop with Windows driver {driver}: its toolkit may be too old, "
                f"for {match.claim.text}",
                evidence=(Evidence(f"driver {driver}", reading.at),),
                remedies=(Remedy(match.claim.remedy),),
                sources=tuple(match.claim.source),
                severity=Severity.WARNING,
            )


RULES: tuple[Rule, ...] = (wsl_without_gpu, toolkit_too_old_for_windows_driver)
