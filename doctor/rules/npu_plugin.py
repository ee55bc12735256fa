"""Rules about what stands beside the plug-in of vLLM for Ascend: vLLM itself, and Triton."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.facts import Version
from doctor.findings import Remedy
from doctor.matrix import Matrix
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.npu import is_ascend
from doctor.rules.software import admits, engine, installed

_PLUGIN = "vllm-ascend"


@rule("NPU306", cause="dependency-conflict", severity=Severity.ERROR)
def vllm_without_plugin(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """No release of vllm-ascend belongs to the vLLM that is installed.

    What: the vLLM that is installed, where the version of the plug-in is not stated, against
        the vLLM that each release of the plug-in pins.
    Why: the plug-in patches the vLLM of its own number and begins with one; vLLM alone has no
        code for an NPU, whatever its version.
    How to fix: a release of the plug-in, and the vLLM that it pins.
    Silent when: the plug-in's version is known (its pins are judged), some release pins a vLLM
        of the same series, or vLLM is newer than all of them.
    Sources: requirements of vllm-ascend (rows in the matrix).
    """
    is_ascend(case, matrix)
    found = engine(case, matrix)
    if found.name != _PLUGIN or found.version is not None:
        raise NotApplicable("the engine is another, or its version is known")
    vllm = installed(case, matrix, "vllm")
    if vllm is None or vllm.version is None:
        case.scope.packages.known("packages")
        raise NotApplicable("vllm is not among the packages")
    pinned = {
        pin.removeprefix("=="): row
        for row in matrix.releases(_PLUGIN)
        if (pin := row.pins.get("vllm", "")).startswith("==")
    }
    wanted = sorted(map(Version, pinned), key=lambda version: version.low)
    if not wanted or vllm.version.newer_than(wanted[-1]) is not False:
        raise found.unknown()
    if any(admits(_series(version), vllm.version) is not False for version in wanted):
        return
    newest = wanted[-1]
    yield Fault(
        f"no release of {_PLUGIN} belongs to vllm {vllm.version}; the first is for {wanted[0]}",
        evidence=(vllm.evidence, found.evidence),
        remedies=(
            Remedy(
                f"install {_PLUGIN} {pinned[str(newest)].version} and its vllm",
                (f"pip install vllm=={newest} {_PLUGIN}=={pinned[str(newest)].version}",),
                role="python_env",
            ),
        ),
        sources=pinned[str(newest)].source,
    )


def _series(version: Version) -> str:
    """What is of the same series: "==0.11.*"."""
    return f"=={'.'.join(map(str, version.release[:2]))}.*"


RULES: tuple[Rule, ...] = (vllm_without_plugin,)
