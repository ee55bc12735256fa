"""`python -m torch.utils.collect_env` and vLLM's and vllm-ascend's collect_env, old and new.

Old reports have `Key: value` lines under no headings; since vLLM 0.8.5 there are framed
headings and padded keys. Parts of other tools inside (lscpu, topology, npu-smi, CANN's
file) are left to their own formats.
"""

from __future__ import annotations

import re

from doctor.facts import (
    UNSTATED,
    CudaToolkit,
    Device,
    Facts,
    HostFacts,
    ImageRef,
    Libc,
    Missing,
    NvidiaFacts,
    Package,
    PythonInfo,
    Reading,
    RocmFacts,
    Scope,
    TorchBuild,
    Version,
    missing,
    seen,
)
from doctor.intake.environment import SCOPE, package
from doctor.intake.formats.conda_list import conda_package
from doctor.intake.formats.nvidia_smi_list import listed_devices
from doctor.intake.names import machine_name, os_release, platform_of_kernel
from doctor.intake.stated import driver_version
from doctor.probes.environment import allowed
from doctor.probes.stated_version import version
from doctor.probes.tool_text import LIMIT, fields, reading, value_or_none, version_or_none

AT = "collect_env"
_BEGIN = re.compile(r"^[ \t]{0,8}PyTorch version[ \t]{0,40}:", re.MULTILINE)
_SYSTEM = re.compile(r"(.{1,100}?) ?\((x86_64|aarch64|arm64|amd64|ppc64le)\)")
_PLATFORM = re.compile(
    r"Linux-(\S{1,80}?)-(x86_64|aarch64|ppc64le)-with-(?:glibc(\d\.\d{1,3})|\S{1,40})"
)
_PIP = re.compile(r"^\[pip3?\][ \t]{1,4}([\w.-]{1,99})==(\S{1,60})$", re.MULTILINE)
_CONDA = re.compile(
    r"^\[conda\][ \t]{1,4}([\w.-]{1,99})[ \t]{1,60}(\d\S{0,60})(?:[ \t]{1,60}(\S{1,99}))?",
    re.MULTILINE,
)
_CUDNN = re.compile(r"libcudnn(?:\.so\.|-|64_|_ops\S{0,20}\.so\.)(\d{1,2}(?:\.\d{1,2}){1,3})")
_ENV = re.compile(r"^([A-Z][A-Z0-9_]{2,60})=([^\n]{0,8000})$", re.MULTILINE)
_GPUS = re.compile(r"^[ \t]{0,8}GPU models and configuration[ \t]{0,20}: ?", re.MULTILINE)
# Keys of engines in vLLM's reports, with the distribution that each speaks of.
_ENGINES = {"vLLM Version": "vllm", "vLLM Ascend Version": "vllm-ascend"}


def looks_like(text: str) -> bool:
    """Tell by two fields that every variant has."""
    return _BEGIN.search(text) is not None and "CUDA used to build PyTorch" in text


def parse(text: str) -> Facts:
    """Host, driver, devices and the environment that the report was made in."""
    begin = _BEGIN.search(text)
    body = text[: LIMIT + (begin.start() if begin else 0)]
    told = fields(body)
    scope = _scope(body, told)
    return Facts(
        host=_host(told, inside=scope.kind == "container"),
        nvidia=_nvidia(told),
        rocm=RocmFacts(version=reading(_rocm(told), AT)),
        devices=_devices(body),
        scopes=(scope,),
        notes=_notes(told),
    )


def _host(told: dict[str, str], inside: bool) -> HostFacts:
    """The system, as far as the environment can see it; a container sees its own."""
    system = _SYSTEM.fullmatch(told.get("OS", ""))
    platform = _PLATFORM.match(told.get("Python platform", ""))
    kernel = platform[1] if platform else None
    libc = _libc(told)
    named = platform_of_kernel(kernel or "")
    arch = system[2] if system else platform[2] if platform else ""
    return HostFacts(
        os=reading(os_release(system[1] if system else _windows(told), ""), AT),
        kernel=reading(kernel, AT),
        arch=reading(machine_name(arch) or None, AT),
        libc=reading(Libc("glibc", libc) if libc else None, AT),
        platform=reading(named or ("container" if inside else None), AT),
    )


def _windows(told: dict[str, str]) -> str:
    text = told.get("OS", "")
    return text if "Windows" in text or "macOS" in text else ""


def _libc(told: dict[str, str]) -> Version | None:
    named = told.get("Libc version", "")
    platform = _PLATFORM.match(told.get("Python platform", ""))
    stated = named.removeprefix("glibc-") if named.startswith("glibc-") else ""
    return Version.maybe(stated or (platform[3] if platform else None))


def _nvidia(told: dict[str, str]) -> NvidiaFacts:
    driver = value_or_none(told.get("Nvidia driver version"))
    runtime = version_or_none(told.get("CUDA runtime version"))
    toolkits = (CudaToolkit(path="", version=runtime, nvcc=True),)
    return NvidiaFacts(
        driver=reading(driver_version(driver) if driver else None, AT),
        # The collector asks nvcc for this figure: the toolkit can compile.
        toolkits=seen(toolkits, AT, partial=True) if runtime else UNSTATED,
    )


def _rocm(told: dict[str, str]) -> Version | None:
    """ROCm by the HIP runtime, whose first two numbers are those of ROCm."""
    hip = version_or_none(told.get("HIP runtime version"))
    if hip is None or len(hip.release) < 2:
        return version_or_none(told.get("ROCM Version"))
    return version(f"{hip.release[0]}.{hip.release[1]}")


def _devices(text: str) -> Reading[tuple[Device, ...]]:
    begin = _GPUS.search(text)
    if begin is None:
        return UNSTATED
    head = text[begin.end() : begin.end() + 16_384]
    section = re.split(
        r"^(?:Nvidia driver version|cuDNN version|HIP runtime)", head, flags=re.MULTILINE
    )[0]
    found = listed_devices(section.lstrip(), AT)
    if found:
        return seen(found, AT)
    # ROCm's torch names the first device alone: how many there are is not said.
    name = value_or_none(section.strip().split("\n")[0])
    alone = listed_devices(f"GPU 0: {name}", AT) if name else ()
    return seen(alone, AT, partial=True) if alone else UNSTATED


def _scope(text: str, told: dict[str, str]) -> Scope:
    env = allowed({match[1]: match[2] for match in _ENV.finditer(text)})
    packages = _packages(text, told)
    kind = "conda" if _CONDA.search(text) else "venv"
    return Scope(
        id=SCOPE,
        kind="container" if _in_container(env) else kind,
        image=ImageRef(
            require_cuda=reading(env.get("NVIDIA_REQUIRE_CUDA"), AT),
            cuda=reading(Version.maybe(env.get("CUDA_VERSION")), AT),
        ),
        python=_python(told),
        packages=seen(packages, AT, partial=True) if packages else UNSTATED,
        torch=_torch(told),
        env=seen(env, AT, partial=True) if env else UNSTATED,
        libc=reading(_libc(told), AT),
    )


def _in_container(env: dict[str, str]) -> bool:
    """Variables that only images set."""
    return "docker" in env.get("VLLM_USAGE_SOURCE", "") or "NVIDIA_REQUIRE_CUDA" in env


def _packages(text: str, told: dict[str, str]) -> tuple[Package, ...]:
    found = {p.name: p for m in _CONDA.finditer(text) if (p := conda_package(m[1], m[2]))}
    found |= {p.name: p for m in _PIP.finditer(text) if (p := package(m[1], m[2]))}
    for key, name in _ENGINES.items():
        stated = (value_or_none(told.get(key)) or "").split(" ")[0]
        if Version.maybe(stated):
            found[name] = package(name, stated)
    cudnn = _CUDNN.search(told.get("cuDNN version", "") + _after(text, "cuDNN version"))
    if cudnn:
        found.setdefault("cudnn", package("cudnn", cudnn[1]))
    return tuple(found.values())


def _after(text: str, key: str) -> str:
    """What follows a field on the next lines."""
    start = text.find(key)
    return text[start : start + 400] if start >= 0 else ""


def _python(told: dict[str, str]) -> Reading[PythonInfo]:
    stated = told.get("Python version", "").split(" ")[0]
    found = Version.maybe(stated)
    threaded = "free-threading" in told.get("Python version", "")
    return reading(PythonInfo(found, abi="t" if threaded else "") if found else None, AT)


def _torch(told: dict[str, str]) -> Reading[TorchBuild]:
    """The build as torch itself says; "None" is a build without CUDA or HIP."""
    found = version_or_none(told.get("PyTorch version"))
    if found is None:
        return UNSTATED
    build = TorchBuild(
        found,
        cuda=_runtime(told.get("CUDA used to build PyTorch")),
        hip=_runtime(told.get("ROCM used to build PyTorch")),
    )
    return seen(build, AT)


def _runtime(text: str | None) -> Reading[Version]:
    """A version, or that the build has none; HIP's ends in a label that is no version."""
    stated = (text or "").strip()
    numbers = re.match(r"\d{1,3}(?:\.\d{1,9}){1,3}", stated)
    found = Version.maybe(numbers[0]) if numbers else None
    if found is not None:
        return seen(found, AT)
    return (
        missing(Missing.NOT_THERE, AT)
        if stated in ("None", "N/A", "Could not collect")
        else UNSTATED
    )


def _notes(told: dict[str, str]) -> tuple[str, ...]:
    """That torch sees no device is a symptom; it is kept for people."""
    sees = told.get("Is CUDA available", "")
    return ("torch says that CUDA is not available",) if sees == "False" else ()
