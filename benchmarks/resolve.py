"""Cost of `doctor resolve` over `doctor check` of the same host line: CPU seconds, and memory.

    python benchmarks/resolve.py [--runs 9]

Both start Python, read the line, load the matrix and all rules, and judge once; what the
resolver costs is the difference. Medians of all runs.
"""

from __future__ import annotations

import argparse
import os
import sys

from benchmarks.check import medians

HOSTS = (
    "V100x4,driver=535.183.01,python=3.11,ubuntu=22.04,container=docker",
    "H100x8,driver=550.54,python=3.11,ubuntu=22.04",
    "RTX 4090,driver=580.65.06,python=3.12,ubuntu=24.04",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=9)
    runs = parser.parse_args().runs
    print(f"{'':<70}{'check':>8}{'resolve':>9}{'over':>7}{'unlocks':>9}{'over':>7}{'MiB':>6}")
    for host in HOSTS:
        doctor = [sys.executable, "-m", "doctor"]
        env = dict(os.environ)
        check, _ = medians([*doctor, "check", "--host", host], env, runs)
        answer = [*doctor, "resolve", "vllm", "--host", host]
        bare, _ = medians([*answer, "--no-unlocks"], env, runs)
        full, peak = medians(answer, env, runs)
        print(f"{host:<70}{check:>8.3f}{bare:>9.3f}{bare - check:>7.3f}", end="")
        print(f"{full:>9.3f}{full - check:>7.3f}{peak:>6.0f}")


if __name__ == "__main__":
    main()
