"""Environments of a size that nobody expects: memory stays bounded, and the answer is the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

MEMORY_MIB = 200
CPU_LIMIT_S = 120
# Runs the command and tells its CPU seconds and memory: those of the children of a process.
RUNNER = """\
import json, resource, subprocess, sys
resource.setrlimit(resource.RLIMIT_CPU, (%d, %d))
done = subprocess.run(sys.argv[1:], capture_output=True, text=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([done.returncode, used.ru_utime + used.ru_stime, used.ru_maxrss >> 10,
                  done.stdout, done.stderr]))
"""


def huge(root: Path, distributions: int, files: int) -> Path:
    """An environment; one more distribution, an engine, lies among them."""
    site = root / "lib/python3.12/site-packages"
    (root / "bin").mkdir(parents=True)
    (root / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.12.3\n")
    os.symlink("/usr/bin/python3", root / "bin/python3")
    each = files // distributions
    for number in range(distributions):
        name = f"package_{number}" if number else "vllm"
        info, package = site / f"{name}-1.{number}.dist-info", site / name
        info.mkdir(parents=True)
        package.mkdir()
        paths = [package / f"module_{part}.py" for part in range(each)]
        for path in paths:
            path.touch()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.{number}\n"
            + "".join(f"Requires-Dist: package_{number - back}\n" for back in range(1, 20))
        )
        (info / "RECORD").write_text("".join(f"{p.relative_to(site)},,\n" for p in paths))
    return root


@pytest.mark.heavy
@pytest.mark.parametrize("words", [("check", "--engine", "vllm", "--python"), ("scan",)])
def test_two_thousand_distributions_of_fifty_thousand_files(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    root = huge(tmp_path / "env", 2000, 50_000)
    environment = {**os.environ, "HOME": str(tmp_path)}
    runner = RUNNER % (CPU_LIMIT_S, CPU_LIMIT_S)
    command = [sys.executable, "-c", runner, sys.executable, "-m", "doctor", *words, str(root)]
    said = subprocess.run(command, capture_output=True, check=True, env=environment).stdout
    status, cpu_s, memory_mib, out, err = json.loads(said)
    print(f"{words[0]}: {cpu_s:.1f} CPU s, {memory_mib} MiB")
    assert "bug" not in err
    assert memory_mib < MEMORY_MIB
    if words[0] == "check":
        assert status in (1, 3), err
        assert "vllm" in out
    else:
        assert (status, "holds no library" in err) == (2, True), err
