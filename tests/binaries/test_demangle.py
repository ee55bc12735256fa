"""Readable C++ names, against c++filt: the same, or left as they are."""

from __future__ import annotations

import string
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.binaries.demangle import demangle

NAMES = [
    tuple(line.split("\t"))
    for line in (Path(__file__).parent / "samples/names.txt").read_text().splitlines()
]


_STRING = "std::basic_string<char, std::char_traits<char>, std::allocator<char>>"


def _plain(text: str) -> str:
    """c++filt is not of one mind on spaces between brackets, and when to write std::string out."""
    joined = text.replace("> >", ">>").replace("> >", ">>")
    return joined.replace(_STRING, "std::string")


def test_names_are_those_of_the_reference_or_left() -> None:
    left = 0
    for mangled, expected in NAMES:
        ours = demangle(mangled)
        left += ours == mangled
        assert ours == mangled or _plain(ours) == _plain(expected)
    assert left < len(NAMES) * 0.1


@pytest.mark.parametrize(
    "name", ["main", "", "_Z", "_ZN", "_ZN3c10", "_ZN999999999at", "_Z1fIJDpT_EEvv", "cuInit"]
)
def test_what_is_no_whole_name_is_left(name: str) -> None:
    assert demangle(name) == name


def test_version_of_a_symbol_is_no_part_of_its_name() -> None:
    assert demangle("_ZN3c105ErrorD1Ev@@VERS_1") == "c10::Error::~Error()"


@given(st.text(alphabet=string.ascii_letters + string.digits + "_", max_size=80))
def test_any_text_gives_text(tail: str) -> None:
    assert isinstance(demangle("_ZN" + tail), str)


def test_bombs_end_early() -> None:
    doubling = "_Z1fI" + "St4pairI" * 40 + "ii" + "E" * 40
    assert demangle(doubling + "S0_S1_S2_" * 400) is not None


@pytest.mark.heavy
def test_all_names_of_this_system() -> None:
    libraries = list(Path("/usr/lib").rglob("libstdc++.so.6*")) + list(
        Path(sys.prefix).rglob("*.so")
    )
    listed = subprocess.run(
        ["nm", "-D", *map(str, libraries)], capture_output=True, text=True, check=False
    )
    words = {line.split()[-1].partition("@")[0] for line in listed.stdout.splitlines() if line}
    names = sorted(word for word in words if word.startswith("_Z"))
    answer = subprocess.run(
        ["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True
    )
    for mangled, expected in zip(names, answer.stdout.splitlines(), strict=True):
        ours = demangle(mangled)
        assert ours == mangled or _plain(ours) == _plain(expected)
