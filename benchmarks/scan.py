"""Cost of reading GPU code and ELF beside NVIDIA's cuobjdump and pyelftools, in one run.

    python benchmarks/scan.py [--wheel FILE] [--environment FOLDER] [--runs 7]

Without --wheel, torch's wheel is downloaded from the package index; its libraries are
unpacked into a scratch folder for the tools that cannot read a wheel. cuobjdump comes
from the index too. CPU seconds are user + system, ours the median of the runs, theirs of
one run. "cold" is after the kernel was asked to forget the file. With --environment, the
libraries of a Python environment are read as `doctor check` does it, and again from the
cache.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from elftools.elf.elffile import ELFFile

from doctor.binaries.contents import read_file
from doctor.binaries.scan import scan
from doctor.binaries.tree import linkage_of
from doctor.facts import Coverage
from doctor.probes import libraries, scopes
from doctor.probes.local import LocalHost

LISTED = re.compile(r"^(ELF|PTX) file .*\.(sm_\d+[af]?)\.(?:cubin|ptx)$", re.MULTILINE)


def cpu_ms(work: Callable[[], object], runs: int = 1) -> float:
    """Median CPU time of this process."""
    spent = []
    for _ in range(runs):
        start = time.process_time()
        work()
        spent.append((time.process_time() - start) * 1e3)
    return statistics.median(spent)


def forget(path: Path) -> None:
    """Ask the kernel to drop a file from its page cache."""
    handle = os.open(path, os.O_RDONLY)
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(handle)


def pip(python: Path, *arguments: str) -> None:
    subprocess.run([str(python), "-m", "pip", "-q", *arguments], check=True)


def cuobjdump(folder: Path) -> Path:
    venv.create(folder, with_pip=True)
    pip(folder / "bin/python", "install", "nvidia-cuda-cuobjdump")
    return next(folder.rglob("bin/cuobjdump"))


def by_nvidia(tool: Path, library: Path) -> tuple[Counter[tuple[str, str]], float, float]:
    """Entries per target, CPU seconds and peak MiB of cuobjdump."""
    argv = [str(tool), "-all", "--list-elf", "--list-ptx", str(library)]
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(argv, stdout=out, stderr=subprocess.DEVNULL)
        _, _, usage = os.wait4(process.pid, 0)
        out.seek(0)
        found = Counter((k, n) for k, n in LISTED.findall(out.read().decode()))
    return found, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def by_us(library: Path) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for group in read_file(str(library)).kernels:
        for target in group.targets:
            is_sass = target.kind is Coverage.SASS
            suffix = "" if is_sass and target.suffix == "f" else target.suffix
            found["ELF" if is_sass else "PTX", f"sm_{target.arch}{suffix}"] += group.count
    return found


def compare_code(tool: Path, paths: list[Path], runs: int) -> None:
    print(
        f"{'GPU code':32} {'MiB':>6} {'cold ms':>8} {'warm ms':>8} {'cuobjdump s':>12} {'ratio':>8}"
    )
    for path in paths:
        forget(path)
        cold = cpu_ms(lambda: by_us(path))  # noqa: B023 - called at once
        warm = cpu_ms(lambda: by_us(path), runs)  # noqa: B023
        listed, seconds, peak = by_nvidia(tool, path)
        if not listed:
            continue
        same = "same counts" if listed == by_us(path) else "COUNTS DIFFER"
        size = path.stat().st_size >> 20
        print(
            f"{path.name[:32]:32} {size:6} {cold:8.1f} {warm:8.1f} {seconds:12.2f} "
            f"{seconds * 1e3 / warm:7.0f}x  {same}, theirs peaks at {peak:.0f} MiB"
        )


def by_elftools(path: Path) -> tuple[list[str], list[str]]:
    with path.open("rb") as file:
        elf: Any = ELFFile(file)
        tags = [tag for s in elf.iter_segments("PT_DYNAMIC") for tag in s.iter_tags()]
        needs = elf.get_section_by_name(".gnu.version_r")
        versions = [v.name for _, vs in needs.iter_versions() for v in vs] if needs else []
    return [tag.needed for tag in tags if tag.entry.d_tag == "DT_NEEDED"], versions


def compare_elf(paths: list[Path], runs: int) -> None:
    ours = cpu_ms(lambda: [linkage_of(str(path)) for path in paths], runs)
    theirs = cpu_ms(lambda: [by_elftools(path) for path in paths])
    same = sum(
        list(link.needed) == by_elftools(path)[0]
        for path in paths
        if (link := linkage_of(str(path))) is not None
    )
    print(
        f"ELF: {len(paths)} libraries, NEEDED the same in {same}: {ours:.1f} ms, "
        f"pyelftools {theirs:.1f} ms, {theirs / ours:.1f}x"
    )


def compare_environment(root: str, runs: int) -> None:
    host = LocalHost()
    scope = next(s for s in scopes.read(host, (root,)) if s.root == root.rstrip("/"))
    with tempfile.TemporaryDirectory() as folder:

        def read() -> None:
            libraries.Reader(host, False, folder).read(scope, {})

        cold, warm = cpu_ms(read), cpu_ms(read, runs)
    found = libraries.Reader(host, False, "").read(scope, {}).binaries.value or ()
    print(f"environment: {len(found)} libraries, {cold:.0f} ms, from the cache {warm:.1f} ms")


def unpack(wheel: Path, folder: Path) -> Iterator[Path]:
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if re.search(r"\.so(\.\d+)*$", name):
                yield Path(archive.extract(name, folder))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheel", type=Path)
    parser.add_argument("--environment", metavar="FOLDER")
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        wheel = options.wheel
        if wheel is None:
            pip(Path(sys.executable), "download", "--no-deps", "-d", scratch, "torch")
            wheel = next(folder.glob("*.whl"))
        start = cpu_ms(lambda: scan(str(wheel)))
        print(f"{wheel.name}: read as a stream in {start / 1e3:.2f} s of CPU")
        paths = sorted(unpack(wheel, folder / "wheel"), key=lambda path: -path.stat().st_size)
        compare_code(cuobjdump(folder / "tools"), paths[:6], options.runs)
        compare_elf(paths, options.runs)
    if options.environment:
        compare_environment(options.environment, options.runs)


if __name__ == "__main__":
    main()
