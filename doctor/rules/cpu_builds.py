"""Engines whose wheels for a system are builds for the CPU."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.framework import TORCH_ENGINES, is_jetson, wants_cpu
from doctor.rules.settings import applicable, settings
from doctor.rules.software import engine


@rule("FRM105", cause="cpu-only-build", severity=Severity.WARNING)
def engine_wheel_is_cpu(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """On this system the engine's wheels of that version are builds for the CPU.

    What: the operating system and architecture against what the matrix knows of the wheels of
        the engine's release, on a host with a GPU or a CUDA toolkit.
    Why: `pip install` takes that wheel without a word, and nothing runs on the GPU.
    How to fix: what the finding names: an older release, WSL, or a container.
    Silent when: no GPU and no CUDA toolkit is known, a CPU run was asked for, it runs from an
        image, or the host is a Jetson.
    Sources: installation pages of the engines (claims in the matrix).
    """
    found = engine(case, matrix)
    nvidia = case.facts.nvidia
    wanted = case.nvidia_devices or nvidia.toolkits.value or nvidia.driver.value
    if found.name in TORCH_ENGINES or not wanted or wants_cpu(case):
        raise NotApplicable("no GPU is wanted, or another rule judges it")
    if case.scope.image.ref or is_jetson(case, matrix):
        raise NotApplicable("its build comes from elsewhere")
    for match in applicable(matrix, found, "platform", settings(case, matrix)[0]):
        claim = match.claim
        if claim.value == "cpu-only":
            yield Fault(
                f"{found.label} on {claim.key} is a build for the CPU: {claim.text}",
                evidence=(found.evidence, Evidence(claim.key, case.facts.host.os.at)),
                remedies=(Remedy(claim.remedy),),
                sources=claim.source,
                extrapolated=match.extrapolated,
            )
            return


RULES: tuple[Rule, ...] = (engine_wheel_is_cpu,)
