"""The recorded hosts of tests/hosts: `python -m tests.fakes.hosts` rewrites what is derived.

A folder may hold `nvml.conf`, a configuration of the fake NVML: its `nvml.json` is what the
real pynvml reads from that; likewise `dcmi.conf` and `dcmi.json`. `facts.json` is what the
probes make of the recording.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from doctor.facts import to_wire
from doctor.probes.collect import collect
from doctor.probes.recorded import RecordedHost
from tests.fakes import dcmi, nvml

HOSTS = Path(__file__).parent.parent / "hosts"


def folders() -> list[Path]:
    """Every recorded host."""
    return sorted(path for path in HOSTS.iterdir() if path.is_dir())


def with_fake_nvml() -> list[Path]:
    """Hosts whose NVML answers come from the fake."""
    return [folder for folder in folders() if (folder / "nvml.conf").exists()]


def with_fake_dcmi() -> list[Path]:
    """Hosts whose DCMI answers come from the fake."""
    return [folder for folder in folders() if (folder / "dcmi.conf").exists()]


def facts_of(folder: Path) -> Any:
    """The facts in their wire form."""
    return json.loads(json.dumps(to_wire(collect(RecordedHost(str(folder))))))


def main() -> None:
    """Rewrite `nvml.json` and `facts.json`; the diff is to be read."""
    hosts = with_fake_nvml()
    with tempfile.TemporaryDirectory() as scratch:
        answers = nvml.ask(nvml.build(Path(scratch)), [host / "nvml.conf" for host in hosts])
    for host, found in zip(hosts, answers, strict=True):
        _write(host / "nvml.json", found["answer"]["value"])
    with tempfile.TemporaryDirectory() as scratch:
        library = dcmi.build(Path(scratch))
        for host in with_fake_dcmi():
            _write(host / "dcmi.json", dcmi.ask(host / "dcmi.conf", library)["value"])
    for host in folders():
        _write(host / "facts.json", facts_of(host))


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n")


if __name__ == "__main__":
    main()
