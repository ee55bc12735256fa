"""Run campaigns, each parser on as many damaged inputs as asked, in rounds that can be resumed.

    python -m tests.fuzz.campaign --number 100000 --state FILE [--only NAME ...] [--table]

Each round of a parser is a process of its own, with a limit of memory and of time per input;
what breaks is kept beside the state file. The same seed gives the same inputs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import resource
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.fuzz.parser import Parser

SEED, ROUND = 20261130, 5_000
# CPU time of one input, memory of a process above what it had, and what is kept of a round.
LIMIT_S, LIMIT_BYTES, MOST_BROKEN = 5, 512 << 20, 8


class Hung(BaseException):
    """An input took too long; no parser catches it."""


def parsers() -> tuple[Parser, ...]:
    """Every parser, in the order of its kind."""
    from tests.fuzz.binary_parsers import BINARIES
    from tests.fuzz.probe_parsers import PROBES
    from tests.fuzz.text_parsers import PASTED, WRITTEN

    return (*WRITTEN, *PROBES, *PASTED, *BINARIES)


def inputs(parser: Parser, number: int, part: int) -> Iterator[bytes]:
    """Damaged seeds, the same for the same part."""
    rng = random.Random(f"{SEED} {parser.name} {part}")  # noqa: S311 - the same damage
    for _ in range(number):
        yield parser.damaged(rng)


def tried(parser: Parser, data: bytes) -> str:
    """How one input broke the parser, in one line; "" if it did not."""
    signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
    try:
        parser.run(data)
    except Hung:
        return f"more than {LIMIT_S} s of CPU at {_place()}"
    except Exception as bug:
        return f"{type(bug).__name__}: {str(bug)[:200]} at {_place()}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return ""


def _place() -> str:
    """The last line of our own that an exception passed through."""
    frames = traceback.extract_tb(sys.exc_info()[2])
    own = [frame for frame in frames if "/doctor/" in frame.filename] or frames
    return f"{Path(own[-1].filename).name}:{own[-1].lineno}"


def guard() -> None:
    """Let what takes too long end in `Hung`."""

    def hang(number: int, frame: object) -> None:
        raise Hung

    signal.signal(signal.SIGPROF, hang)


def _round(parser: Parser, number: int, part: int) -> dict[str, Any]:
    """One round in this process: slowest input, memory, what broke."""
    guard()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    broken: dict[str, str] = {}
    slowest, started, done = 0.0, time.process_time(), 0
    for data in inputs(parser, number, part):
        before = time.process_time()
        how = tried(parser, data)
        slowest, done = max(slowest, time.process_time() - before), done + 1
        if how and how not in broken:
            broken[how] = data.hex()
        if len(broken) == MOST_BROKEN:
            break
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"parser": parser.name, "part": part, "number": done, "slowest_s": round(slowest, 4),
            "cpu_s": round(time.process_time() - started, 2), "peak_mib": peak >> 10,
            "added_mib": peak - memory >> 10, "broken": broken}  # fmt: skip


def apart(parser: Parser, number: int, part: int) -> dict[str, Any]:
    """A round in a child of its own, whose end by a signal or for memory is a break too."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        status = 1
        try:
            os.close(reading)
            _bound_memory()
            os.write(writing, json.dumps(_round(parser, number, part)).encode())
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    if status or not answer:
        how = {f"the process ended with status {status}": ""}
        return {"parser": parser.name, "part": part, "number": 0, "slowest_s": 0, "cpu_s": 0,
                "peak_mib": 0, "added_mib": 0, "broken": how}  # fmt: skip
    found: dict[str, Any] = json.loads(answer)
    return found


def _bound_memory() -> None:
    size = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (size + LIMIT_BYTES,) * 2)


def finished(state: Path) -> dict[tuple[str, int], dict[str, Any]]:
    """The rounds that a state file holds, the last of each."""
    lines = state.read_text().splitlines() if state.exists() else []
    rows = [json.loads(line) for line in lines]
    return {(row["parser"], row["part"]): row for row in rows}


def slug(name: str) -> str:
    """A parser's name as a file's name begins with it."""
    return re.sub(r"[^A-Za-z0-9]+", "-", name)


def keep(row: dict[str, Any], state: Path) -> None:
    """Append a round, and put what broke beside it."""
    folder = state.parent / "broken"
    for data in filter(None, row["broken"].values()):
        content = bytes.fromhex(data)
        folder.mkdir(exist_ok=True)
        name = f"{slug(row['parser'])}.{hashlib.sha256(content).hexdigest()[:12]}"
        (folder / name).write_bytes(content)
    kept = {**row, "broken": {how: len(data) // 2 for how, data in row["broken"].items()}}
    with state.open("a") as file:
        file.write(json.dumps(kept) + "\n")


def table(state: Path) -> str:
    """What a state file holds, one row a parser."""
    rows = list(finished(state).values())
    lines = ["| parser | inputs | slowest, ms | memory, MiB | broken |", "|---|---|---|---|---|"]
    for name in (parser.name for parser in parsers()):
        own = [row for row in rows if row["parser"] == name]
        slowest = max((row["slowest_s"] for row in own), default=0.0)
        memory = max((row["peak_mib"] for row in own), default=0)
        broken = sum(len(row["broken"]) for row in own)
        number = sum(row["number"] for row in own)
        lines.append(f"| {name} | {number:,} | {1000 * slowest:.0f} | {memory} | {broken} |")
    return "\n".join(lines)


def main() -> None:
    """Run what is asked and not done yet; the cheapest parser first."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--number", type=int, default=100_000)
    asked.add_argument("--state", type=Path, required=True)
    asked.add_argument("--only", nargs="*", default=())
    asked.add_argument("--until", type=float, default=float("inf"), help="Unix time to stop at")
    asked.add_argument("--table", action="store_true", help="say what is done, as Markdown")
    given = asked.parse_args()
    if given.table:
        print(table(given.state))
        return
    wanted = [p for p in parsers() if not given.only or p.name in given.only]
    done = finished(given.state)
    for parser in sorted(wanted, key=_cost):
        for part in range(-(-given.number // ROUND)):
            before = done.get((parser.name, part))
            if before is not None and not before["broken"]:
                continue
            if time.time() > given.until:
                return
            row = apart(parser, ROUND, part)
            keep(row, given.state)
            for how in row["broken"]:
                print(f"{parser.name}: {how}", flush=True)


def _cost(parser: Parser) -> float:
    """CPU seconds of some inputs, after what is loaded once."""
    guard()
    for data in inputs(parser, 5, 0):
        tried(parser, data)
    before = time.process_time()
    for data in inputs(parser, 40, 0):
        tried(parser, data)
    return time.process_time() - before


if __name__ == "__main__":
    main()
