"""The libraries that a process has mapped, from /proc/PID/maps."""

from __future__ import annotations

import re
from collections.abc import Iterable

from doctor.facts import Missing, Reading, missing, seen
from doctor.probes.host import Host

_LIMIT = 4 << 20
_MOST_PROCESSES = 16
# A line ends in the path of what is mapped; the kernel marks what lies no longer there.
_PATH = re.compile(r"^[0-9a-f]+-[0-9a-f]+ \S+ \S+ \S+ \d+ +(/[^\n]{1,1000})$", re.MULTILINE)
_SITE = re.compile(r"(/.{0,900}?)/lib(?:64)?/python3[^/]*/(?:site|dist)-packages/")
# Drivers, runtimes and the parts of engines that hold device code.
_TELLING = re.compile(
    r"lib(?:cuda|nvidia-ml|cudart|cublas|cublasLt|cudnn|nccl|nvrtc|nvinfer|nvshmem_host"
    r"|torch_cuda|torch_hip|torch_cpu|torch_npu|tensorrt_llm|ggml[\w-]*|llama|mlx"
    r"|amdhip64|hsa-runtime64|rccl|ascendcl|ascend_hal|hccl|onnxruntime\w*)\.so[\d.]*"
    r"|xllamacpp\S*\.so"
)
_DELETED = " (deleted)"


def read(host: Host, pids: Iterable[int]) -> Reading[tuple[str, ...]]:
    """Telling libraries of some processes of one engine, those of the first that may be read."""
    places: dict[str, None] = {}
    refused: Reading[tuple[str, ...]] = missing(Missing.NOT_STATED, "/proc")
    at = ""
    for pid in list(pids)[:_MOST_PROCESSES]:
        text = host.read_text(f"/proc/{pid}/maps", _LIMIT)
        if text.value is None:
            refused = missing(text.missing or Missing.NOT_READABLE, text.at)
        else:
            at = at or text.at
            places.update(dict.fromkeys(filter(_is_telling, parse(text.value))))
    return seen(tuple(places), at) if at else refused


def parse(text: str) -> tuple[str, ...]:
    """Paths of all that is mapped, each once; one that was replaced ends in " (deleted)"."""
    return tuple(dict.fromkeys(_PATH.findall(text)))


def environment_root(host: Host, pid: int) -> str:
    """The Python environment that a process has most of its libraries from, or ""."""
    paths = parse(host.read_text(f"/proc/{pid}/maps", _LIMIT).value or "")
    roots = [match[1] for match in map(_SITE.match, paths) if match]
    return max(dict.fromkeys(roots), key=roots.count, default="")


def condense(text: str) -> str:
    """One line for each file that is mapped, in the layout of the kernel."""
    return "".join(f"0-0 r--p 0 00:00 0 {path}\n" for path in parse(text) if ".so" in path)


def _is_telling(path: str) -> bool:
    name = path.removesuffix(_DELETED).rpartition("/")[2]
    return _TELLING.fullmatch(name) is not None
