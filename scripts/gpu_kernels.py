"""Run one kernel of each CUDA library of a torch environment; print what ran, as JSON lines.

Started by gpu_verify.py with the Python that holds torch. Each kernel runs in a process of
its own, forked before CUDA is touched: a fault in one says nothing of the next.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

MODEL = {"hidden": 2048, "inner": 5632, "heads": 32, "kv": 4, "layers": 22, "words": 32000}


def made(*shape: int, dtype: Any = torch.float16) -> Any:
    """A tensor of ones on the GPU."""
    return torch.ones(shape, device="cuda", dtype=dtype)


def elementwise() -> bool:
    """Add and reduce."""
    return bool((made(1024) + 1).sum().item() == 2048)


def sort() -> bool:
    """Sort."""
    numbers = torch.arange(1024, 0, -1, device="cuda")
    return bool(numbers.sort().values[0].item() == 1)


def attention() -> bool:
    """Scaled dot-product attention by the flash kernel."""
    block = made(1, 2, 64, 64)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION):
        out = functional.scaled_dot_product_attention(block, block, block)
    return bool((out.float() - 1).abs().max().item() < 0.01)


def matmul() -> bool:
    """A product in half precision."""
    return bool((made(256, 256) @ made(256, 256))[0, 0].item() == 256)


def convolution() -> bool:
    """A convolution."""
    image, weight = made(1, 8, 16, 16), made(8, 8, 3, 3)
    return bool(functional.conv2d(image, weight)[0, 0, 0, 0].item() == 72)


def collective() -> bool:
    """An all-reduce of one rank."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), NCCL_SOCKET_IFNAME="lo")
    torch.distributed.init_process_group("nccl", rank=0, world_size=1)
    numbers = made(1024)
    torch.distributed.all_reduce(numbers)
    return bool(numbers.sum().item() == 1024)


# By the distribution whose code it runs; cuFFT is left out: its code cannot be judged.
KERNELS: dict[str, tuple[str, Callable[[], bool]]] = {
    "elementwise": ("torch", elementwise),
    "sort": ("torch", sort),
    "flash attention": ("torch", attention),
    "matmul": ("cublas", matmul),
    "convolution": ("cudnn", convolution),
    "all-reduce": ("nccl", collective),
}


def run(kernel: Callable[[], bool]) -> tuple[bool, str]:
    """Run a kernel; return whether it ran, and the error."""
    try:
        is_right = kernel()
        torch.cuda.synchronize()
    except Exception as fault:
        return False, f"{type(fault).__name__}: {fault}".splitlines()[0][:200]
    return is_right, "" if is_right else "wrong result"


def forked(kernel: Callable[[], bool]) -> tuple[bool, str]:
    """The same in a process of its own."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, json.dumps(run(kernel)).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    ran, error = json.loads(answer) if answer else (False, f"died with status {status}")
    return ran, error


def model_memory() -> dict[str, int]:
    """Bytes of a Llama of known widths as torch allocates it, and of the process beside them."""
    wide, inner, words = MODEL["hidden"], MODEL["inner"], MODEL["words"]
    narrow = wide // MODEL["heads"] * MODEL["kv"]
    free_before, _ = torch.cuda.mem_get_info()
    shapes = [(wide, wide), (narrow, wide), (narrow, wide), (wide, wide),
              (inner, wide), (inner, wide), (wide, inner), (wide,), (wide,)]  # fmt: skip
    every = [shape for _ in range(MODEL["layers"]) for shape in shapes]
    every += [(words, wide), (words, wide), (wide,)]
    kept = [made(*shape, dtype=torch.bfloat16) for shape in every]
    torch.cuda.synchronize()
    free_after, _ = torch.cuda.mem_get_info()
    return {
        "tensors": sum(tensor.nbytes for tensor in kept),
        "allocated": torch.cuda.memory_allocated(),
        "reserved": torch.cuda.memory_reserved(),
        "taken": free_before - free_after,
    }


def about() -> dict[str, Any]:
    """What torch says of itself and of the cards."""
    cards = range(torch.cuda.device_count())
    pairs = map(torch.cuda.get_device_capability, cards)
    return {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "folder": os.path.dirname(torch.__file__),
        "archs": torch.cuda.get_arch_list(),
        "cards": [torch.cuda.get_device_name(i) for i in cards],
        "capabilities": [f"{major}.{minor}" for major, minor in pairs],
        "memory": [torch.cuda.get_device_properties(i).total_memory for i in cards],
    }


def main() -> None:
    """Answer one question: about, memory or kernels."""
    if sys.argv[1] == "about":
        print(json.dumps(about()))
    elif sys.argv[1] == "memory":
        print(json.dumps(model_memory()))
    else:
        for name, (library, kernel) in KERNELS.items():
            ran, error = forked(kernel)
            print(json.dumps({"kernel": name, "library": library, "ran": ran, "error": error}))


if __name__ == "__main__":
    main()
