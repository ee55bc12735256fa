"""Odd words and files for every argument and option of a command, each in a process of its own.

    python -m tests.faults.hostile_words FOLDER SEED NUMBER COMMAND...

Prints what broke the contract as JSON rows: an exit that is none of doctor's, a trace, an error
without a next step, a control character, a file that is left, a run that takes too long.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from doctor.cli.group import root
from doctor.cli.main import run

LIMIT_S = 60.0
RIGHT = range(6)
CONTROL = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|\xe2\x80\xae")
# Every one of these reaches the verb's own work; what is tried stands in place of one word.
WORDS = {
    "explain": ["driver-too-old"], "matrix query": ["vllm"], "matrix show": ["gpus"],
    "matrix diff": ["550.163.01", "580.178.04"], "completion": ["bash"],
    "profile show": ["llamacpp-cpu"], "profile validate": ["llamacpp-cpu"],
    "profile lock": ["llamacpp-cpu"], "plan": ["llamacpp-cpu", "--user"],
    "apply": ["llamacpp-cpu", "--user"], "rollback": ["llamacpp-cpu", "--user"],
    "drift": ["llamacpp-cpu", "--user"], "image build": ["none"], "image pin": ["none"],
    "image push": ["a", "b"], "bench": ["http://127.0.0.1:9"],
    "smoke": ["http://127.0.0.1:9", "--timeout", "0.1"], "matrix update": ["none"],
    "check": ["--host", "H100x8,driver=580.65.06,python=3.12,ubuntu=24.04"],
    "fit": ["Qwen/Qwen3-32B", "--gpu", "H100 80GB"],
    "resolve": ["vllm", "--host", "H100x8,driver=580.65.06", "--no-unlocks"],
}  # fmt: skip
TEXTS = (
    "x" * 5000, "\x1b[31mred", "../../etc/passwd", "-1", "0", "1e999", "nan", "inf", "-inf", "١٢",
    "²", "9" * 400, "{{7*7}}", "$(id)", "%s%n%(x)s", "a\nb", "\udcff", "🦙", "\u202eabc", " ",
    "null", "~nobody", "..", "/", "docker://", "docker://-x", "ssh://-oProxyCommand=x",
    "ssh://a@b:99999999", "ssh://[::1", "http://", "http://[::1", "file:///etc/passwd", ",", "=",
    "==", "vllm==", "vllm==²", "vllm>=", "vllm[", "H100x0", "H100x-1", "H100x99999999999999",
    "H100x8,driver=", "x", "json=", "=x", "json=/nowhere/x", "json=/dev/full", "json=a,json=a",
    "@", "@sha256:0", ":", "a@b@c", "0x10", "1_000", "1,2,,3", "--", "sha256:zz", "env:NOPE",
    "file:/nowhere", "credential:x", "a=b=c", "1%", "101%", "0,0%", "99999999999", "3.99",
    "/dev/zero", "/dev/full", "/dev/null", "/proc/self/mem", "/proc", "/dev/null/x",
)  # fmt: skip
# Not odd but long: to scan the whole system takes as long as it does.
LONG = {"scan": {"/"}}
FILES: dict[str, bytes] = {
    "empty": b"", "nul": bytes(1000), "deep.json": b"[" * 100_000, "deep.yaml": b"{a: " * 5000,
    "list": b"[]", "number": b"42", "text": b'"x"', "none": b"null", "map": b"{}",
    "digits": b"9" * 5000, "newer": b'{"schema": "doctor/facts/v99"}',
    "types": b'{"schema": "doctor/facts/v1", "devices": 7, "host": []}',
    "report": b'{"report": {"gpu": [[1]], "driver": {"a": 1}, "python": 3.1e99}}',
    "profile": b"schema: doctor/profile/v1\nname: ../../x\nengine: {name: 7}\n",
    "terminal": b"\x1b]0;x\x07\x1b[2J", "returns": b"\r\n\r\n\r", "lone": b'"\\ud800"',
    "tag": b"!!python/object/apply:os.system [id]", "twice": b"a: 1\na: 2\n",
    "ini": b"[gpu\nx=y", "requirements.txt": b"-r /etc/passwd\n-e .\n--index-url http://x\nvllm==\n",
    "Dockerfile": b"FROM\nRUN\nCOPY --from=x", "compose.yaml": b"services: [1,2]",
    "utf16": "report: x".encode("utf-16"), "mark": b"\xef\xbb\xbf{}", "lines": b"x\n" * 1_000_000,
    "library.so": b"\x7fELF" + b"\xff" * 200, "some.whl": b"PK\x03\x04" + b"\xff" * 100,
    "image.tar": b"x" * 257 + b"ustar\x0000" + b"\xff" * 300, "model.gguf": b"GGUF" + b"\xff" * 60,
    "some.gz": b"\x1f\x8b\x08" + bytes(20), "we\x1b[31mird \u202e.yaml": b"report: {}\n",
}  # fmt: skip


def places(folder: Path) -> list[str]:
    """Odd files in a folder, and what is no file."""
    folder.mkdir()
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    noise = random.Random(7).randbytes(20_000)  # noqa: S311 - noise
    (folder / "noise").write_bytes(noise)
    os.mkfifo(folder / "pipe")
    (folder / "folder").mkdir()
    (folder / "loop").symlink_to("loop")
    (folder / "dangling").symlink_to("/nowhere/x")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "socket"))
    return [str(path) for path in sorted(folder.iterdir())]


def command_of(name: str) -> click.Command:
    """The command of that name."""
    found: Any = root
    for word in name.split():
        found = found.get_command(click.Context(found), word)
    command: click.Command = found
    return command


def lines(name: str, words: list[str], chance: random.Random, number: int) -> Iterator[list[str]]:
    """Command lines with one odd word each: some for every argument and option."""
    plain = WORDS.get(name, [])
    words = [word for word in words if word not in LONG.get(name, ())]
    for parameter in command_of(name).params:
        if isinstance(parameter, click.Option) and parameter.is_flag:
            continue
        for word in chance.sample(words, min(number, len(words))):
            if isinstance(parameter, click.Argument):
                yield [*name.split(), word, *plain[1:]]
            else:
                yield [*name.split(), *plain, parameter.opts[-1], word]


def ended(argv: list[str], folder: Path) -> tuple[int, bytes, bytes]:
    """How doctor ends in a new process: its status, -1 for one that took too long, its streams."""
    for name in ("work", "tmp"):
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).mkdir()
    until = time.monotonic() + LIMIT_S
    child = os.fork()
    if not child:
        _become_doctor(argv, folder)
    while not (found := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > until:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            break
        time.sleep(0.005)
    status = os.waitstatus_to_exitcode(found[1]) if found[0] else -1
    return status, (folder / "out").read_bytes(), (folder / "err").read_bytes()


def _become_doctor(argv: list[str], folder: Path) -> None:
    os.setsid()
    os.chdir(folder / "work")
    nobody = "http://127.0.0.1:9"
    os.environ |= {
        "HOME": str(folder / "home"), "TMPDIR": str(folder / "tmp"), "PIP_INDEX_URL": nobody,
        "UV_OFFLINE": "1", "HTTPS_PROXY": nobody, "https_proxy": nobody, "NO_PROXY": "127.0.0.1",
    }  # fmt: skip
    for number, name in enumerate(("/dev/null", str(folder / "out"), str(folder / "err"))):
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), number)
    status = 99
    try:
        status = run(argv)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)


def complaints(argv: list[str], folder: Path) -> list[str]:
    """What a command line breaks of the contract."""
    status, out, err = ended(argv, folder)
    found = [] if status in RIGHT else [f"exit {status}"]
    if b"Traceback" in out + err:
        found.append("a trace")
    if status in (2, 4) and not re.search(rb"^doctor: .+\n  \S", err, re.MULTILINE):
        found.append("no next step")
    if CONTROL.search(out + err):
        found.append("a control character")
    if any((folder / "tmp").iterdir()):
        found.append("a scratch file is left")
    return [*found, err.decode("utf-8", "replace")[-400:]] if found else []


def main(place: str, seed: str, number: str, *name: str) -> None:
    """Try a command; print what is wrong."""
    folder, chance = Path(place), random.Random(int(seed))  # noqa: S311 - to be repeated
    (folder / "home").mkdir()
    words = [*TEXTS, *places(folder / "odd")]
    rows = []
    for argv in lines(" ".join(name), words, chance, int(number)):
        if found := complaints(argv, folder):
            rows.append([[word[:200] for word in argv], *found])
    print(json.dumps(rows))


if __name__ == "__main__":
    main(*sys.argv[1:])
