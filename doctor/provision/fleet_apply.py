"""apply on many machines: a canary first, then batches; the first batch that fails ends it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from doctor.errors import UsageError
from doctor.provision.fleet import (
    CHANGES,
    CLEAN,
    DONE,
    FAILED,
    LEFT,
    FleetRun,
    Orders,
    Row,
    row_of,
)
from doctor.provision.fleet_inventory import FleetHost
from doctor.provision.fleet_pool import Ended
from doctor.provision.playbook import Playbook

INTERRUPTED = "interrupted"
_STAYS = "; it stays drained"
_SIZE = re.compile(r"([1-9][0-9]{0,4})(%?)")


@dataclass(frozen=True)
class Hooks:
    """Task files of the user: what takes a machine out of traffic, and what puts it back.

    They run on that machine, or where they delegate to; `fleet_host` is its name in the
    inventory. Logs go below `folder`.
    """

    folder: Path
    drain: str = ""
    undrain: str = ""

    def play(self, which: str, host: FleetHost) -> str:
        """Run a hook for a machine; what failed, "" if nothing did."""
        file = self.drain if which == "drain" else self.undrain
        if not file:
            return ""
        book = Playbook(host.target, self.folder / host.name)
        said = {"hook_tasks": str(Path(file).absolute()), "hook_host": host.name}
        failure = book.play(which, "hook", said).failure
        return f"{which}: {failure}" if failure else ""


def sizes(text: str, total: int) -> tuple[int, ...]:
    """How many machines each batch has: "1,25%,100%"; the last size repeats. Raises UsageError."""
    parts = [_SIZE.fullmatch(part.strip()) for part in text.split(",")]
    if any(part is None for part in parts):
        raise UsageError(f"--serial {text[:60]!r}", "write numbers or percentages: 1,25%,100%")
    wanted = [_count(part[1], bool(part[2]), total) for part in parts if part]
    found: list[int] = []
    while sum(found) < total:
        size = wanted[min(len(found), len(wanted) - 1)]
        found.append(min(size, total - sum(found)))
    return tuple(found)


def _count(number: str, is_share: bool, total: int) -> int:
    return max(1, total * int(number) // 100) if is_share else int(number)


def batches(hosts: Sequence[FleetHost], serial: str) -> Iterator[tuple[FleetHost, ...]]:
    """The machines in their order, cut into batches."""
    start = 0
    for size in sizes(serial, len(hosts)):
        yield tuple(hosts[start : start + size])
        start += size


def apply_all(
    hosts: Sequence[FleetHost], planned: FleetRun, orders: Orders, hooks: Hooks, serial: str
) -> FleetRun:
    """Apply to all machines whose plan has steps. The others keep the row of their plan.

    A machine that failed stays drained: a person looks at it first. Ctrl-C ends the batch; what
    is known of its machines is in the rows.
    """
    rows = {row.host: row for row in planned.rows}
    wanted = [host for host in hosts if rows[host.name].state == CHANGES]
    stopped = ""
    for number, batch in enumerate(batches(wanted, serial), 1):
        if stopped:
            left = f"batch {number} was not begun"
            rows.update({h.name: _left(rows[h.name], number, left) for h in batch})
            continue
        rows.update({h.name: _begun(rows[h.name], number, orders.again(h), hooks) for h in batch})
        try:
            for row in _batch(batch, orders, hooks):
                rows[row.host] = replace(row, batch=number)
                orders.tell(rows[row.host])
        except KeyboardInterrupt:
            stopped = INTERRUPTED
            continue
        failed = [h.name for h in batch if rows[h.name].state not in (DONE, CLEAN)]
        if failed:
            what = "the canary" if number == 1 and len(batch) == 1 else f"batch {number}"
            stopped = f"{what} did not end well on {', '.join(failed[:10])}"
    return FleetRun("apply", orders.profile, tuple(rows[host.name] for host in hosts), stopped)


def _begun(row: Row, number: int, again: str, hooks: Hooks) -> Row:
    """The row of a machine of which nothing more is heard."""
    text = "interrupted, maybe in the midst of a step" + _STAYS * bool(hooks.drain)
    return replace(row, state=FAILED, text=text, steps=(), batch=number, again=again)


def _left(row: Row, number: int, text: str) -> Row:
    return replace(row, state=LEFT, text=text, steps=(), batch=number)


def _batch(batch: Sequence[FleetHost], orders: Orders, hooks: Hooks) -> Iterator[Row]:
    """Drain, apply, put back."""
    drained = {}
    for host in batch:
        fault = hooks.play("drain", host)
        if fault:
            yield Row(host.name, host.target.name, FAILED, fault)
        else:
            drained[host.name] = host
    jobs = [orders.job(host) for host in drained.values()]
    for ended in orders.pool().run(jobs):
        yield _finished(drained[ended.name], ended, orders, hooks)


def _finished(host: FleetHost, ended: Ended, orders: Orders, hooks: Hooks) -> Row:
    row = row_of(host, ended, orders)
    if row.state not in (DONE, CLEAN):
        return replace(row, text=row.text + _STAYS * bool(hooks.drain))
    fault = hooks.play("undrain", host)
    return replace(row, state=FAILED, text=fault) if fault else row
