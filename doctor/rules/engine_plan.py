"""Rules about serialized TensorRT engines (plans)."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.facts import ComputeCapability, Device, Missing, MissingFact, Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules import cards
from doctor.rules.engine import Case, Fault, NotApplicable, Severity, rule
from doctor.rules.image_facts import known_image
from doctor.rules.software import Software, engine


def _stated(text: str, at: str) -> ComputeCapability:
    """The capability that a plan names; `MissingFact` for what is none."""
    try:
        return ComputeCapability.parse(text if "." in text else f"{text}.0")
    except ValueError:
        raise MissingFact("compute capability of the plan", Missing.NOT_READABLE, at) from None


def _distinct(devices: tuple[Device, ...], matrix: Matrix) -> list[Device]:
    """One device of each capability."""
    return list({str(cards.capability(d, matrix).value): d for d in devices}.values())


@rule("ENG201", cause="engine-plan-mismatch", severity=Severity.ERROR)
def plan_for_other_card(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A serialized TensorRT engine was built on a card of another compute capability.

    What: the compute capability recorded in the plan against that of the device.
    Why: a plan holds code chosen and compiled for one capability; the runtime refuses it
        elsewhere ("generated on an incompatible device").
    How to fix: build the engine again on the card that will serve it.
    Silent when: the plan was built with hardware compatibility, or its capability is not
        known.
    Sources: NVIDIA TensorRT documentation, engine portability.
    """
    plan = _plan(case)
    stated = plan.get("compute_capability", "") or _of_card(plan, matrix)
    if not stated or plan.get("hardware_compatibility", "none").lower() not in ("", "none"):
        raise NotApplicable("the plan names no card, or is made for several")
    built_on = _stated(stated, _plan_evidence(case, stated).at)
    for device in _distinct(case.need_vendor("nvidia"), matrix):
        capability = cards.need_capability(device, matrix)
        if built_on != capability:
            yield Fault(
                f"the plan was built for compute capability {stated}; "
                f"{cards.label(device, matrix)} has {capability}",
                evidence=(cards.evidence(device, matrix), _plan_evidence(case, stated)),
                remedies=(Remedy("build the engine again on this card", ("trtexec --onnx=...",)),),
                subject=device.id,
            )


@rule("ENG202", cause="engine-plan-mismatch", severity=Severity.ERROR)
def plan_of_other_version(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A serialized TensorRT engine was built with another version than loads it.

    What: the TensorRT or TensorRT-LLM version recorded with the plan against the one
        that is installed or in the image.
    Why: plans are not compatible across versions unless they are built to be.
    How to fix: build the engine with the version that serves it.
    Silent when: a version is not known, or the plan was built version-compatible.
    Sources: NVIDIA TensorRT documentation, version compatibility; TensorRT-LLM issue 1324.
    """
    plan = _plan(case)
    if plan.get("version_compatible", "").lower() in ("true", "yes", "1"):
        raise NotApplicable("the plan is built version-compatible")
    found = engine(case, matrix)
    pairs = [(name, text) for key, text in plan.items() for name in [_part(key, found)] if name]
    if not pairs:
        raise MissingFact("version of the plan", Missing.NOT_STATED)
    for name, text in pairs:
        own = found.version if name == found.name else _installed(case, name)
        here = own or _in_image(case, matrix, name)
        built = Version.maybe(text)
        if here is not None and built is not None and built.same_as(here) is False:
            yield Fault(
                f"the plan was built with {name} {text}; {here} loads it",
                evidence=(_plan_evidence(case, text), Evidence(f"{name} {here}")),
                remedies=(Remedy(f"build the engine with {name} {here}"),),
            )


@rule("ENG203", cause="engine-plan-mismatch", severity=Severity.ERROR)
def plan_of_other_system(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A serialized TensorRT engine was built on another operating system or processor.

    What: the system or platform that is told of the plan against that of the host.
    Why: a plan runs on the platform it was built on; hardware compatibility widens the cards
        only. Since TensorRT 10 one can be built on Linux for Windows, if asked for.
    How to fix: build the engine again on the platform that will serve it.
    Silent when: the platform of the plan or of the host is not known, or the plan was built for
        another platform on purpose.
    Sources: NVIDIA TensorRT support matrix, engine portability.
    """
    plan = _plan(case)
    told = " ".join(plan.get(key, "") for key in ("os", "system", "platform")).lower()
    built = next((name for words, name in _SYSTEMS if any(w in told for w in words)), "")
    if not built or plan.get("runtime_platform"):
        raise NotApplicable("nothing tells of the plan's system, or it is made for another")
    system = case.facts.host.os.known("host.os").id
    here = system if system in ("windows", "macos") else "linux"
    if built != here:
        yield Fault(
            f"the plan was built on {built}, and this is {here}",
            evidence=(_plan_evidence(case, told.strip()), Evidence(here, case.facts.host.os.at)),
            remedies=(Remedy("build the engine again on this system", ("trtexec --onnx=...",)),),
            sources=(_PORTABILITY,),
        )


_SYSTEMS = ((("windows",), "windows"), (("linux", "ubuntu", "debian", "rhel"), "linux"))
_PORTABILITY = (
    "https://docs.nvidia.com/deeplearning/tensorrt/10.16.1/getting-started/support-matrix.html"
)


def _of_card(plan: dict[str, str], matrix: Matrix) -> str:
    """The capability of the card that the plan says it was built on; "" if it names none."""
    name = next((plan[key] for key in ("gpu", "device", "card", "built_on") if plan.get(key)), "")
    found = {row.capability for row in matrix.gpus_named(name)} if name else set()
    return next(iter(found)) or "" if len(found) == 1 else ""


_PARTS = {"trt": "tensorrt", "trt-llm": "tensorrt-llm", "trtllm": "tensorrt-llm"}


def _part(key: str, found: Software) -> str:
    """Which part a key of the plan gives the version of: "tensorrt_llm_version" and the like."""
    plain = key.lower().replace("_", "-").removesuffix("-version")
    named = {"trt": "tensorrt", "trt-llm": "tensorrt-llm", "trtllm": "tensorrt-llm"}.get(
        plain, plain
    )
    if named in ("version", "built-with"):
        return found.name
    return named if named in ("tensorrt", "tensorrt-llm") else ""


def _plan(case: Case) -> dict[str, str]:
    if case.workload is None:
        raise NotApplicable("no workload")
    if not (case.workload.plan.is_known or case.workload.engine.startswith("tensorrt")):
        raise NotApplicable("no serialized engine")
    return case.workload.plan.known("engine plan")


def _plan_evidence(case: Case, what: str) -> Evidence:
    at = case.workload.plan.at if case.workload else ""
    return Evidence(f"plan built for {what}", at)


def _installed(case: Case, name: str) -> Version | None:
    package = case.scope.package(name)
    return package.version if package else None


def _in_image(case: Case, matrix: Matrix, name: str) -> Version | None:
    """The version that an image of known contents holds."""
    row = known_image(case.scope, matrix)
    if row is None:
        return None
    return Version.maybe(row.extra.get("version" if name == row.engine else name))


RULES = (plan_for_other_card, plan_of_other_version, plan_of_other_system)
