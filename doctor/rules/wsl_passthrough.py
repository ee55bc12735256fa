"""What Windows passes into WSL: a GPU reaches WSL 2 only, with the libraries of Windows."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules.decide import missed
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule

_GUIDE = "https://docs.nvidia.com/cuda/wsl-user-guide/"
# WSL 1 names the build of Windows: "4.4.0-19041-Microsoft". WSL 2 has a kernel of its own.
_WSL_1 = re.compile(r"4\.4\.0-\d{5}-Microsoft")
_PASSED_IN = re.compile(r"/usr/lib/wsl(?:/lib)?(?:/lib(?:cuda|nvidia)\S*)?|/dev/dxg")


@rule("HST196", cause="wsl-specific", severity=Severity.ERROR)
def wsl_without_gpu(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """WSL has no GPU: it is version 1, or what Windows passes in is not there.

    What: the kernel's name, and files of /usr/lib/wsl that were looked for in vain.
    Why: WSL 1 translates system calls and has no devices; in WSL 2 libcuda and /dev/dxg
        come from the driver of Windows, and are not there without one.
    How to fix: turn the distribution into WSL 2; install the driver in Windows; restart
        WSL.
    Silent when: the kernel is that of WSL 2 and nobody missed a file.
    Sources: NVIDIA CUDA on WSL user guide.
    """
    if case.facts.host.platform.known("host.platform") != "wsl2":
        raise NotApplicable("not WSL")
    names = missed(case, _PASSED_IN)
    if names:
        yield _fault(
            f"{names[0]}, which Windows passes in, is not there",
            Evidence(f"{names[0]} was not found", "absent"),
            Remedy("install the driver in Windows, then restart WSL", ("wsl.exe --shutdown",)),
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


def _fault(message: str, fact: Evidence, remedy: Remedy) -> Fault:
    return Fault(message=message, evidence=(fact,), remedies=(remedy,), sources=(_GUIDE,))


RULES: tuple[Rule, ...] = (wsl_without_gpu,)
