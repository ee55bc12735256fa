"""`doctor scan` on files, wheels, tar archives and folders made of the samples."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

from doctor.binaries.scan import Scan, scan
from doctor.cli.main import run
from doctor.errors import ExitCode
from doctor.matrix import load_matrix
from doctor.report import Style
from doctor.report.progress import ByteProgress
from doctor.report.scan import render_text
from doctor.scanning import scan_for
from tests.binaries.written import Library
from tests.probes.written import write_host

SAMPLES = Path(__file__).parent / "samples"
METADATA = "Metadata-Version: 2.1\nName: some-kernels\nVersion: 1.2\n\nName: not this\n"
WHEEL = "Wheel-Version: 1.0\nTag: cp312-abi3-manylinux_2_28_x86_64\n"


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    path = tmp_path / "some_kernels-1.2-cp312-abi3-manylinux_2_28_x86_64.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("zstd.so", "suffixes.so"):
            archive.write(SAMPLES / name, f"pkg/{name}")
        program = zipfile.ZipInfo("pkg/bin/tool")
        program.external_attr = 0o755 << 16
        archive.writestr(program, (SAMPLES / "ptx_only.so").read_bytes())
        archive.writestr("pkg/x/tbe/kernel/ascend910b/Add.o", b"")
        archive.writestr("pkg/broken.so", b"\x7fELF")
        archive.writestr("pkg/text.py", "x = 1")
        archive.writestr("some_kernels-1.2.dist-info/METADATA", METADATA)
        archive.writestr("some_kernels-1.2.dist-info/WHEEL", WHEEL)
    return path


def _paths(found: Scan) -> list[str]:
    return [file.path for file in found.files]


def test_a_wheel(wheel: Path) -> None:
    found = scan(str(wheel))
    assert (found.kind, found.wheel.name, found.wheel.version) == ("wheel", "some-kernels", "1.2")
    assert found.wheel.tags == ("cp312-abi3-manylinux_2_28_x86_64",)
    assert found.socs == ("ascend910b",)
    assert _paths(found) == ["pkg/zstd.so", "pkg/suffixes.so", "pkg/bin/tool", "pkg/broken.so"]
    assert [bool(file.contents.unreadable) for file in found.files] == [False] * 3 + [True]


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz"])
def test_a_tar_archive_as_a_stream(mode: Literal["w", "w:gz", "w:xz"], tmp_path: Path) -> None:
    path = tmp_path / f"image.tar{mode[1:].replace(':', '.')}"
    with tarfile.open(path, mode) as archive:
        archive.add(SAMPLES / "zstd.so", "usr/lib/zstd.so")
        archive.add(SAMPLES / "README.md", "usr/lib/readme")
    found = scan(str(path))
    assert _paths(found) == ["usr/lib/zstd.so"]
    assert found.files[0].contents.kernels[0].count == 2


def test_a_tar_archive_that_breaks_off(tmp_path: Path) -> None:
    path = tmp_path / "image.tar"
    with tarfile.open(path, "w") as archive:
        archive.add(SAMPLES / "zstd.so", "a.so")
        archive.add(SAMPLES / "lz4.so", "b.so")
    path.write_bytes(path.read_bytes()[:20_000])
    found = scan(str(path))
    assert found.incomplete or found.files[-1].contents.unreadable
    assert found.files[0].contents.kernels


def test_a_folder_without_following_links(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/one.so.1").write_bytes((SAMPLES / "ptx_only.so").read_bytes())
    (tmp_path / "a/one.so").symlink_to("one.so.1")
    (tmp_path / "a/loop").symlink_to(tmp_path)
    (tmp_path / "a/notes.txt").write_text("")
    assert _paths(scan(str(tmp_path))) == [str(tmp_path / "a/one.so.1")]


def _encrypted(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(SAMPLES / "zstd.so", "x.so")
    data = bytearray(path.read_bytes())
    for magic, offset in ((b"PK\1\2", 8), (b"PK\3\4", 6)):
        data[data.find(magic) + offset] |= 1
    path.write_bytes(data)


def _wrong_sum(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(SAMPLES / "zstd.so", "x.so")
    data = bytearray(path.read_bytes())
    data[3000] ^= 0xFF
    path.write_bytes(data)


@pytest.mark.parametrize("make", [_encrypted, _wrong_sum])
def test_a_member_that_cannot_be_read(make: Callable[[Path], None], tmp_path: Path) -> None:
    path = tmp_path / "x.whl"
    make(path)
    assert "damaged archive" in scan(str(path)).files[0].contents.unreadable


def test_a_wheel_that_claims_too_much(tmp_path: Path) -> None:
    path = tmp_path / "x.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.so", b"x")
    data = bytearray(path.read_bytes())
    at = data.find(b"PK\1\2")
    data[at + 24 : at + 28] = b"\xff\xff\xff\xfe"
    path.write_bytes(data * 1)
    assert scan(str(path)).files[0].contents.unreadable


@pytest.mark.parametrize("size", [3 << 20, 12 << 20])
def test_tables_at_the_end_of_a_long_member(size: int, tmp_path: Path) -> None:
    """Patchelf moves the string table behind everything else."""
    body = b"\0" * size
    library = Library(soname="libx.so.1", needed=("liba.so",), sections={".text": (1, body)})
    written = library.write(tmp_path / "x.so").read_bytes()
    with zipfile.ZipFile(tmp_path / "x.whl", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.so", written)
    (found,) = scan(str(tmp_path / "x.whl")).files
    assert (found.contents.linkage.soname, found.contents.linkage.needed) == (
        "libx.so.1",
        ("liba.so",),
    )


def _run(*argv: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = run(["scan", *argv])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_text_report(wheel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _run(str(wheel), "--cc", "8.9", "--cc", "12.0", capsys=capsys)
    assert code == ExitCode.OK
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines() if "pkg/" in line}
    assert rows["pkg/zstd.so"][1:3] == ["yes", "JIT"]
    assert rows["pkg/suffixes.so"][1:3] == ["no", "yes"]
    assert "ascend910b" in out
    assert "pkg/broken.so: truncated" in out


CARDS = ("7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "10.3", "11.0", "12.0", "12.1")


@pytest.mark.parametrize("width", range(30, 160, 10))
def test_text_report_keeps_to_the_width(wheel: Path, tmp_path: Path, width: int) -> None:
    progress = ByteProgress(io.StringIO(), width)
    host = write_host(tmp_path / "host")
    report = scan_for(str(wheel), CARDS, host, load_matrix(), progress)
    title, *lines = render_text(report, Style(width=width)).splitlines()
    assert title.startswith("wheel some-kernels")
    assert max(map(len, lines)) <= max(width, 40)
    words = " ".join(lines).split()
    for named in ("pkg/zstd.so", "sm_90", "9.0", "12.0", "yes", "JIT"):
        assert named in words


def test_json_report(wheel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = _run(str(wheel), "--cc", "9.0", "--format", "json", capsys=capsys)
    report: dict[str, Any] = json.loads(out)
    assert report["schema"] == "doctor/scan/v1"
    first = report["files"][0]
    assert first["coverage"] == {"9.0": {"result": "sass", "sass": 2, "ptx": 0, "none": 0}}
    assert first["kernels"] == [{"targets": ["compute_80@9.0", "sm_80", "sm_90"], "count": 2}]
    assert "unresolved" not in first, "whether it is missing only the home of a wheel can tell"


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (["zstd.so", "--cc", "7.0"], ExitCode.NO, ""),
        (["zstd.so"], ExitCode.OK, ""),
        (["README.md"], ExitCode.USAGE, "not an ELF file"),
        (["empty"], ExitCode.USAGE, "holds no library"),
        (["nowhere.so"], ExitCode.USAGE, "No such file"),
        (["zstd.so", "--cc", "nine"], ExitCode.USAGE, "not a compute capability"),
    ],
)
def test_exit_codes(
    tmp_path: Path, argv: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    folder = tmp_path if argv[0] == "empty" else SAMPLES
    found, out, err = _run(str(folder / argv[0]), *argv[1:], capsys=capsys)
    assert found == code
    assert not out or code != ExitCode.USAGE
    assert said in err


def test_missing_libraries_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = Library(needed=("libnowhere.so.3", "libcuda.so.1")).write(tmp_path / "x.so")
    _, out, _ = _run(str(path), capsys=capsys)
    assert "missing  libnowhere.so.3 (1)" in out


def test_control_characters_in_names_reach_no_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(SAMPLES / "zstd.so", "\x1b[31mred.so")
    assert "\x1b" not in _run(str(path), capsys=capsys)[1]


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_a_bar_on_a_terminal_and_lines_elsewhere() -> None:
    for stream in (_Terminal(), io.StringIO()):
        progress = ByteProgress(stream, width=60)
        progress._started = progress._shown = -100.0
        progress(50 << 20, 100 << 20, "lib.so")
        progress.close()
        text = stream.getvalue()
        assert "50/100 MiB lib.so" in text
        assert ("\r" in text) is stream.isatty()


@pytest.mark.slow
def test_a_wheel_of_a_gigabyte_in_less_than_64_mib(tmp_path: Path) -> None:
    path = tmp_path / "big.whl"
    block = os.urandom(1 << 20)
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive,
        archive.open("pkg/big.so", "w", force_zip64=True) as member,
    ):
        member.write((SAMPLES / "zstd.so").read_bytes())
        for _ in range(1024):
            member.write(block)
    # The peak of this process alone: rusage would count the one that it was forked from.
    code = (
        "import sys; from doctor.cli.main import run; run(['scan', sys.argv[1]]);"
        "print(open('/proc/self/status').read().split('VmHWM:')[1].split()[0], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
    )
    assert "compute_80@9.0" in done.stdout
    assert int(done.stderr.split()[-1]) < 64 << 10
