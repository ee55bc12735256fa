"""Python environments that seem to hold engines, with as much of torch as a check asks for."""

from __future__ import annotations

import sys
import venv
from collections.abc import Mapping
from pathlib import Path

# As much of torch as the check asks for, with a fault from the environment.
TORCH = """
import os, sys, time
__version__ = "0"
FAULT = os.environ.get("FAULT", "")

class Numbers(list):
    def __mod__(self, n): return Numbers(x % n for x in self)
    def __mul__(self, n): return Numbers(x * n for x in self)
    def float(self): return self
    def __eq__(self, other): return Flags(a == b for a, b in zip(self, other))
    def __ne__(self, other): return Flags(a != b for a, b in zip(self, other))

class Flags(list):
    def all(self): return all(self)
    def sum(self): return sum(self)

class cuda:
    @staticmethod
    def device_count(): return 2 if FAULT != "one-device" else 1

def device(*_): return None
def arange(size, device=None): return Numbers(range(min(size, 300)))
"""
GROUP = """
import os, sys, time
from torch import FAULT
state = {}

def init_process_group(backend, init_method, rank, world_size, timeout):
    state.update(rank=rank, ranks=world_size)
    print("NCCL INFO noise")
    if FAULT == "no-join" and rank == 1: raise RuntimeError("no route to peer\\nmore")
    if FAULT in ("hang", "no-join"): time.sleep(60)
    if FAULT == "crash" and rank == 1: print("Bus error", file=sys.stderr); os._exit(7)
    if FAULT == "crash": time.sleep(60)

def all_reduce(numbers):
    factor = (state["ranks"] * (state["ranks"] + 1) // 2) / (state["rank"] + 1)
    numbers[:] = [round(x * factor) for x in numbers]
    if FAULT == "wrong" and state["rank"] == 1: numbers[5] += 1

def barrier(): pass
def destroy_process_group(): pass
"""


def environment(root: Path, packages: Mapping[str, str], programs: Mapping[str, str]) -> Path:
    """A Python environment that seems to hold the packages."""
    venv.create(root, with_pip=False, symlinks=True)
    site = root / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    for name, version in packages.items():
        folder = site / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
    (site / "torch").mkdir()
    (site / "torch" / "__init__.py").write_text(TORCH)
    (site / "torch" / "distributed.py").write_text(GROUP)
    for name, text in programs.items():
        (root / "bin" / name).write_text(text)
        (root / "bin" / name).chmod(0o755)
    return site
