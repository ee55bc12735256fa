"""Recorded hosts that a test writes by hand, in one call."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from doctor.probes.recorded import RecordedHost


def write_host(folder: Path, files: dict[str, str] | None = None, **parts: Any) -> RecordedHost:
    """Write `files` and the parts (paths, links, commands, sockets, disks, nvml, env, host)."""
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in (files or {}).items():
        target = folder / "files" / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    for name, value in parts.items():
        (folder / f"{name}.json").write_text(json.dumps(value))
    return RecordedHost(str(folder))
