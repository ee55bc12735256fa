"""What one more host costs the controller: CPU seconds of `check --inventory` by number of hosts.

python benchmarks/fleet_reach.py [--image IMAGE] [--hosts 1,4,8,12]

Containers of an image with python3 are started and removed; CPU of doctor and of all that it
starts is counted, what runs inside the containers is not.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

IMAGE = "doctor-test-systemd:bookworm"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--image", default=IMAGE)
    parser.add_argument("--hosts", default="1,4,8,12")
    given = parser.parse_args()
    counts = [int(text) for text in given.hosts.split(",")]
    names = [f"doctor-bench-fleet-{os.getpid()}-{number}" for number in range(max(counts))]
    try:
        for name in names:
            _docker("run", "-d", "--init", "--network", "none", "--name", name, given.image,
                    "sleep", "3600")  # fmt: skip
        rows = [(count, _cost(names[:count])) for count in counts]
    finally:
        _docker("rm", "-f", *names)
    for count, cpu_s in rows:
        print(f"{count:>4} hosts {cpu_s:>7.2f} CPU s")
    (first, low), (last, high) = rows[0], rows[-1]
    if last > first:
        print(f"{(high - low) / (last - first):.2f} CPU s for each host more")


def _docker(*words: str) -> None:
    subprocess.run(["docker", *words], check=True, stdout=subprocess.DEVNULL)


def _cost(names: list[str]) -> float:
    """CPU seconds of one check, with those of its children."""
    variables = {name: {"ansible_connection": "docker"} for name in names}
    listed = {"_meta": {"hostvars": variables}, "all": {"hosts": names}}
    with tempfile.TemporaryDirectory(prefix="doctor-fleet-") as folder:
        inventory = Path(folder, "hosts.json")
        inventory.write_text(json.dumps(listed))
        command = [sys.executable, "-m", "doctor", "check", "--inventory", str(inventory),
                   "--keep", f"{folder}/kept", "-q", "--engine", "vllm==0.20.0",
                   "--host-limit", "600"]  # fmt: skip
        with subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as child:
            _, _, usage = os.wait4(child.pid, 0)
            child.returncode = 0
        kept = len(list(Path(folder, "kept").glob("*.json")))
        assert kept == len(names), f"{kept} of {len(names)} hosts answered"
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
