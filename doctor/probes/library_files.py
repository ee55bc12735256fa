"""Which libraries of an environment are read: those that decide whether an engine runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from doctor.facts import Scope, TorchBuild
from doctor.probes.dists import normalized
from doctor.probes.host_tree import HostTree

_RECORD_LIMIT = 16 << 20
_LIBRARY = re.compile(r'^"?([^,"\n]+\.so(?:\.\d+)*)"?,', re.MULTILINE)
_COMPILER = re.compile(r"^([^,\n]+/bin/ptxas(?:-[a-z]+)?),", re.MULTILINE)
_KEY = re.compile(
    r"torch|torchvision|torchaudio|torchcodec|torch-npu|vllm|vllm-ascend|sgl-kernel|sglang-kernel|"
    r"flash-attn.*|flashinfer-.*|xformers|bitsandbytes|onnxruntime.*|llama-cpp-python|xllamacpp.*|"
    r"tensorrt.*|triton.*|lmdeploy|text-generation-server|deep-gemm|deep-ep|mamba-ssm|"
    r"causal-conv1d|exllamav2|auto-gptq|autoawq-kernels|transformer-engine.*|ctranslate2|apex"
)
# Parts of a distribution that carry no GPU code of its own: bundled system libraries,
# profilers, tests. They are judged only as parts of what needs them.
_BUNDLED = re.compile(r"[^/]*\.libs/|triton/(?:backends/nvidia/lib|plugins|instrumentation)/")
_HOMES = {
    "ollama": ("/usr/local/lib/ollama", "/usr/lib/ollama"),
    "llama.cpp": ("/usr/local/lib", "/usr/lib/x86_64-linux-gnu/ggml", "/usr/lib/llama.cpp"),
}
_BACK_END = re.compile(r"libggml-(?:cuda|hip)[^/]*\.so(?:\.\d+)*")
_BACK_END_FOLDER = re.compile(r"(?:cuda|rocm|hip)(?:_[a-z0-9_]+)?")
_VENDOR = re.compile(r"nvidia-.*")
# bitsandbytes carries a library per CUDA version and loads the one that torch asks for.
_VARIANT = re.compile(r"libbitsandbytes_(?:cuda|rocm|xpu)(\d+)\.so")
# Loaded only when a user asks for that back end: what they lack is no fault.
_ON_DEMAND = re.compile(
    r"libonnxruntime_providers_(?:tensorrt|nv_tensorrt_rtx|openvino|migraphx)\.so"
)


@dataclass
class LibraryFiles:
    """Paths by distribution: `key` ones become facts, `vendor` ones serve the others."""

    key: dict[str, list[str]] = field(default_factory=dict)
    vendor: dict[str, list[str]] = field(default_factory=dict)
    compilers: dict[str, list[str]] = field(default_factory=dict)


def find(tree: HostTree, scope: Scope) -> LibraryFiles:
    """The libraries of a scope's distributions, by their lists of installed files."""
    found = LibraryFiles()
    folders = {package.location for package in scope.packages.value or ()}
    infos = {(site, name): info for site in folders for name, info in _infos(tree, site)}
    for package in scope.packages.value or ():
        is_key = _KEY.fullmatch(package.name)
        if not is_key and not _VENDOR.fullmatch(package.name):
            continue
        info = infos.get((package.location, package.name), "")
        libraries, compilers = _recorded(tree, package.location, info)
        target = found.key if is_key else found.vendor
        target[package.name] = [path for path in libraries if _is_meant(path, scope.torch.value)]
        if is_key and compilers:
            found.compilers[package.name] = compilers
    return found


def find_on_host(tree: HostTree) -> LibraryFiles:
    """Back ends of engines that are installed without Python."""
    found = LibraryFiles()
    for package, folders in _HOMES.items():
        paths = [path for folder in folders for path in _back_ends(tree, folder)]
        if paths:
            found.key[package] = paths
    return found


def _back_ends(tree: HostTree, folder: str) -> Iterator[str]:
    """GPU back ends of ggml in a folder and, one per CUDA or ROCm version, below it."""
    for name in sorted(tree.names(folder)):
        if _BACK_END.fullmatch(name):
            yield f"{folder}/{name}"
        elif _BACK_END_FOLDER.fullmatch(name):
            inner = sorted(tree.names(f"{folder}/{name}"))
            yield from (f"{folder}/{name}/{file}" for file in inner if _BACK_END.fullmatch(file))


def is_on_demand(path: str) -> bool:
    """Tell whether a library is loaded only for a back end that was asked for."""
    return _ON_DEMAND.fullmatch(path.rpartition("/")[2]) is not None


def torch_openings(libraries: list[str]) -> list[str]:
    """The order in which `import torch` opens its libraries, then the rest."""
    first = ("libtorch_global_deps.so", "_C.")

    def rank(path: str) -> int:
        name = path.rpartition("/")[2]
        return next((i for i, start in enumerate(first) if name.startswith(start)), len(first))

    return sorted(libraries, key=rank)


def _infos(tree: HostTree, site: str) -> Iterator[tuple[str, str]]:
    """Names and dist-info folders of what is installed in a folder."""
    for entry in tree.names(site):
        if entry.endswith(".dist-info"):
            yield normalized(entry[: -len(".dist-info")].rpartition("-")[0]), f"{site}/{entry}"


def _recorded(tree: HostTree, site: str, info: str) -> tuple[list[str], list[str]]:
    """Libraries and device compilers that a RECORD lists; it is long, so the answer is kept."""
    record = f"{info}/RECORD"
    identity = tree.identity(record) if info else []
    known: Any = tree.memory.recall("record", record, identity) if identity else None
    if not _is_pair_of_lists(known):
        text = tree.host.read_text(record, _RECORD_LIMIT).value or "" if info else ""
        names = [name for name in _LIBRARY.findall(text) if not _BUNDLED.match(name)]
        known = [names, _COMPILER.findall(text)]
        if identity:
            tree.memory.keep("record", record, identity, known)
    libraries, compilers = ([f"{site}/{name}" for name in names] for names in known)
    return libraries, compilers


def _is_pair_of_lists(value: object) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(isinstance(part, list) and all(isinstance(n, str) for n in part) for part in value)
    )


def _is_meant(path: str, torch: TorchBuild | None) -> bool:
    """False for the copy of a library that is for another CUDA than torch's."""
    match = _VARIANT.fullmatch(path.rpartition("/")[2])
    if match is None:
        return True
    built = (torch.cuda.value or torch.hip.value) if torch is not None else None
    return built is not None and "".join(map(str, built.release[:2])) == match[1]
