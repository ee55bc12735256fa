"""A run in which one step asks for a reboot: the real steps, and one of them marked so.

python -m tests.provision.rebooting PROFILE LOCK OFFLINE: as root, for this machine.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import msgspec

from doctor.matrix import Matrix, load_matrix
from doctor.profile.lock import read_lock
from doctor.profile.read import read_profile
from doctor.provision.apply import Outcome, Worker
from doctor.provision.journal import BEGIN, DONE, STEP
from doctor.provision.noted import goal_before, note_run
from doctor.provision.order import Order, Prepared, prepare
from doctor.provision.plan import Plan
from doctor.provision.reboot import note
from doctor.provision.runs import Run, Runs, state_folder
from doctor.provision.step import Step
from doctor.provision.target import Target

STEP_NAME = "make_release"


@dataclass(frozen=True)
class Rebooting:
    """A prepared order, and a run of it that is written down."""

    prepared: Prepared
    matrix: Matrix
    run: Run

    @property
    def plan(self) -> Plan:
        """The plan, with a step that asks for a reboot."""
        return msgspec.structs.replace(
            self.prepared.plan, steps=tuple(map(_marked, self.prepared.plan.steps))
        )

    def apply(self) -> Outcome:
        """Carry it out."""
        order = self.prepared.order
        worker = Worker(self.run, order.target, self.prepared.means, self.matrix)
        return worker.apply(self.plan, goal_before(self.prepared.goal, self.prepared.state))

    def interrupt(self, is_done: bool) -> None:
        """As if doctor had been killed in that step, or after it and before the reboot."""
        self.run.journal.write(BEGIN)
        self.run.journal.write(STEP, STEP_NAME)
        note(self.run, STEP_NAME, self.prepared.order.target)
        if is_done:
            self.run.journal.write(DONE, STEP_NAME)


def _marked(step: Step) -> Step:
    return msgspec.structs.replace(step, reboots=step.name == STEP_NAME)


def begin(profile: Path, target: Target, lock: Path, offline: Path, runs: Runs) -> Rebooting:
    """Prepare a system service on a machine, and note its run."""
    matrix = load_matrix()
    order = Order(read_profile(profile), target, False, read_lock(lock), str(offline))
    prepared = prepare(order, matrix)
    assert not prepared.plan.blockers, prepared.plan.blockers
    run = runs.create()
    asked = {"verb": "apply", "service": order.service, "profile": order.profile.name}
    found = Rebooting(prepared, matrix, run)
    before = goal_before(prepared.goal, prepared.state)
    note_run(run, found.plan, before, prepared.means, {**asked, "target": target.name})
    return found


if __name__ == "__main__":
    paths = [Path(word) for word in sys.argv[1:]]
    mine = begin(paths[0], Target(), paths[1], paths[2], Runs(state_folder(False)))
    outcome = mine.apply()
    print(outcome.end, outcome.failure)
    sys.exit(outcome.exit_code)
