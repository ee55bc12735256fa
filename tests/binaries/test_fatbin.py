"""GPU code in files, against what NVIDIA's cuobjdump lists in the same samples."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from doctor.binaries.contents import Contents, read_file, read_stream
from doctor.binaries.coverage import Tally, tally
from doctor.facts import ComputeCapability, Coverage

SAMPLES = Path(__file__).parent / "samples"
NAMES = sorted(path.name for path in SAMPLES.iterdir() if path.suffix in (".so", ".fatbin"))
_LISTED = re.compile(r"^(ELF|PTX) file .*\.(sm_\d+[af]?)\.(?:cubin|ptx)$", re.MULTILINE)

Reader = Callable[[Path], Contents]


def as_file(path: Path) -> Contents:
    return read_file(str(path), thorough=True)


def as_stream(path: Path) -> Contents:
    data = path.read_bytes()
    return read_stream(lambda: io.BytesIO(data), len(data))


def counts(contents: Contents) -> Counter[tuple[str, str]]:
    """Entries per target as cuobjdump names them: it writes sm_100f machine code as sm_100."""
    found: Counter[tuple[str, str]] = Counter()
    for group in contents.kernels:
        for target in group.targets:
            is_sass = target.kind is Coverage.SASS
            suffix = "" if is_sass and target.suffix == "f" else target.suffix
            found["ELF" if is_sass else "PTX", f"sm_{target.arch}{suffix}"] += group.count
    return found


def listed(text: str) -> Counter[tuple[str, str]]:
    """What a listing by cuobjdump counts."""
    return Counter((kind, name) for kind, name in _LISTED.findall(text))


@pytest.mark.parametrize("read", [as_file, as_stream])
@pytest.mark.parametrize("name", NAMES)
def test_counts_per_target_are_those_of_cuobjdump(name: str, read: Reader) -> None:
    contents = read(SAMPLES / name)
    assert contents.unreadable == ""
    assert counts(contents) == listed((SAMPLES / f"{name}.cuobjdump.txt").read_text())


@pytest.mark.parametrize("name", NAMES)
def test_a_stream_tells_what_the_file_tells(name: str) -> None:
    assert as_stream(SAMPLES / name) == as_file(SAMPLES / name)


def _targets(name: str) -> list[str]:
    return sorted(str(t) for group in as_file(SAMPLES / name).kernels for t in group.targets)


def test_suffixes_and_ptx_isa() -> None:
    assert _targets("suffixes.so") == [
        "compute_100f@9.0", "compute_90a@9.0", "sm_100a", "sm_100f", "sm_103a", "sm_120a",
        "sm_120f", "sm_90a",
    ]  # fmt: skip


def test_alternatives_stay_together() -> None:
    (group,) = as_file(SAMPLES / "zstd.so").kernels
    assert group.count == 2
    assert [str(t) for t in group.targets] == ["compute_80@9.0", "sm_80", "sm_90"]


@pytest.mark.parametrize(
    ("name", "packed"),
    [("unpacked.so", {"none"}), ("zstd.so", {"zstd"}), ("lz4.so", {"lz4", "none"})],
)
def test_compression(name: str, packed: set[str]) -> None:
    assert set(as_file(SAMPLES / name).compression) == packed


@pytest.mark.parametrize("name", ["unpacked.so", "lz4.so", "zstd.so"])
def test_exact_toolkit_is_in_a_cubin(name: str) -> None:
    if name == "zstd.so":
        pytest.importorskip("zstandard")
    assert str(as_file(SAMPLES / name).toolkit) == "13.0.88"


TEGRA = frozenset({ComputeCapability(8, 7), ComputeCapability(11, 0)})


@pytest.mark.parametrize(
    ("name", "card", "expected"),
    [
        ("zstd.so", "8.9", Tally(sass=2)),  # runs code for 8.0
        ("zstd.so", "12.0", Tally(ptx=2)),
        ("zstd.so", "7.5", Tally(none=2)),
        ("suffixes.so", "9.0", Tally(sass=1)),
        ("suffixes.so", "12.1", Tally(sass=1)),  # 120f
        ("suffixes.so", "8.9", Tally(none=1)),  # 90a is for 9.0 alone
        ("plain.so", "8.7", Tally(sass=1)),
        ("unpacked.so", "8.7", Tally(ptx=1)),  # desktop code does not run on Tegra
        ("ptx_only.so", "12.0", Tally(ptx=1)),
        ("linktime.so", "9.0", Tally()),
    ],
)
def test_coverage(name: str, card: str, expected: Tally) -> None:
    found = tally(as_file(SAMPLES / name).kernels, ComputeCapability.parse(card), TEGRA)
    assert found == expected
