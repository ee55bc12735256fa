"""A driver of Linux inside a distribution of WSL."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules.decide import missed
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.host_kernel import HEADERS

_PACKAGE = re.compile(
    r"\b(?:nvidia-(?:utils|driver|dkms|compute-utils|kernel-\w{1,8})|libnvidia-(?:compute|gl)|"
    r"cuda-drivers)(?:-(?:\d{3}|fabricmanager|server|open|headless|no-dkms)){0,3}\b|"
    r"\bNVIDIA-Linux-\w{3,9}-[\d.]{3,14}(?:run\b)?|\bubuntu-drivers\b|"
    r"\b(?:linux nvidia|nvidia linux|linux) driver\b",
    re.IGNORECASE,
)
_HAS = re.compile(r"\b(?:install(?:ed|s|ing|er)?|is there|dpkg|apt|ran|running)\b", re.IGNORECASE)
_NOT = re.compile(
    r"\b(?:no|not(?! (?:found|built|load|work|compil|communicat))|never|without|removed|purged|"
    r"uninstall\w*)\b",
    re.IGNORECASE,
)
_GUIDE = "https://docs.nvidia.com/cuda/wsl-user-guide/"


@rule("HST241", cause="wsl-specific", severity=Severity.WARNING)
def linux_driver_inside_wsl(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Packages of the Linux driver are installed inside a distribution of WSL.

    What: the packages of the distribution, notes that tell of such a package or of the
        installer, and headers of WSL's kernel that were missed where the driver is the subject.
    Why: the driver is the one of Windows, whose libraries WSL maps in. A package of Linux puts
        its own libcuda and libnvidia-ml before them, which find no kernel module.
    How to fix: remove the packages, keep the driver of Windows, and install the CUDA toolkit
        alone, which brings no driver.
    Silent when: the host is not WSL 2, or no such package is named.
    Sources: NVIDIA CUDA on WSL user guide.
    """
    if case.facts.host.platform.known("host.platform") != "wsl2":
        raise NotApplicable("not WSL")
    held = [p.name for p in case.facts.host.packages.value or () if _PACKAGE.fullmatch(p.name)]
    notes = [n for n in case.facts.notes if _HAS.search(n) and not _NOT.search(n)]
    told = [match[0] for match in map(_PACKAGE.search, notes) if match]
    work = case.workload
    is_driver = work is not None and work.engine == "driver"
    built = missed(case, HEADERS) if is_driver else ()
    if held or told or built:
        name = (*held, *told, f"what needs {built[0]}" if built else "")[0]
        at = case.facts.host.packages.at if held else "notes" if told else "absent"
        yield Fault(
            f"{name} is installed inside WSL, where the driver is the one of Windows",
            evidence=(Evidence(name, at),),
            remedies=(
                Remedy(
                    "remove the packages of the Linux driver, then restart WSL",
                    ("sudo apt purge 'nvidia-*' 'libnvidia-*'", "wsl.exe --shutdown"),
                ),
            ),
            sources=(_GUIDE,),
        )


RULES: tuple[Rule, ...] = (linux_driver_inside_wsl,)
