"""plan, drift and apply on many machines: one doctor a machine, each with a deadline.

Every machine is worked on by a process of its own, with the journal and the lock that a
single machine has; so what was interrupted on one of them is taken up as there.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from doctor.errors import ExitCode
from doctor.provision.fleet_inventory import FleetHost
from doctor.provision.fleet_pool import Ended, Job, Pool
from doctor.provision.journal import GIVEN_UP, SUSPENDED
from doctor.provision.target import DOCKER, LOCAL, SSH

DONE, CLEAN, CHANGES, REFUSED, DRIFTED = "done", "as wanted", "would change", "refused", "drifted"
FAILED, AWAY, SLOW, LEFT = "failed", "unreachable", "timed out", "not begun"
PERSON = "needs a person"
# What each state of a row adds to the exit code of the fleet.
CODES = {DONE: 0, CLEAN: 0, CHANGES: 0, REFUSED: 1, DRIFTED: 1, FAILED: 4, AWAY: 3, SLOW: 3,
         LEFT: 4, PERSON: 5}  # fmt: skip
# What a doctor says of a run that was begun and has no end.
_UNFINISHED = "is unfinished"
_AWAY_WORDS = ("No such container", "is not running", "ssh ended with 255", "ended with 255",
               "Cannot connect to the Docker daemon", "no answer within")  # fmt: skip


@dataclass(frozen=True)
class Row:
    """What became of one machine. `batch` counts from 1, 0 where there are none.

    `steps` are the titles of what was or would be done, `run` the name of its run; `again` is
    the command that takes up what is unfinished there, "" if nothing is.
    """

    host: str
    target: str
    state: str
    text: str = ""
    steps: tuple[str, ...] = ()
    run: str = ""
    seconds: float = 0.0
    batch: int = 0
    again: str = ""

    @property
    def code(self) -> ExitCode:
        """What it adds to the exit code."""
        return ExitCode(CODES[self.state])


@dataclass(frozen=True)
class FleetRun:
    """One verb on many machines, in the order of the inventory; `stopped` says what ended it."""

    verb: str
    profile: str
    rows: tuple[Row, ...]
    stopped: str = ""

    @property
    def code(self) -> ExitCode:
        """The highest of the rows'."""
        return max((row.code for row in self.rows), default=ExitCode.OK)


@dataclass(frozen=True)
class Orders:
    """What every machine is asked: the verb with its arguments, at most `forks` at once.

    `tell` is told of every row when it is known; `note` is for the person who asked.
    """

    verb: str
    profile: str
    arguments: tuple[str, ...] = ()
    forks: int = 10
    limit_s: float = 3600.0
    tell: Callable[[Row], None] = lambda _: None
    note: str = ""

    def pool(self) -> Pool:
        """Ends a doctor that changes a machine so that it can close its journal."""
        return Pool(self.forks, self.limit_s, gently=True)

    def again(self, host: FleetHost) -> str:
        """The command that takes up an unfinished run on one machine."""
        own = [word for word in self.arguments if word in ("--user", "--driver")]
        words = ["doctor", "apply", self.profile, *own, *_way_to(host), "--resume"]
        return shlex.join(words) if self.verb == "apply" else ""

    def job(self, host: FleetHost) -> Job:
        """The doctor of one machine."""
        return Job(host.name, tuple(_command(self, host)))


def _command(orders: Orders, host: FleetHost) -> Iterable[str]:
    yield from (sys.executable, "-P" if sys.version_info >= (3, 11) else "-I", "-m", "doctor")
    yield from (orders.verb, orders.profile, *orders.arguments, "--format", "json")
    yield from _way_to(host)


def _way_to(host: FleetHost) -> Iterable[str]:
    if host.target.kind != LOCAL:
        yield from ("--on", host.target.name)
    if host.target.kind == SSH and host.target.ssh_config:
        yield from ("--ssh-config", host.target.ssh_config)


def ask_all(hosts: Sequence[FleetHost], orders: Orders) -> FleetRun:
    """Ask every machine, several at once."""
    rows = {host.name: unreachable(host) for host in hosts if host.fault}
    by_name = {host.name: host for host in hosts}
    jobs = [orders.job(host) for host in hosts if not host.fault]
    for ended in orders.pool().run(jobs):
        rows[ended.name] = row_of(by_name[ended.name], ended, orders)
        orders.tell(rows[ended.name])
    return FleetRun(orders.verb, orders.profile, tuple(rows[host.name] for host in hosts))


def unreachable(host: FleetHost) -> Row:
    """The row of a machine that cannot be reached as the inventory describes it."""
    return Row(host.name, host.target.name, AWAY, host.fault)


def row_of(host: FleetHost, ended: Ended, orders: Orders) -> Row:
    """What a doctor that ended says of its machine."""
    bare = Row(host.name, host.target.name, FAILED, seconds=ended.seconds)
    if ended.code is None:
        text = f"not done within {orders.limit_s:g} s"
        return replace(bare, state=SLOW, text=text, again=orders.again(host))
    said = _answer(ended)
    if said is None:
        text = _in_words(_reason(ended.said))
        away = host.target.kind in (SSH, DOCKER) and any(word in text for word in _AWAY_WORDS)
        again = orders.again(host) if _UNFINISHED in text else ""
        return replace(bare, state=AWAY if away else FAILED, text=text, again=again)
    again = orders.again(host) if said.get("end") in (GIVEN_UP, SUSPENDED) else ""
    return replace(bare, **_read(orders.verb, said, ended.code), again=again)


def _titles(steps: Any) -> tuple[str, ...]:
    """Titles of the steps of a plan; a run prints only how many it took."""
    listed = steps if isinstance(steps, list) else ()
    return tuple(str(step.get("title", "")) for step in listed if isinstance(step, dict))


def _answer(ended: Ended) -> dict[str, Any] | None:
    """The JSON that a doctor printed; None if it printed none."""
    try:
        found = json.loads(ended.out)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _reason(said: str) -> str:
    """The message of a doctor and what next, without what it told of its progress."""
    _, found, told = f"\n{said}".rpartition("\ndoctor: ")
    if found:
        message, *hints = told.splitlines() or [""]
        return "; ".join((message, *(hint.strip() for hint in hints[:1])))
    return said.splitlines()[-1] if said else "it said nothing"


def _in_words(text: str) -> str:
    """What a machine without a whole Python answers, as a person would say it."""
    lacking = re.search(r"No module named '(\w+)'", text)
    if lacking:
        return f"its python3 lacks the module {lacking[1]}: install the package python3"
    if re.search(r"python3 ended with 12[67]\b", text):
        return "there is no python3: install the package python3"
    return text


def _read(verb: str, said: dict[str, Any], code: int) -> dict[str, Any]:
    """State, text and steps by what each verb prints."""
    steps = _titles(said.get("steps"))
    if verb == "drift":
        found = [f"{d.get('subject')}: {d.get('text')}" for d in said.get("differences") or ()]
        return {"state": DRIFTED if found else CLEAN, "text": "; ".join(found[:5])}
    if "end" in said:  # a run
        good = said["end"] == "applied"
        state = DONE if good else PERSON if code == ExitCode.SUSPENDED else FAILED
        text = said.get("proof") if good else said.get("failure")
        return {"state": state, "text": str(text or said["end"]), "run": str(said.get("run", ""))}
    blockers = [str(text) for text in said.get("blockers") or ()]
    if blockers:
        return {"state": REFUSED, "text": "; ".join(blockers), "steps": steps}
    return {"state": CHANGES if steps else CLEAN, "steps": steps}
