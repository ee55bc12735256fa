"""One rank of the all-reduce check. Runs in the Python of the engine; needs torch alone.

    python -I allreduce_child.py cuda|cpu RANK RANKS PORT

Prints one line of JSON: {"ok": text}, {"wrong": text} or {"fails": text}.
"""

from __future__ import annotations

import json
import sys
import time
from datetime import timedelta
from typing import Any

# Small messages and large ones take different ways through the libraries.
SIZES = (256, 1 << 20, 4 << 20)


def main() -> None:
    """Join, add up, compare."""
    kind, rank, ranks, port = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    try:
        found = _check(kind, rank, ranks, port)
    except Exception as fault:
        lines = str(fault).strip().splitlines() or [type(fault).__name__]
        found = {"fails": f"{type(fault).__name__}: {lines[0][:300]}"}
    print(json.dumps(found), flush=True)


def _check(kind: str, rank: int, ranks: int, port: int) -> dict[str, str]:
    import torch
    import torch.distributed as group

    if kind == "cuda" and torch.cuda.device_count() < ranks:
        return {"fails": f"torch sees {torch.cuda.device_count()} of {ranks} devices"}
    device: Any = torch.device("cuda", rank) if kind == "cuda" else torch.device("cpu")
    backend = "nccl" if kind == "cuda" else "gloo"
    began = time.monotonic()
    group.init_process_group(
        backend,
        init_method=f"tcp://127.0.0.1:{port}",
        rank=rank,
        world_size=ranks,
        timeout=timedelta(seconds=120),
    )
    for size in SIZES:
        # Rank r brings r + 1 times the numbers 0 to 250: the sum is known for every place.
        pattern = (torch.arange(size, device=device) % 251).float()
        numbers = pattern * (rank + 1)
        group.all_reduce(numbers)
        wanted = pattern * (ranks * (ranks + 1) // 2)
        if not bool((numbers == wanted).all()):
            off = int((numbers != wanted).sum())
            return {"wrong": f"{off} of {size} sums are wrong on rank {rank}"}
    group.barrier()
    group.destroy_process_group()
    spent = time.monotonic() - began
    return {"ok": f"{backend} of torch {torch.__version__}, up to 16 MiB, {spent:.1f} s"}


if __name__ == "__main__":
    main()
