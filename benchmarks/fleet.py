"""Cost of judging a fleet: CPU seconds and peak memory of a thousand snapshots, by format.

python benchmarks/fleet.py [--hosts 1000]
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HOSTS = Path(__file__).parent.parent / "tests" / "hosts"
FORMATS = ("text", "html", "json", "sarif", "junit", "markdown", "prometheus")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=1000)
    number = parser.parse_args().hosts
    sources = sorted(HOSTS.glob("*/facts.json"))
    with tempfile.TemporaryDirectory(prefix="doctor-fleet-") as folder:
        for host in range(number):
            shutil.copy(sources[host % len(sources)], f"{folder}/n{host:05}.json")
        for form in FORMATS:
            command = [sys.executable, "-m", "doctor", "check", "--facts-dir", folder, "-q"]
            with subprocess.Popen(
                [*command, "--format", form], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            ) as process:
                _, _, usage = os.wait4(process.pid, 0)
                process.returncode = 0
            cpu = usage.ru_utime + usage.ru_stime
            print(f"{form:<12}{cpu:>8.2f} CPU s{usage.ru_maxrss / 1024:>8.0f} MiB")


if __name__ == "__main__":
    main()
