"""Do the devices add up? Two or more ranks of torch.distributed, with a time-out.

Run before an engine that shares its work among devices is started: where this hangs, the
engine would hang without a word.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from doctor.smoke.process import free_port
from doctor.smoke.steps import Failed, State, Step

NAME = "all-reduce"
TIMEOUT_S, MOST_RANKS = 120.0, 8
_CHILD = Path(__file__).parent / "allreduce_child.py"
_POLL_S, _PRINTED_LIMIT = 0.02, 1 << 20
_FAULTS = {"wrong": "all-reduce-wrong", "fails": "all-reduce-fails"}


def all_reduce(
    python: str,
    kind: str,
    ranks: int,
    env: Mapping[str, str],
    timeout_s: float = TIMEOUT_S,
) -> Step:
    """Let `ranks` processes of that Python add numbers on `kind` "cuda" or "cpu"."""
    began = time.monotonic()

    def step(state: State, text: str, fault: str = "") -> Step:
        return Step(NAME, state, text, fault, round(time.monotonic() - began, 3))

    try:
        seen = _run(python, kind, min(ranks, MOST_RANKS), env, timeout_s)
    except Failed as found:
        return step(State.FAILED, found.text, found.fault)
    return step(State.PASSED, seen)


def _run(python: str, kind: str, ranks: int, env: Mapping[str, str], timeout_s: float) -> str:
    port = free_port()
    children: list[_Rank] = []
    try:
        for number in range(ranks):
            argv = [python, "-I", str(_CHILD), kind, str(number), str(ranks), str(port)]
            children.append(_Rank(number, argv, env))
        return _said(children, timeout_s)
    finally:
        for child in children:
            child.kill()


def _said(children: list[_Rank], timeout_s: float) -> str:
    """What the ranks agree on; raises Failed for the first one that ends otherwise."""
    until = time.monotonic() + timeout_s
    waiting = list(children)
    seen = ""
    while waiting:
        for child in [c for c in waiting if c.has_ended()]:
            # One that fails leaves the others waiting: it is the one to hear.
            seen = child.expect_sound()
            waiting.remove(child)
        if waiting and time.monotonic() > until:
            late = ", ".join(str(child.number) for child in waiting)
            raise Failed("all-reduce-hangs", f"rank {late} was not done after {timeout_s:g} s")
        time.sleep(_POLL_S)
    return f"{len(children)} ranks, {seen}"


class _Rank:
    """One process; what it prints goes to a file, so that nothing it prints can stop it."""

    def __init__(self, number: int, argv: list[str], env: Mapping[str, str]) -> None:
        self.number = number
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115 - closed by kill
        try:
            self._child = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=self._printed,
                stderr=subprocess.STDOUT,
                env=dict(env),
                start_new_session=True,
            )
        except OSError as fault:
            self._printed.close()
            raise Failed("all-reduce-fails", f"cannot start {argv[0]}: {fault.strerror}") from None

    def has_ended(self) -> bool:
        return self._child.poll() is not None

    def expect_sound(self) -> str:
        """What it saw; raises Failed for anything else than the right sums."""
        self._printed.seek(0)
        text = self._printed.read(_PRINTED_LIMIT).decode("utf-8", "replace")
        answer = _answer(text)
        for kind, fault in _FAULTS.items():
            if kind in answer:
                raise Failed(fault, f"rank {self.number}: {answer[kind]}")
        if "ok" not in answer:
            status = [f"ended with status {self._child.returncode}"]
            how = (text.strip().splitlines()[-1:] or status)[0]
            raise Failed("all-reduce-fails", f"rank {self.number}: {how[:300]}")
        return answer["ok"]

    def kill(self) -> None:
        self._child.kill()
        self._child.wait()
        self._printed.close()


def _answer(text: str) -> dict[str, str]:
    """The last line that is a JSON object: libraries print around it."""
    for line in reversed(text.splitlines()):
        with suppress(ValueError, RecursionError):
            data = json.loads(line)
            if isinstance(data, dict):
                return {str(key): str(value) for key, value in data.items()}
    return {}
