"""Cost of `doctor check` beside its peers, in one run: CPU seconds and peak memory.

    python benchmarks/check.py [--runs 15] [--beside ENVIRONMENT]

Peers are installed from the package index into a scratch environment. CPU seconds are
user + system of the process and its children, the median of all runs; peak memory is the
largest resident set of one process. With --beside, VIRTUAL_ENV names an environment (one
that holds torch, say) for every tool alike.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

PEERS = {
    "rigsolve": ("rigsolve", ("check",)),
    "env-doctor": ("env-doctor", ("check",)),
    "cuda-doctor": ("cuda-doctor", ("doctor",)),
}


def measure(argv: list[str], env: dict[str, str]) -> tuple[float, float]:
    """CPU seconds of the process with its children, and peak MiB of the largest process."""
    process = subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, _, usage = os.wait4(process.pid, 0)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def medians(argv: list[str], env: dict[str, str], runs: int) -> tuple[float, float]:
    measure(argv, env)
    results = [measure(argv, env) for _ in range(runs)]
    return (
        statistics.median(cpu for cpu, _ in results),
        statistics.median(peak for _, peak in results),
    )


def install_peers(folder: Path) -> dict[str, list[str]]:
    """Commands of the peers that could be installed."""
    venv.create(folder, with_pip=True)
    commands = {}
    for name, (package, arguments) in PEERS.items():
        pip = [str(folder / "bin/python"), "-m", "pip", "install", "-q", package]
        if subprocess.run(pip, check=False, stderr=subprocess.DEVNULL).returncode == 0:
            commands[name] = [str(folder / "bin" / name), *arguments]
    return commands


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--beside", metavar="ENVIRONMENT")
    options = parser.parse_args()
    env = {k: v for k, v in os.environ.items() if k != "VIRTUAL_ENV"}
    if options.beside:
        env["VIRTUAL_ENV"] = str(Path(options.beside).absolute())
        env["PATH"] = f"{env['VIRTUAL_ENV']}/bin:{env['PATH']}"
    scratch = Path(tempfile.mkdtemp(prefix="doctor-peers-"))
    try:
        commands = {
            "bare python": [sys.executable, "-I", "-c", "pass"],
            "doctor": [sys.executable, "-m", "doctor", "check"],
            **install_peers(scratch),
        }
        rows = {name: medians(argv, env, options.runs) for name, argv in commands.items()}
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    own = rows["doctor"]
    print(f"{'':<14}{'CPU s':>8}{'ratio':>8}{'MiB':>8}{'ratio':>8}")
    for name, (cpu, peak) in rows.items():
        print(f"{name:<14}{cpu:>8.3f}{cpu / own[0]:>8.1f}{peak:>8.0f}{peak / own[1]:>8.1f}")


if __name__ == "__main__":
    main()
