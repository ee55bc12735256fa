"""Trees whose links all lead out of them: no probe opens or lists anything out there."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from doctor.probes import model_files
from doctor.probes.collect import Options, collect
from doctor.probes.recording import record
from doctor.probes.rooted import RootedHost

TESTS = Path(__file__).parent.parent
HOSTS = ("ascend-910b3x8", "h100x2-580", "mi300x8-rocm7", "wsl2-4090")
VENV = "srv/env/lib/python3.11/site-packages"
# Python announces these before they happen. A hook cannot be taken off again.
_WATCHED = ("open", "os.listdir", "os.scandir")
_watch: dict[str, str | list[str]] = {"below": "", "seen": []}


def _note(event: str, arguments: tuple[object, ...]) -> None:
    below, found = _watch["below"], _watch["seen"]
    if below and event in _WATCHED and isinstance(arguments[0], str) and isinstance(found, list):
        real = os.path.realpath(arguments[0])
        if real.startswith(f"{below}/"):
            found.append(real)


sys.addaudithook(_note)


@contextmanager
def opened_below(folder: Path) -> Iterator[list[str]]:
    """Files and folders below a folder that are opened or listed meanwhile."""
    found: list[str] = []
    _watch.update(below=os.path.realpath(folder), seen=found)
    try:
        yield found
    finally:
        _watch.update(below="")


@pytest.fixture(params=HOSTS)
def outside(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A whole system with an environment, libraries, a kernel module and a model."""
    top = tmp_path / "outside"
    shutil.copytree(TESTS / "hosts" / request.param / "files", top, symlinks=True)
    sample = TESTS / "binaries/samples/linktime.so"
    for place in (
        f"{VENV}/torch/lib/libtorch_cuda.so",
        f"{VENV}/vllm/_C.abi3.so",
        "usr/lib/x86_64-linux-gnu/libcuda.so.1",
        "usr/local/cuda-13.0/compat/libcuda.so.1",
        "lib/modules/6.8.0/updates/dkms/nvidia.ko",
    ):
        (top / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(sample, top / place)
    for place, text in (
        (f"{VENV}/torch-2.14.0.dist-info/METADATA", "Name: torch\nVersion: 2.14.0\n"),
        (f"{VENV}/vllm-0.33.0.dist-info/METADATA", "Name: vllm\nVersion: 0.33.0\n"),
        (f"{VENV}/torch-2.14.0.dist-info/RECORD", "torch/lib/libtorch_cuda.so,,\n"),
        (f"{VENV}/vllm-0.33.0.dist-info/RECORD", "vllm/_C.abi3.so,,\n"),
        (f"{VENV}/torch/version.py", "__version__ = '2.14.0'\ncuda = '13.0'\n"),
        ("srv/env/pyvenv.cfg", "home = /usr/bin\nversion = 3.11.2\n"),
        ("srv/env/bin/python3", ""),
        ("proc/version", "Linux version 6.8.0\n"),
        ("proc/sys/kernel/osrelease", "6.8.0\n"),
        ("etc/os-release", "ID=debian\nVERSION_ID=12\n"),
        ("models/m/config.json", '{"model_type": "llama"}'),
    ):
        (top / place).parent.mkdir(parents=True, exist_ok=True)
        (top / place).write_text(text)
    return top


def read_all(root: Path, kept: Path) -> None:
    """Everything that is read of a mounted tree."""
    host = RootedHost(str(root))
    collect(host, Options(pythons=("/srv/env",)))
    record(host, str(kept), Options(pythons=("/srv/env",)))
    model_files.read(host, "vllm", {"model": "/models/m"}, {})


def link_files(root: Path, outside: Path, lead: str) -> None:
    """The folders of a system, in which each file is a link to the real one."""
    for folder, _, names in os.walk(outside):
        here = root / Path(folder).relative_to(outside)
        here.mkdir(parents=True, exist_ok=True)
        for name in names:
            (here / name).symlink_to(f"{lead}{folder}/{name}")


def link_folders(root: Path, outside: Path, depth: int) -> None:
    """Folders of a depth are links to the real ones."""
    for path in outside.glob("/".join("*" * depth)):
        here = root / path.relative_to(outside)
        here.parent.mkdir(parents=True, exist_ok=True)
        here.symlink_to(path)


@pytest.mark.real
def test_what_lies_in_the_tree_is_read(outside: Path, tmp_path: Path) -> None:
    with opened_below(outside) as found:
        read_all(outside, tmp_path / "kept")
    names = {path.rpartition("/")[2] for path in found}
    assert names >= {"os-release", "METADATA", "version.py", "libtorch_cuda.so", "config.json"}


@pytest.mark.real
@pytest.mark.parametrize("way", ["files", "climbing", "top", "second", "fourth"])
def test_what_links_lead_to_outside_is_not(outside: Path, way: str, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    if way in ("files", "climbing"):
        link_files(root, outside, "" if way == "files" else "../" * 60)
    else:
        link_folders(root, outside, {"top": 1, "second": 2, "fourth": 4}[way])
    with opened_below(outside) as found:
        read_all(root, tmp_path / "kept")
    assert found == []
    assert "Linux version" not in "".join(
        path.read_text(errors="replace")
        for path in (tmp_path / "kept").rglob("*")
        if path.is_file()
    )


@pytest.mark.real
def test_a_kernel_outside_does_not_speak_for_the_tree(tmp_path: Path) -> None:
    (tmp_path / "root/proc").mkdir(parents=True)
    (tmp_path / "root/proc/version").symlink_to("/proc/version")
    host = RootedHost(str(tmp_path / "root"))
    assert not host.list_dir("/sys/bus/pci/devices").is_absent
