"""CUDA toolkits on a host: the folders under /usr/local, and the one whose nvcc is on PATH."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Optional

from doctor.facts import CudaToolkit, Reading, Version, seen
from doctor.probes import files
from doctor.probes.host import Host

_BASE = "/usr/local"
_NAME = re.compile(r"cuda(?:-\d{1,3}(?:\.\d{1,3})?)?")
_TEXT = re.compile(r"CUDA Version (\d{1,3}(?:\.\d{1,5}){1,2})")
_DEFINE = re.compile(r"#define CUDA_VERSION (\d{4,6})")
_SMALL, _HEADER = 1 << 16, 1 << 18
# Debian and Ubuntu spread their own toolkit over the system's folders.
_DISTRIBUTION = ("/usr/lib/cuda", "/usr/lib/nvidia-cuda-toolkit", "/usr")


def read(host: Host, environ: Mapping[str, str]) -> Reading[tuple[CudaToolkit, ...]]:
    """Every toolkit once, by its real folder."""
    names = host.list_dir(_BASE)
    if names.value is None and not names.is_absent:
        return files.relay(names)
    folders = [f"{_BASE}/{name}" for name in names.value or () if _NAME.fullmatch(name)]
    real = [host.real_path(folder).value for folder in folders]
    on_path = _nvcc_root(host, environ)
    roots = dict.fromkeys(root for root in (*real, on_path) if root is not None)
    return seen(tuple(_toolkit(host, root) for root in roots), _BASE)


def _toolkit(host: Host, root: str) -> CudaToolkit:
    nvcc = host.stat(f"{root}/bin/nvcc").is_known
    return CudaToolkit(root, _version(host, root), nvcc=nvcc)


def _nvcc_root(host: Host, environ: Mapping[str, str]) -> Optional[str]:
    for folder in environ.get("PATH", "").split(":"):
        nvcc = host.real_path(f"{folder}/nvcc").value if folder.startswith("/") else None
        if nvcc is not None and nvcc.endswith("/bin/nvcc"):
            root = nvcc[: -len("/bin/nvcc")]
            if root in _DISTRIBUTION:
                return "/usr"
            # Without the compiler's second half it is a script that starts another nvcc.
            return root if host.stat(f"{root}/nvvm").is_known else None
    return None


def _version(host: Host, root: str) -> Optional[Version]:
    """From version.json, version.txt (before CUDA 11) or the header."""
    for folder in _DISTRIBUTION if root in _DISTRIBUTION else (root,):
        found = (
            parse_version_json(host.read_text(f"{folder}/version.json", _SMALL).value or "")
            or parse_version_text(host.read_text(f"{folder}/version.txt", _SMALL).value or "")
            or parse_header(host.read_text(f"{folder}/include/cuda.h", _HEADER).value or "")
        )
        if found is not None:
            return found
    return None


def parse_version_json(text: str) -> Optional[Version]:
    """The entry "cuda" of version.json."""
    try:
        return Version.maybe(str(json.loads(text)["cuda"]["version"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def parse_version_text(text: str) -> Optional[Version]:
    """The one line of version.txt."""
    match = _TEXT.search(text)
    return Version.maybe(match[1]) if match else None


def parse_header(text: str) -> Optional[Version]:
    """CUDA_VERSION in cuda.h: thousands are the major, tens the minor."""
    match = _DEFINE.search(text)
    return Version(f"{int(match[1]) // 1000}.{int(match[1]) % 1000 // 10}") if match else None
