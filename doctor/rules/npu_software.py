"""Rules about the Ascend software set: CANN, NNAL, torch-npu and the engine."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from doctor.facts import Missing, MissingFact, Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules.decide import is_absent, missed
from doctor.rules.engine import Case, Fault, NotApplicable, Severity, rule
from doctor.rules.npu import ASCEND_ENGINES, cann_version, is_ascend, is_of_scope
from doctor.rules.settings import applicable, settings
from doctor.rules.software import Software, admits, engine, installed

_CANN_PARTS = re.compile(r"(?:ascend-)?cann(?:-(?:toolkit|kernels)\S*)?", re.IGNORECASE)
_SET = Remedy("install one supported set", role="ascend_cann")


@rule("NPU301", cause="cann-mismatch", severity=Severity.ERROR)
def cann_not_of_the_set(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """CANN is not the version that the engine release or torch-npu belongs to.

    What: the CANN version against the one that the engine's release and the torch-npu
        release are paired with.
    Why: operators and ATB symbols change between CANN releases; the import or the first
        operator fails.
    How to fix: CANN toolkit, operators and NNAL of the version named, or the engine
        release that belongs to the CANN that is there.
    Silent when: a version is not known. A warning inside the window for which the vendor
        declares several versions compatible, and where CANN is newer than paired.
    Sources: vllm-ascend versioning policy; Ascend/pytorch compatibility (rows in the matrix).
    """
    is_ascend(case, matrix)
    absent = missed(case, _CANN_PARTS)
    if absent:
        yield Fault(
            f"{absent[0]} is not installed",
            evidence=(Evidence(f"no {absent[0]}", "absent"),),
            remedies=(_SET,),
        )
        return
    cann, at = cann_version(case, matrix)
    if cann is None:
        raise MissingFact("ascend.cann", case.facts.ascend.cann.missing or Missing.NOT_STATED)
    for found in _paired(case, matrix):
        for match in applicable(matrix, found, "cann", settings(case, matrix)[0]):
            if match.claim.key or admits(match.claim.value, cann) is not False:
                continue
            wanted = match.claim.value.removeprefix("==")
            sure = cann.older_than(Version(wanted)) and not _in_window(matrix, found, cann)
            yield Fault(
                f"{found.label} belongs to CANN {wanted}; {cann} is here",
                evidence=(Evidence(f"CANN {cann}", at), found.evidence),
                remedies=(_SET,),
                sources=match.claim.source,
                severity=None if sure else Severity.WARNING,
                extrapolated=match.extrapolated,
            )
        yield from _row_of_another(case, matrix, found, cann, at)


def _row_of_another(
    case: Case, matrix: Matrix, found: Software, cann: Version, at: str
) -> Iterator[Fault]:
    """A torch-npu on its own whose release is listed for another CANN, beyond the window."""
    wanted = found.rows[0].extra.get("cann", "") if found.is_settled else ""
    alone = found.name == "torch-npu" and case.scope.package("vllm-ascend") is None
    if not alone or not wanted or _in_window(matrix, found, cann):
        return
    if Version(wanted).release[:2] != cann.release[:2]:
        yield Fault(
            f"{found.label} is listed for CANN {wanted}; {cann} is here",
            evidence=(Evidence(f"CANN {cann}", at), found.evidence),
            remedies=(_SET,),
            sources=found.rows[0].source,
            severity=Severity.WARNING,
        )


def _paired(case: Case, matrix: Matrix) -> Iterator[Software]:
    """The engine and torch-npu, where their versions are known."""
    try:
        found = engine(case, matrix)
    except NotApplicable:
        found = None
    # A development build follows the CANN of its day.
    is_release = found is not None and found.version is not None and found.is_public_build
    if found is not None and found.name in ASCEND_ENGINES and is_release:
        yield found
    plugin = installed(case, matrix, "torch-npu")
    if plugin is not None and (found is None or found.name != "torch-npu"):
        yield plugin


def _in_window(matrix: Matrix, found: Software, cann: Version) -> bool:
    for match in matrix.claims("torch-npu", "cann", None, "window"):
        first, last = match.claim.data.get("from"), match.claim.data.get("to")
        if first and last and found.name in ("torch-npu", "vllm-ascend"):
            inside = cann.at_least(Version(first)) and not cann.newer_than(Version(last))
            return bool(inside)
    return False


@rule("NPU302", cause="cann-mismatch", severity=Severity.ERROR)
def nnal_missing_or_other(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """NNAL (ATB) is not installed, or not of the version of the CANN toolkit.

    What: the NNAL version against that of CANN; and whether it was looked for in vain.
    Why: torch-npu links libatb.so; without it the import fails, with another version
        symbols are missing.
    How to fix: Ascend-cann-nnal of the CANN version, then source its set_env.sh.
    Silent when: NNAL was not looked for (in a container on this host it is not), or the
        engine does without it.
    Sources: vllm-ascend installation page; vllm-ascend issues 117, 130, 152.
    """
    is_ascend(case, matrix)
    nnal, cann = case.facts.ascend.nnal, case.facts.ascend.cann
    install = Remedy(
        "install NNAL of the CANN version and load its environment",
        ("source /usr/local/Ascend/nnal/atb/set_env.sh",),
        role="ascend_cann",
    )
    not_there = nnal.is_absent and is_of_scope(case, nnal)
    if not_there or is_absent(case, "nnal") or is_absent(case, "libatb"):
        yield Fault(
            "NNAL (ATB) is not installed",
            evidence=(Evidence("no NNAL", nnal.at),),
            remedies=(install,),
        )
        return
    version = nnal.known("ascend.nnal")
    toolkit = cann.known("ascend.cann")
    if version.same_as(toolkit) is False:
        yield Fault(
            f"NNAL is {version} and CANN is {toolkit}; they must be one version",
            evidence=(Evidence(f"NNAL {version}", nnal.at), Evidence(f"CANN {toolkit}", cann.at)),
            remedies=(install,),
        )


@rule("NPU303", cause="cann-mismatch", severity=Severity.ERROR)
def plugin_of_other_torch(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """torch, torch-npu, vllm and vllm-ascend are not the versions of one release.

    What: the base version of torch-npu against torch; and the pins of the vllm-ascend
        release for vllm, torch and torch-npu against what is installed.
    Why: torch-npu is compiled against the torch of the same base version; vllm-ascend
        patches exactly one vllm.
    How to fix: install vllm first, then vllm-ascend with its pins.
    Silent when: one of the versions is not known. A version that differs only behind its
        base version is a warning, for documentation and pins disagree there; so is another
        torch beside a torch-npu that fits it or is not stated: the pin itself is unmet.
    Sources: Ascend/pytorch compatibility; requirements of vllm-ascend (rows in the matrix).
    """
    is_ascend(case, matrix)
    torch, plugin = installed(case, matrix, "torch"), installed(case, matrix, "torch-npu")
    if torch is not None and plugin is not None and _bases_differ(torch, plugin):
        yield Fault(
            f"torch-npu {plugin.version} belongs to torch {_base(plugin)}; {torch.version} is here",
            evidence=(plugin.evidence, torch.evidence),
            remedies=(_pip(f"torch=={_base(plugin)}"),),
        )
        return
    found = engine(case, matrix)
    if found.name != "vllm-ascend":
        raise NotApplicable("the engine is another")
    if found.version is None or not found.rows:
        raise found.unknown()
    yield from _pins(case, matrix, found)


def _base(found: Software) -> str:
    release = found.version.release if found.version is not None else ()
    return ".".join(map(str, release[:3]))


def _bases_differ(torch: Software, plugin: Software) -> bool:
    if torch.version is None or plugin.version is None or not plugin.version.is_exact:
        return False
    return admits(f"=={_base(plugin)}.*", torch.version) is False


def _pins(case: Case, matrix: Matrix, found: Software) -> Iterator[Fault]:
    if not found.is_public_build:
        raise MissingFact(f"pins of {found.label}, a build of its own", Missing.NOT_STATED)
    for name in ("vllm", "torch", "torch-npu"):
        other = installed(case, matrix, name)
        specs = {row.pins.get(name, "") for row in found.rows}
        if other is None or other.version is None or "" in specs:
            continue
        if all(admits(spec, other.version) is False for spec in specs):
            spec = found.rows[0].pins[name]
            same_base = spec.removeprefix("==").startswith(_base(other))
            is_mild = name == "torch" or same_base
            yield Fault(
                f"{found.label} asks for {name}{spec}; {other.version} is here",
                evidence=(found.evidence, other.evidence),
                remedies=(_pip(f"{name}{spec}"),),
                sources=found.rows[0].source,
                severity=Severity.WARNING if is_mild else None,
            )


def _pip(*requirements: str) -> Remedy:
    wanted = shlex.join(requirements)
    return Remedy(f"install {wanted}", (f"uv pip install {wanted}",), role="python_env")


@rule("NPU304", cause="cann-mismatch", severity=Severity.ERROR)
def cann_environment_not_loaded(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The engine's environment lacks the variables that set_env.sh of CANN sets.

    What: the variables that the matrix names, in the environment of the running engine.
    Why: without them libhccl.so and libatb.so are not on the loader's path; the plug-in
        does not load, and vLLM says "Failed to infer device type".
    How to fix: source set_env.sh of the toolkit and of NNAL before the start.
    Silent when: the environment of the process was not read in full.
    Sources: CANN installation guide; vllm-ascend issues 130, 262.
    """
    is_ascend(case, matrix)
    work = case.workload
    if work is None:
        raise NotApplicable("no workload")
    absent = missed(case, _VARIABLES)
    if absent:
        yield _not_loaded(absent[0], "absent", ())
        return
    env = work.env.known("environment of the engine")
    if work.env.partial:
        raise MissingFact("environment of the engine", Missing.NOT_STATED)
    for match in matrix.claims("cann", "env-var"):
        if match.claim.data.get("must_be") == "set" and match.claim.key not in env:
            yield _not_loaded(match.claim.key, work.env.at, match.claim.source)


# Variables that set_env.sh of the toolkit sets, the script itself, and libraries it leads to.
_VARIABLES = re.compile(
    r"ASCEND_(?:TOOLKIT_HOME|HOME_PATH|OPP_PATH|AICPU_PATH)|(?:\S*/)?set_env\.sh|"
    r"lib(?:ascendcl|hccl|ge_runner|graph|acl_op_compiler|runtime|atb)\.so(?:\.\d)?"
)


def _not_loaded(name: str, at: str, sources: tuple[str, ...]) -> Fault:
    return Fault(
        f"{name} is not set: the CANN environment is not loaded",
        evidence=(Evidence(f"no {name}", at),),
        remedies=(
            Remedy(
                "load the environment before the start",
                (
                    "source /usr/local/Ascend/ascend-toolkit/set_env.sh",
                    "source /usr/local/Ascend/nnal/atb/set_env.sh",
                ),
            ),
        ),
        sources=sources,
    )


@rule("NPU305", cause="cann-mismatch", severity=Severity.ERROR)
def modules_of_operator_compiler_missing(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The Python lacks modules that CANN's operator compiler imports.

    What: the modules that the matrix lists against the installed distributions.
    Why: CANN compiles operators in the interpreter of the engine; a missing module aborts
        the first operator with error 500001.
    How to fix: install the modules named.
    Silent when: the list of distributions is not complete.
    Sources: Ascend/pytorch issue 7 and its documentation (row in the matrix).
    """
    is_ascend(case, matrix)
    for match in matrix.claims("torch-npu", "python-modules"):
        modules = [str(name) for name in match.claim.data.get("modules", ())]
        answers = {name: case.scope.lacks(name) for name in modules}
        missing = [name for name, answer in answers.items() if answer]
        if not missing and None in answers.values():
            case.scope.packages.known("packages")
            raise MissingFact("complete list of packages", Missing.NOT_STATED)
        if missing:
            yield Fault(
                f"CANN's operator compiler needs {', '.join(missing)} in this Python",
                evidence=(Evidence(f"{len(missing)} modules missing", case.scope.packages.at),),
                remedies=(_pip(*missing),),
                sources=match.claim.source,
            )


RULES = (
    cann_not_of_the_set,
    nnal_missing_or_other,
    plugin_of_other_torch,
    cann_environment_not_loaded,
    modules_of_operator_compiler_missing,
)
