"""What is remembered of files: for the same file only, and only from a trusted place."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.binaries.cache import SCANNER, Memory, identity_of
from doctor.binaries.contents import Contents, read_file
from doctor.binaries.fact_records import from_binary_record, to_binary_record
from doctor.binaries.records import from_record, to_record
from doctor.facts import Binary

SAMPLES = Path(__file__).parent / "samples"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "cache"
    made.mkdir(mode=0o700)
    return made


def _kept(folder: Path, value: object = "value") -> Path:
    memory = Memory(str(folder), "environment")
    memory.keep("kind", "/a", [1], value)
    memory.save()
    (file,) = folder.iterdir()
    return file


def _recalled(folder: Path, identity: int = 1) -> object:
    return Memory(str(folder), "environment").recall("kind", "/a", [identity])


def test_kept_for_the_same_identity_only(folder: Path) -> None:
    _kept(folder)
    assert _recalled(folder) == "value"
    assert _recalled(folder, identity=2) is None
    assert Memory(str(folder), "another").recall("kind", "/a", [1]) is None


def test_what_is_not_used_again_is_forgotten(folder: Path) -> None:
    _kept(folder)
    memory = Memory(str(folder), "environment")
    memory.keep("kind", "/b", [1], "new")
    memory.save()
    assert _recalled(folder) is None


def test_identity_changes_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"1")
    before = identity_of(str(path))
    os.utime(path, ns=(1, 1))
    assert before is not None
    assert identity_of(str(path)) != before
    assert identity_of(str(tmp_path / "none")) is None
    assert identity_of("/dev/null") is None


def test_a_file_that_others_can_write_is_not_believed(folder: Path) -> None:
    _kept(folder).chmod(0o646)
    assert _recalled(folder) is None


def test_a_folder_in_which_others_can_write_is_not_believed(folder: Path) -> None:
    _kept(folder)
    folder.chmod(0o757)
    assert _recalled(folder) is None
    folder.chmod(0o700)
    folder.parent.chmod(0o757)
    assert _recalled(folder) is None


def test_a_link_is_not_followed(folder: Path, tmp_path: Path) -> None:
    file = _kept(folder)
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    assert _recalled(folder) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_root_believes_nobody_elses_files(folder: Path) -> None:
    file = _kept(folder)
    os.chown(file, 1000, 1000)
    assert _recalled(folder) is None
    os.chown(file, 0, 0)
    os.chown(folder, 1000, 1000)
    assert _recalled(folder) is None
    memory = Memory(str(folder), "other")
    memory.keep("kind", "/a", [1], "x")
    memory.save()
    assert len(list(folder.iterdir())) == 1


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"scanner": 0, "kinds": {"kind": {"/a": [[1], "value"]}}}', "[" * 100_000,
     f'{{"scanner": {SCANNER}, "kinds": []}}', f'{{"scanner": {SCANNER}, "kinds": {{"kind": 3}}}}',
     f'{{"scanner": {SCANNER}, "kinds": {{"kind": {{"/a": [[1]]}}}}}}'],
)  # fmt: skip
def test_nonsense_is_as_nothing(folder: Path, text: str) -> None:
    file = _kept(folder)
    file.write_text(text)
    assert _recalled(folder) is None
    # Whole, as far as its hash tells.
    file.write_text(f"{hashlib.sha256(text.encode()).hexdigest()}\n{text}")
    assert _recalled(folder) is None


def test_old_files_make_room(folder: Path) -> None:
    for number in range(400):
        path = folder / f"{number}.json"
        path.write_text("")
        os.utime(path, (number, number))
    memory = Memory(str(folder), "environment")
    memory.keep("kind", "/a", [1], "value")
    memory.save()
    assert len(list(folder.iterdir())) == 200
    assert _recalled(folder) == "value"


def test_an_unwritable_place_is_no_fault(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    memory = Memory(str(file / "below"), "x")
    memory.keep("kind", "/a", [1], "x")
    memory.save()
    Memory("", "x").save()


@pytest.mark.parametrize("name", ["suffixes.so", "zstd.so", "ptx_only.so", "README.md"])
def test_contents_survive_the_cache(name: str) -> None:
    contents = read_file(str(SAMPLES / name), thorough=True)
    assert from_record(json.loads(json.dumps(to_record(contents)))) == contents
    binary = contents.binary(name, "package")
    assert from_binary_record(json.loads(json.dumps(to_binary_record(binary)))) == binary


_JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda children: st.lists(children, max_size=6),
    max_leaves=20,
)


@given(_JSON)
def test_any_record_is_contents_or_none(value: object) -> None:
    assert isinstance(from_record(value), (Contents, type(None)))
    assert isinstance(from_binary_record(value), (Binary, type(None)))
