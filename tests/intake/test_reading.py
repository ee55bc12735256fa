"""What may be handed over as a file, and what is refused with a word and without waiting."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from doctor.errors import UsageError
from doctor.intake.detect import read_text


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def _large(path: Path) -> None:
    path.touch()
    os.truncate(path, (64 << 20) + 1)


MADE: tuple[tuple[Callable[[Path], object], str], ...] = (
    (lambda _: None, "No such file"),
    (lambda path: path.mkdir(), "not a regular file"),
    (os.mkfifo, "not a regular file"),
    (_socket, "not a regular file"),
    (lambda path: path.symlink_to("/dev/zero"), "not a regular file"),
    (lambda path: path.symlink_to(path.name), "Too many levels"),
    (lambda path: path.write_text(" \n"), "empty"),
    (lambda path: path.write_bytes(b"\x7fELF\0\0"), "not a text"),
    (lambda path: path.write_bytes("driver: 1".encode("utf-16")), "not a text"),
    (_large, "larger than 64 MiB"),
)


@pytest.mark.parametrize(("make", "word"), MADE)
def test_what_is_no_text_is_refused_at_once(
    tmp_path: Path, make: Callable[[Path], object], word: str
) -> None:
    make(tmp_path / "input")
    with pytest.raises(UsageError, match=word) as caught:
        read_text(tmp_path / "input")
    assert caught.value.hint


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_says_so(tmp_path: Path) -> None:
    (tmp_path / "input").write_text("x")
    (tmp_path / "input").chmod(0)
    with pytest.raises(UsageError, match="Permission denied"):
        read_text(tmp_path / "input")


def test_any_encoding_is_read_somehow(tmp_path: Path) -> None:
    (tmp_path / "input").write_bytes(b"\xef\xbb\xbfdriver: caf\xe9")
    assert read_text(tmp_path / "input") == "driver: caf�"


def test_a_pipe_of_the_shell_is_read_to_its_end() -> None:
    reader, writer = os.pipe()
    assert stat.S_ISFIFO(os.fstat(reader).st_mode)
    os.write(writer, b"driver: 1")
    os.close(writer)
    assert read_text(f"/dev/fd/{reader}") == "driver: 1"
    os.close(reader)


def test_a_folder_is_told_where_folders_go(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        read_text(tmp_path)
    assert "--facts-dir" in caught.value.hint
