"""Files that a person names: what is no file is neither waited for nor put out of its place."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from doctor.named_files import read_below, read_named, write_named


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


def test_nothing_that_lies_in_a_folder_of_others_is_written_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    monkeypatch.setattr(os, "urandom", bytes)
    planted = tmp_path / f".report.{bytes(6).hex()}.part"
    for plant in (planted.symlink_to, planted.hardlink_to):
        plant(victim)
        with pytest.raises(FileExistsError):
            write_named(tmp_path / "report", "ours")
        assert victim.read_text() == "untouched"
        planted.unlink(missing_ok=True)


def test_a_file_below_is_asked_where_it_lies_when_it_is_open(tmp_path: Path) -> None:
    roots = {os.path.realpath(tmp_path / "own")}
    (tmp_path / "own").mkdir()
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "own" / "file").write_text("plain")
    (tmp_path / "own" / "good").symlink_to("file")
    (tmp_path / "own" / "bad").symlink_to("../secret")
    os.mkfifo(tmp_path / "own" / "pipe")
    assert read_below(tmp_path / "own" / "file", roots) == b"plain"
    assert read_below(tmp_path / "own" / "good", roots) == b"plain"
    for name in ("bad", "../secret", "pipe", "none", "."):
        assert read_below(tmp_path / "own" / name, roots) is None


def test_links_that_move_while_they_are_read_lead_nowhere_else(tmp_path: Path) -> None:
    own, ends = tmp_path / "own", threading.Event()
    own.mkdir()
    (tmp_path / "secret").write_text("secret")
    (own / "file").write_text("plain")

    def move() -> None:
        while not ends.is_set():
            for target in ("file", "../secret"):
                (own / "new").symlink_to(target)
                os.replace(own / "new", own / "link")

    mover = threading.Thread(target=move)
    mover.start()
    try:
        found = {read_below(own / "link", {os.path.realpath(own)}) for _ in range(2000)}
    finally:
        ends.set()
        mover.join()
    assert found <= {b"plain", None}
