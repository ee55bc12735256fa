"""This machine through LocalHost: hostile files, programs that hang, sockets."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from pathlib import Path

import pytest

from doctor.facts import Missing
from doctor.probes.local import LocalHost
from tests.web import answer_raw

HOST = LocalHost()


def _program(folder: Path, name: str, body: str) -> LocalHost:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return LocalHost(search_path=f"{folder}:/usr/bin:/bin")


def test_reads_files_and_pseudo_files(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"caf\xc3\xa9 \xff\n")
    assert HOST.read_text(f"{tmp_path}/a").value == "café �\n"
    assert HOST.read_text("/proc/self/status").is_known
    assert HOST.read_text(f"{tmp_path}/none").is_absent
    assert HOST.read_text(f"{tmp_path}/a/b").is_absent
    assert HOST.read_text(f"{tmp_path}/a\0b").is_absent


def test_reads_no_more_than_the_limit(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * (10 << 20))
    assert len(HOST.read_text(f"{tmp_path}/big").value or "") == 4 << 20
    assert HOST.read_text(f"{tmp_path}/big", limit=3).value == "xxx"


def test_follows_links_and_survives_loops(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("text")
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("nowhere")
    assert HOST.read_text(f"{tmp_path}/link").value == "text"
    assert HOST.real_path(f"{tmp_path}/link").value == os.path.realpath(tmp_path / "a")
    assert HOST.read_text(f"{tmp_path}/loop").missing is Missing.NOT_READABLE
    assert HOST.real_path(f"{tmp_path}/loop").missing is Missing.NOT_READABLE
    assert HOST.read_text(f"{tmp_path}/dangling").is_absent
    assert HOST.stat(f"{tmp_path}/dangling").is_absent


def test_does_not_wait_for_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{tmp_path}/socket")
        for name in ("fifo", "socket", "."):
            assert HOST.read_text(f"{tmp_path}/{name}").missing is Missing.NOT_READABLE
    assert HOST.read_text("/dev/zero").missing is Missing.NOT_READABLE


def test_a_file_that_shrinks_while_it_is_read_is_only_shorter(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * (8 << 20))
    stop = threading.Event()

    def shrink() -> None:
        while not stop.is_set():
            os.truncate(path, 0)
            os.truncate(path, 8 << 20)

    worker = threading.Thread(target=shrink)
    worker.start()
    try:
        for _ in range(5):
            assert HOST.read_text(str(path), limit=8 << 20).is_known
    finally:
        stop.set()
        worker.join()


def test_names_that_are_no_text_are_made_text(tmp_path: Path) -> None:
    os.close(os.open(os.fsencode(tmp_path) + b"/bad\xff", os.O_CREAT))
    names = HOST.list_dir(str(tmp_path)).value
    assert names == ("bad�",)
    assert HOST.list_dir(f"{tmp_path}/none").is_absent


@pytest.mark.real
def test_runs_a_program_without_the_callers_environment(tmp_path: Path) -> None:
    host = _program(tmp_path, "tool", 'echo "$1 $LC_ALL $SECRET"; echo no >&2; exit 3')
    os.environ["SECRET"] = "hunter2"  # noqa: S105
    try:
        answer = host.run(("tool", "a b; $(touch x)")).value
    finally:
        del os.environ["SECRET"]
    assert answer is not None
    assert (answer.returncode, answer.stdout, answer.stderr) == (3, "a b; $(touch x) C \n", "no\n")
    assert host.run(("no-such-tool",)).is_absent


@pytest.mark.real
def test_abandons_a_program_that_hangs_and_its_children(tmp_path: Path) -> None:
    host = _program(tmp_path, "hang", f"trap '' TERM\nsleep 60 & echo $! > {tmp_path}/pid\nwait")
    start = time.monotonic()
    assert host.run(("hang",), timeout_s=0.3).missing is Missing.TIMED_OUT
    assert time.monotonic() - start < 2
    status = Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}/status")
    for _ in range(100):
        if not status.exists() or "Z (zombie)" in status.read_text():
            return
        time.sleep(0.01)
    pytest.fail("the child still runs")


@pytest.mark.real
def test_a_program_that_leaves_a_daemon_behind_has_answered(tmp_path: Path) -> None:
    host = _program(tmp_path, "spawn", "sleep 3 & echo started")
    answer = host.run(("spawn",), timeout_s=0.5).value
    assert answer is not None
    assert answer.stdout == "started\n"


@pytest.mark.real
def test_output_beyond_the_limit_is_dropped(tmp_path: Path) -> None:
    host = _program(tmp_path, "loud", "head -c 9000000 /dev/zero")
    answer = host.run(("loud",)).value
    assert answer is not None
    assert len(answer.stdout) == 4 << 20


@pytest.mark.real
def test_leaves_no_open_files_behind(tmp_path: Path) -> None:
    host = _program(tmp_path, "tool", "exit 0")
    before = len(os.listdir("/proc/self/fd"))
    host.run(("tool",))
    host.run(("none",))
    host.read_text("/dev/zero")
    host.get(f"{tmp_path}/none", "/info")
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
@pytest.mark.real
def test_what_another_user_may_not_read_is_not_permitted(tmp_path: Path) -> None:
    script = (
        f"import sys; sys.path.insert(0, {os.getcwd()!r})\n"
        "from doctor.probes.local import LocalHost as H\n"
        "print(*(H().read_text(p).missing.value for p in sys.argv[1:]))\n"
        "print(H().list_dir(sys.argv[2][:-2]).missing.value)"
    )
    secret = tmp_path / "secret"
    secret.mkdir(mode=0o700)
    (secret / "a").write_text("x")
    (tmp_path / "b").write_text("x")
    (tmp_path / "b").chmod(0o600)
    host = _program(
        tmp_path, "ask", f'setpriv --reuid 65534 --clear-groups {sys.executable} -c "$@"'
    )
    answer = host.run(("ask", script, f"{tmp_path}/b", f"{secret}/a"), timeout_s=30)
    if answer.value is None or "Error" in answer.value.stderr:
        pytest.skip("the other user cannot reach this Python")
    assert answer.value.stdout.split() == ["not-permitted"] * 3


class _Daemon:
    """A server on a unix socket that sends one answer, whole or in part, and may hang."""

    def __init__(self, path: str, answer: bytes, hang: bool = False) -> None:
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(path)
        self.server.listen(1)
        self.answer, self.hang, self.done = answer, hang, threading.Event()
        self.worker = threading.Thread(target=self._serve)
        self.worker.start()

    def _serve(self) -> None:
        connection, _ = self.server.accept()
        with connection:
            answer_raw(connection, self.answer)
            if self.hang:
                self.done.wait(5)

    def close(self) -> None:
        self.done.set()
        self.worker.join()
        self.server.close()


@pytest.mark.real
@pytest.mark.parametrize(
    ("answer", "hang", "expected"),
    [
        (b"HTTP/1.0 200 OK\r\nX: y\r\n\r\n{}", False, "{}"),
        (b"HTTP/1.0 403 Forbidden\r\n\r\n{}", False, Missing.NOT_READABLE),
        (b"SSH-2.0-OpenSSH\r\n\r\n", False, Missing.NOT_READABLE),
        (b"", False, Missing.NOT_READABLE),
        (b"HTTP/1.0 200 OK\r\n\r\n{", True, Missing.TIMED_OUT),
    ],
)
def test_asks_a_daemon(tmp_path: Path, answer: bytes, hang: bool, expected: object) -> None:
    daemon = _Daemon(f"{tmp_path}/s", answer, hang)
    try:
        found = HOST.get(f"{tmp_path}/s", "/info", timeout_s=0.3)
    finally:
        daemon.close()
    assert (found.value if found.is_known else found.missing) == expected


def test_a_daemon_that_is_not_there_is_not_asked(tmp_path: Path) -> None:
    assert HOST.get(f"{tmp_path}/none", "/info").is_absent
