"""Trees of real processes that have the command lines of engines; see `tree.c`."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).with_name("tree.c")


def build(folder: Path) -> Path:
    """Compile the stand-in; it needs no library, so that it runs in any root."""
    program = folder / "stand-in"
    flags = ("-static", "-O1", "-Wall", "-Wextra", "-Werror")
    subprocess.run(["gcc", *flags, "-o", program, SOURCE], check=True)
    return program


def lines_of(text: str) -> list[str]:
    """A tree as it is written in tests, two blanks for each step down, as lines for the program.

    A word before the command line in brackets says how: "[title]", "[orphan]", "[lib=PATH]".
    """
    lines = []
    for line in text.strip("\n").splitlines():
        words = line.split()
        marks = [word[1:-1] for word in words if word.startswith("[") and word.endswith("]")]
        argv = words[len(marks) :]
        how = next((mark for mark in marks if "=" not in mark), "-")
        libraries = [mark for mark in marks if "=" in mark]
        depth = (len(line) - len(line.lstrip())) // 2
        lines.append("\t".join([str(depth), how, *libraries, *argv]))
    return lines


@contextlib.contextmanager
def running(
    program: Path, folder: Path, text: str, env: dict[str, str] | None = None, root: str = ""
) -> Iterator[list[int]]:
    """Ids of the processes of a tree, in the order of its lines, until the block ends."""
    lines = lines_of(text)
    (folder / "tree").write_text("\n".join(lines) + "\n")
    reader, writer = os.pipe()
    path, tree = (str(place).removeprefix(root) for place in (program, folder / "tree"))
    environ = {**(env or {}), "TREE": tree, "READY": str(writer), "SELF": path}
    started = subprocess.Popen(
        [path],
        env=environ,
        pass_fds=(writer,),
        start_new_session=True,
        preexec_fn=(lambda: os.chroot(root)) if root else None,  # noqa: PLW1509 - one thread
        cwd="/" if root else None,
    )
    os.close(writer)
    try:
        with os.fdopen(reader) as ready:
            said = [ready.readline().split() for _ in lines]
        pids = {int(number): int(pid) for number, pid in said}
        yield [pids[number] for number in range(len(lines))]
    finally:
        os.killpg(started.pid, signal.SIGKILL)
        started.wait()
