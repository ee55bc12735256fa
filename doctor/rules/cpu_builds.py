"""Torch and engines whose wheels for a system are builds for the CPU."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.framework import (
    TORCH_ENGINES,
    accelerators,
    asks_for_torch,
    gpu_torch,
    is_jetson,
    is_of_torch,
    wants_cpu,
)
from doctor.rules.image_facts import tagged
from doctor.rules.settings import applicable, possible, settings
from doctor.rules.software import Software, engine, engine_name, installed, software


@rule("FRM102", cause="cpu-only-build", severity=Severity.WARNING)
def torch_default_wheel_is_cpu(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """On this architecture the default index has only CPU wheels of this torch version.

    What: a torch without a build label on an architecture where the matrix says that the
        default index carries CPU builds.
    Why: `pip install torch` takes that wheel without a word.
    How to fix: install torch from the CUDA index, or use a container of the vendor.
    Silent when: the build is known, a label names it, or the host is a Jetson, whose
        wheels come from elsewhere.
    Sources: file sizes and torch/version.py of the wheels (rows in the matrix).
    """
    if not _runs_torch(case, matrix) or case.scope.package("torch-npu"):
        raise NotApplicable("the engine does not run GPUs through this torch")
    torch = installed(case, matrix, "torch") or _plain_torch(case, matrix)
    if torch is None:
        raise NotApplicable("torch is not installed here")
    build = case.scope.torch.value
    known = build is not None and (build.cuda.is_known or build.cuda.is_absent)
    version = torch.version
    label = version.local if version else case.scope.variants.get("torch", "")
    is_elsewhere = version is not None and version.is_prerelease  # a nightly, or a vendor's own
    system = case.facts.host.os.value
    is_mac = system is not None and system.id == "macos"  # one wheel there, which holds Metal
    elsewhere = is_elsewhere or is_mac or is_jetson(case, matrix)
    if known or label or elsewhere or wants_cpu(case):
        raise NotApplicable("the build of torch is known or its index is another")
    setting = settings(case, matrix)[0]
    matches = applicable(matrix, torch, "platform", setting)
    if version is None:  # whichever release came: many of them are such builds
        matches += [
            match for match, sure in possible(matrix, torch, "platform", setting) if not sure
        ]
    for match in (m for m in matches if m.claim.value == "cpu-only"):
        which = f" before {match.claim.until}" if version is None and match.claim.until else ""
        yield Fault(
            f"{torch.label}{which} of the default index is a CPU build on {match.claim.key}",
            evidence=(torch.evidence, Evidence(match.claim.key, case.facts.host.arch.at)),
            remedies=(gpu_torch(torch.version),),
            sources=match.claim.source,
            extrapolated=match.extrapolated,
        )
        return
    case.facts.host.arch.known("host.arch")


def _runs_torch(case: Case, matrix: Matrix) -> bool:
    """An engine on torch, a program beside one and a GPU, or what came by pip and brings it."""
    name = engine_name(case, matrix)
    is_plain = case.workload is not None and case.workload.plainly.is_known
    has_card = bool(case.nvidia_devices)
    if is_of_torch(case, matrix, name):
        return is_plain or has_card
    return name in TORCH_ENGINES or (is_plain and asks_for_torch(matrix, name))


def _plain_torch(case: Case, matrix: Matrix) -> Software | None:
    """Torch of no stated version that somebody says came from the default index."""
    work = case.workload
    if work is None or not work.plainly.is_known or case.scope.package("torch") is not None:
        return None
    return software(matrix, "torch", None, work.plainly.at)


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


@rule("FRM106", cause="cpu-only-build", severity=Severity.WARNING)
def onnxruntime_told_without_gpu(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A note says that ONNX Runtime was installed in its CPU package, and tells of no GPU package.

    What: notes with the command or the file that installs `onnxruntime`, where nothing is
        stated of the devices.
    Why: that package holds the CPU provider only; "CUDAExecutionProvider is not in available
        provider names" is what it is mostly reported for.
    How to fix: uninstall it and install `onnxruntime-gpu` alone.
    Silent when: devices are stated, which another rule judges; a GPU package is named; a CPU
        run was asked for; or the system is macOS.
    Sources: ONNX Runtime installation page.
    """
    if engine_name(case, matrix) != "onnxruntime":
        raise NotApplicable("the engine is another")
    system = case.facts.host.os.value
    is_mac = system is not None and system.id == "macos"
    if case.facts.devices.is_known or is_mac or wants_cpu(case) or _GPU_PACKAGE.search(_all(case)):
        raise NotApplicable("devices or another package are stated, or the CPU is wanted")
    note = next((note for note in case.facts.notes if _CPU_PACKAGE.search(note)), "")
    if note:
        yield Fault(
            "onnxruntime is the CPU package: a GPU is not used",
            evidence=(Evidence(note, "notes"),),
            remedies=(
                Remedy(
                    "leave only the GPU package",
                    ("uv pip uninstall onnxruntime", "uv pip install onnxruntime-gpu"),
                    role="python_env",
                ),
            ),
            sources=("https://onnxruntime.ai/docs/install/",),
        )


def _all(case: Case) -> str:
    names = (package.name for package in case.scope.packages.value or ())
    return "\n".join((*names, *case.facts.notes))


@rule("FRM107", cause="cpu-only-build", severity=Severity.WARNING)
def image_for_the_cpu(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The image is its project's build for the CPU, and the host has cards.

    What: the image's name and tag against what the matrix knows of the project's images; one
        without a tag is the latest.
    Why: the short tag, or the name without a suffix, is the CPU build in some projects: it
        finds no device, whatever is passed into the container.
    How to fix: the image or tag for the card.
    Silent when: no card is stated, a CPU run was asked for, or the image is not known.
    Sources: documentation and charts of the projects (rows in the matrix).
    """
    ref = case.scope.image.ref
    image = tagged(ref if ":" in ref.rpartition("/")[2] else f"{ref}:latest", matrix)
    if image is None:
        raise NotApplicable("no image that is known")
    if image.row.vendor != "cpu":
        return
    devices = accelerators(case)
    yield Fault(
        f"{ref} is the image for the CPU, and this host has a card",
        evidence=(Evidence(ref, "image"), Evidence(f"{len(devices)} cards", "devices")),
        remedies=(Remedy(image.row.note or "the image of the project for this card"),),
        sources=image.row.source,
    )


_CPU_PACKAGE = re.compile(
    r"\b(?:install(?:s|ed)?|requirements[\w.]{0,20}|pyproject\.toml|depends on|dependency)\b"
    r"[^\n]{0,80}\bonnxruntime(?![\w.-]{0,2}\w)",
    re.IGNORECASE,
)
_GPU_PACKAGE = re.compile(r"onnxruntime[-_](?:gpu|directml|rocm|cann|openvino|migraphx|training)")


RULES: tuple[Rule, ...] = (
    torch_default_wheel_is_cpu,
    engine_wheel_is_cpu,
    onnxruntime_told_without_gpu,
    image_for_the_cpu,
)
