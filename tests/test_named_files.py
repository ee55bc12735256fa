"""Files that a person names: what is no file is neither waited for nor put out of its place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from doctor.named_files import read_named, write_named


def test_a_link_stays_a_link_and_no_remains_are_left(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("file")
    write_named(tmp_path / "link", "text \N{GREEK CAPITAL LETTER OMEGA}")
    assert (tmp_path / "link").is_symlink()
    assert read_named(tmp_path / "file").decode() == "text \N{GREEK CAPITAL LETTER OMEGA}"
    assert sorted(os.listdir(tmp_path)) == ["file", "link"]


def test_devices_and_pipes_are_written_to(tmp_path: Path) -> None:
    write_named("/dev/null", "text")
    assert Path("/dev/null").is_char_device()
    with pytest.raises(OSError, match="No space left"):
        write_named("/dev/full", "text")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="No such device"):
        write_named(pipe, "text")
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_named(pipe, "text")
    assert os.read(reader, 10) == b"text"
    os.close(reader)
    assert pipe.is_fifo()


def test_what_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="Is a directory"):
        write_named(tmp_path / "folder", "text")
    with pytest.raises(OSError, match="No such file"):
        write_named(tmp_path / "none" / "file", "text")
    assert os.listdir(tmp_path) == ["folder"]


def test_reading_stops_at_the_limit(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 100)
    assert read_named(tmp_path / "file", 10) == b"x" * 10
    with pytest.raises(OSError, match="not a regular file"):
        read_named("/dev/zero", 10)
