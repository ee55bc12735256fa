"""The fake NVML library: built from `nvml.c` beside this file, asked through the real pynvml."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_suffix(".c")
_ASK = """
import json, os, sys, time
from doctor.facts import to_wire
from doctor.probes import nvml
answers = []
for path in sys.argv[2:]:
    os.environ["FAKE_NVML"] = path
    started = time.monotonic()
    answers.append({"answer": to_wire(nvml.query(float(sys.argv[1])))})
    answers[-1]["seconds"] = time.monotonic() - started
print(json.dumps(answers))
"""


def build(folder: Path) -> Path:
    """Compile the library into a folder, which is then one for LD_LIBRARY_PATH."""
    library = folder / "libnvidia-ml.so.1"
    flags = ("-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror")
    subprocess.run(["gcc", *flags, "-o", library, SOURCE], check=True)
    return folder


def ask(
    folder: Path,
    configurations: Sequence[Path],
    timeout_s: float = 20.0,
    environ: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """What `probes.nvml.query` reads for each configuration, and how long that took."""
    answer = subprocess.run(
        [sys.executable, "-c", _ASK, str(timeout_s), *map(str, configurations)],
        env={**os.environ, "LD_LIBRARY_PATH": str(folder), **(environ or {})},
        check=True,
        capture_output=True,
        text=True,
    )
    answers: list[dict[str, Any]] = json.loads(answer.stdout)
    return answers
