"""Real wheels from the package index, against cuobjdump. Downloads gigabytes; nothing stays."""

from __future__ import annotations

import re
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from doctor.binaries.contents import read_file
from doctor.binaries.coverage import Tally, tally
from doctor.binaries.scan import scan
from doctor.facts import ComputeCapability
from tests.binaries.test_elf import assert_same
from tests.binaries.test_fatbin import counts, listed

pytestmark = pytest.mark.heavy
_LIBRARY = re.compile(r"\.so(?:\.\d+)*$")
_LARGE = 1 << 20


@pytest.fixture(scope="module")
def cuobjdump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cuobjdump")
    venv.create(folder, with_pip=True)
    pip = [str(folder / "bin/python"), "-m", "pip", "install", "-q", "nvidia-cuda-cuobjdump"]
    subprocess.run(pip, check=True)
    return next(folder.rglob("bin/cuobjdump"))


def download(name: str, folder: Path) -> Path:
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder), name]
    subprocess.run(pip, check=True)
    return next(folder.glob("*.whl"))


def libraries(wheel: Path) -> Iterator[tuple[str, Path]]:
    """Unpack one library at a time, and remove it afterwards."""
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            if _LIBRARY.search(member.filename):
                path = Path(archive.extract(member, wheel.parent))
                yield member.filename, path
                path.unlink()


@pytest.mark.parametrize(
    "name", ["torch", "vllm", "onnxruntime-gpu", "nvidia-nccl-cu13", "bitsandbytes"]
)
def test_a_wheel_file_by_file(name: str, cuobjdump: Path, tmp_path: Path) -> None:
    wheel = download(name, tmp_path)
    streamed = {file.path: file.contents for file in scan(str(wheel)).files}
    compared = 0
    for member, path in libraries(wheel):
        contents = read_file(str(path), thorough=True)
        assert contents == streamed[member], "a stream tells what the file tells"
        assert_same(path)
        argv = [str(cuobjdump), "-all", "--list-elf", "--list-ptx", str(path)]
        theirs = subprocess.run(argv, capture_output=True, text=True, check=False)
        if "fatal" not in theirs.stderr:  # it gives up on some cubins of older toolkits
            assert counts(contents) == listed(theirs.stdout), member
            compared += bool(contents.kernels)
    wheel.unlink()
    assert compared


def test_a_build_for_cards_of_2014_compiles_on_every_modern_card(tmp_path: Path) -> None:
    found = scan(str(download("xllamacpp-cuda12x==0.1.6", tmp_path)))
    kernels = found.files[0].contents.kernels
    for card in ("7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "12.0"):
        counted = tally(kernels, ComputeCapability.parse(card), frozenset())
        assert counted == Tally(ptx=60)
