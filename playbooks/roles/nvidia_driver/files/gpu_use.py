"""Uses the GPUs of a machine as programs do: a CUDA call on each, a container that sees them.

Runs there, by itself, when a driver was changed and is to be proven; never to examine a machine.
The driver's library is loaded in a child with a deadline: it may hang in the kernel, or crash.
Needs Python 3.9 and nothing else.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
from typing import Any

CALL_S, RUN_S = 60.0, 120.0
_SIZE, _BYTE = 4096, 0xA5
# The GPU is there and works, but somebody has all of its memory, or has it for himself.
_TAKEN = {2, 46}
_WANTS_GPUS = '"NVIDIA_VISIBLE_DEVICES='


class RefusedError(Exception):
    """A call of the driver's library that failed, with its code."""

    def __init__(self, call: str, code: int) -> None:
        super().__init__(f"{call} answers {code}")
        self.code = code


def answer(count: int = 0, **more: Any) -> dict[str, Any]:
    """How many GPUs did what was asked; `fault` says what failed, `skipped` why nobody asked."""
    return {"count": count, "fault": "", "skipped": "", "code": 0, **more}


# -- a CUDA call ----------------------------------------------------------------------------


def call(limit_s: float = CALL_S) -> dict[str, Any]:
    """Write memory of each GPU and read it again, in a child."""
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(sink, json.dumps(_in_child()).encode())
        os._exit(0)
    os.close(sink)
    said = _read(source, limit_s)
    if said is None:
        # What hangs in the kernel does not end; it is left to itself.
        os.kill(child, signal.SIGKILL)
        return answer(fault=f"libcuda did not answer within {limit_s:g} s")
    os.waitpid(child, 0)
    if not said:
        return answer(fault="libcuda ended the program that asked it")
    found: dict[str, Any] = json.loads(said)
    return found


def _read(source: int, limit_s: float) -> bytes | None:
    ready, _, _ = select.select([source], [], [], limit_s)
    return os.read(source, 65536) if ready else None


def _in_child() -> dict[str, Any]:
    try:
        library = ctypes.CDLL("libcuda.so.1")
        _ask(library, "cuInit", 0)
        count = ctypes.c_int()
        _ask(library, "cuDeviceGetCount", ctypes.byref(count))
        for number in range(count.value):
            if not _keeps(library, number):
                return answer(number, fault=f"memory of GPU {number} gives back other bytes")
    except RefusedError as fault:
        if fault.code in _TAKEN:
            return answer(skipped=f"a GPU is in use: {fault}")
        return answer(fault=str(fault), code=fault.code)
    except (OSError, AttributeError) as fault:
        return answer(fault=str(fault)[:300])
    return answer(count.value)


def _keeps(library: ctypes.CDLL, number: int) -> bool:
    """Whether a GPU's memory holds what is written to it."""
    device, context = ctypes.c_int(), ctypes.c_void_p()
    place, size = ctypes.c_uint64(), ctypes.c_size_t(_SIZE)
    back = (ctypes.c_ubyte * _SIZE)()
    _ask(library, "cuDeviceGet", ctypes.byref(device), number)
    _ask(library, "cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    _ask(library, "cuCtxSetCurrent", context)
    _ask(library, "cuMemAlloc_v2", ctypes.byref(place), size)
    _ask(library, "cuMemsetD8_v2", place, ctypes.c_ubyte(_BYTE), size)
    _ask(library, "cuMemcpyDtoH_v2", back, place, size)
    return bytes(back) == bytes([_BYTE]) * _SIZE


def _ask(library: ctypes.CDLL, name: str, *arguments: Any) -> None:
    code = getattr(library, name)(*arguments)
    if code:
        raise RefusedError(name, code)


# -- a container ----------------------------------------------------------------------------


def container(engine: str, words: list[str]) -> dict[str, Any]:
    """Start a container of an image that is there and asks for GPUs, and count what it sees."""
    if not engine or shutil.which(engine) is None:
        return answer(skipped="no container engine is to hand out GPUs")
    image = _image(engine)
    if not image:
        return answer(skipped="no image that asks for GPUs lies there to be started")
    name = f"doctor-sees-{os.getpid()}"
    # What the image asks of the driver's version is no matter here.
    env = ["--env", "NVIDIA_DISABLE_REQUIRE=1", "--env", "NVIDIA_DRIVER_CAPABILITIES=utility"]
    argv = [engine, "run", "--rm", "--name", name, "--pull", "never", "--network", "none",
            *words, *env, "--entrypoint", "nvidia-smi", image, "-L"]  # fmt: skip
    try:
        said = _run(argv, RUN_S)
    except subprocess.TimeoutExpired:
        _run([engine, "rm", "--force", name], RUN_S)
        return answer(fault=f"the container did not end within {RUN_S:g} s")
    seen = len(re.findall(r"(?m)^GPU \d+:", said.stdout))
    if said.returncode == 0 and seen:
        return answer(seen)
    return answer(fault=_words(said) or f"it ended with {said.returncode}")


def _words(said: subprocess.CompletedProcess[str]) -> str:
    """The line that speaks of an error, else the last one; causes stand at the end of it."""
    lines = (said.stderr or said.stdout).strip().splitlines()
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines[-1:] or [""])[0][-300:]


def _image(engine: str) -> str:
    """The smallest image whose environment asks for GPUs; "" if there is none."""
    listed = _run([engine, "image", "ls", "--quiet", "--no-trunc"], RUN_S).stdout.split()
    if not listed:
        return ""
    form = "{{.Size}} {{.Id}} {{json .Config.Env}}"
    said = _run([engine, "image", "inspect", "--format", form, *sorted(set(listed))], RUN_S).stdout
    rows = [line.split(" ", 2) for line in said.splitlines() if _WANTS_GPUS in line]
    return min(rows, key=lambda row: int(row[0]))[1] if rows else ""


def _run(argv: list[str], limit_s: float) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "LC_ALL": "C.UTF-8"}
    return subprocess.run(
        argv, capture_output=True, text=True, errors="replace", env=env, check=False,
        timeout=limit_s, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def main() -> int:
    """Engine and its words for all GPUs in JSON as the one argument; answers on standard output."""
    question = json.loads(sys.argv[1])
    found = {"call": call(), "container": container(question["engine"], question["words"])}
    json.dump(found, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
