"""The fake DCMI library: built from `dcmi.c` beside this file, asked through the real reader."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from doctor.facts import to_wire
from doctor.probes import dcmi

SOURCE = Path(__file__).with_suffix(".c")
FLAGS = ("-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror")
PART = "libdrvdsmi_fake.so"


def build(folder: Path) -> Path:
    """Compile the library into a folder."""
    subprocess.run(["gcc", *FLAGS, "-o", folder / dcmi.LIBRARY, SOURCE], check=True)
    return folder


def build_in_parts(folder: Path) -> Path:
    """The library in one folder and a part that it needs in another, as the driver has them."""
    for name in ("driver", "common"):
        (folder / name).mkdir()
    part = folder / "common" / PART
    empty = folder / "empty.c"
    empty.write_text("int fake_part(void);\nint fake_part(void) { return 0; }\n")
    subprocess.run(["gcc", *FLAGS, f"-Wl,-soname,{PART}", "-o", part, empty], check=True)
    needing = ("-Wl,--no-as-needed", part)
    library = folder / "driver" / dcmi.LIBRARY
    subprocess.run(["gcc", *FLAGS, "-o", library, SOURCE, *needing], check=True)
    return folder


def ask(configuration: Path, *folders: Path, timeout_s: float = 20.0) -> dict[str, Any]:
    """What `probes.dcmi.query` reads for a configuration."""
    os.environ["FAKE_DCMI"] = str(configuration)
    try:
        answer: dict[str, Any] = to_wire(dcmi.query(tuple(map(str, folders)), timeout_s))
    finally:
        del os.environ["FAKE_DCMI"]
    return answer
