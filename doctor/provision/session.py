"""The verbs that change a machine: apply, resume, rollback. One at a time per service."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from doctor.errors import ProvisionError, UsageError
from doctor.matrix import Matrix
from doctor.profile.hub import COMPLETE
from doctor.provision import reboot
from doctor.provision.apply import Outcome, Watcher, Worker
from doctor.provision.goal import Goal
from doctor.provision.journal import APPLIED, BACK, END, ROLLED_BACK
from doctor.provision.noted import BEFORE, GOAL, goal_before, note_run, noted_goal, noted_means
from doctor.provision.order import Prepared, prepare, service_key
from doctor.provision.plan import Plan, make_plan
from doctor.provision.playbook import Playbook, RoleResult
from doctor.provision.runs import SYSTEM_STATE, Run, Runs
from doctor.provision.survey import end_leftovers, read_state
from doctor.provision.target import Target
from doctor.provision.variables import Means

VERB, SERVICE, PROFILE, TARGET = "verb", "service", "profile", "target"
ROLLBACK = "rollback"


@dataclass(frozen=True)
class Desk:
    """What the verbs need: where runs are kept, the matrix, who is told of progress."""

    runs: Runs
    matrix: Matrix
    watcher: Watcher = Watcher()

    def apply(self, prepared: Prepared) -> Outcome:
        """Carry out a plan that was shown.

        Raises ProvisionError if the machine has changed since, if another doctor works on
        the service, or if an earlier run is unfinished.
        """
        order = prepared.order
        with self.runs.alone(order.service):
            self.refuse_unfinished(order.service)
            again = prepare(replace(order, lock=prepared.lock), self.matrix)
            if again.plan.inputs != prepared.plan.inputs:
                raise ProvisionError("the machine has changed since this plan", "plan again")
            before = goal_before(again.goal, again.state)
            asked = _asked("apply", order.target, order.name)
            return self._carry_out(order.target, again.plan, before, again.means, asked)

    def resume(self, target: Target, profile: str) -> Outcome:
        """Take up the unfinished run of a service where it was left. Raises UsageError."""
        service = service_key(profile, target)
        with self.runs.alone(service):
            run = self.runs.unfinished(service)
            if run is None:
                raise UsageError(f"no run of {service} is unfinished", "doctor drift shows more")
            return self._take_up(run, target)

    def rollback(self, target: Target, profile: str, name: str = "") -> Outcome:
        """Bring back what was there before a run: the one named, else the last one.

        A rollback that was interrupted is taken up: to undo it would make what it took away.
        Raises UsageError if there is none, ProvisionError if it cannot be.
        """
        service = service_key(profile, target)
        with self.runs.alone(service):
            begun = self.runs.unfinished(service)
            if begun is not None and not name and begun.asked.get(VERB) == ROLLBACK:
                return self._take_up(begun, target)
            old = self._to_undo(service, name)
            end_leftovers(target, old.name)
            means = _means(old)
            plan = self._plan(target, noted_goal(old, BEFORE), means)
            asked = {**_asked(ROLLBACK, target, profile), "of": old.name}
            outcome = self._carry_out(target, plan, noted_goal(old, GOAL), means, asked)
            if outcome.is_good:
                self._close(old.name, outcome.run)
            return outcome

    def refuse_unfinished(self, service: str) -> None:
        """Raise ProvisionError if a run of that service was begun and has no end."""
        run = self.runs.unfinished(service)
        if run is not None:
            step = run.journal.last_step or "its beginning"
            raise ProvisionError(
                f"run {run.name} of {service} is unfinished: it was interrupted at {step}",
                "take it up with `doctor apply PROFILE --resume`, or undo it with "
                "`doctor rollback PROFILE`",
            )

    def _carry_out(
        self, target: Target, plan: Plan, before: Goal, means: Means, asked: dict[str, str]
    ) -> Outcome:
        run = self.runs.create()
        note_run(run, plan, before, means, asked)
        return self._worker(run, target, means).apply(plan, before)

    def _take_up(self, run: Run, target: Target) -> Outcome:
        """Go on with an interrupted run; a rollback closes the run that it was to undo."""
        end_leftovers(target, run.name)
        means, before = _means(run), noted_goal(run, BEFORE)
        plan = self._plan(target, noted_goal(run, GOAL), means)
        outcome = self._worker(run, target, means).apply(plan, before)
        if outcome.is_good and run.asked.get(VERB) == ROLLBACK:
            self._close(run.asked.get("of", ""), run.name)
        return outcome

    def _to_undo(self, service: str, name: str) -> Run:
        if name:
            run = self.runs.get(name)
            if run.asked.get(SERVICE) != service:
                raise UsageError(f"run {name} is of {run.asked.get(SERVICE)}", "name its profile")
            return run
        unfinished = self.runs.unfinished(service)
        done = [run for run in self.runs.of(service) if run.journal.end == APPLIED]
        done = [run for run in done if run.asked.get(VERB) == "apply"]
        if unfinished is None and not done:
            other = "with" if str(self.runs.state) == SYSTEM_STATE else "without"
            hint = f"runs are kept in {self.runs.folder}; ask {other} --user for the others"
            raise UsageError(f"there is no run of {service} to undo", hint)
        return unfinished or done[-1]

    def _close(self, name: str, by: str) -> None:
        """Note in a run's own journal that it was undone."""
        run = self.runs.get(name)
        run.journal.write(BACK, text=f"undone by {by}")
        run.journal.write(END, text=ROLLED_BACK)
        reboot.forget(run)

    def _plan(self, target: Target, goal: Goal, means: Means) -> Plan:
        plan = make_plan(target.name, goal, read_state(target, goal), means)
        if plan.blockers:
            raise ProvisionError(plan.blockers[0], "settle it, then try again")
        return plan

    def _worker(self, run: Run, target: Target, means: Means) -> Worker:
        return Worker(run, target, means, self.matrix, self.watcher)


def _asked(verb: str, target: Target, profile: str) -> dict[str, str]:
    service = service_key(profile, target)
    return {VERB: verb, SERVICE: service, PROFILE: profile, TARGET: target.name}


def _means(run: Run) -> Means:
    """The means of a run, with what has been fetched by now."""
    means = noted_means(run)
    fetched = means.fetched or Path(means.wheels, COMPLETE).exists()
    return msgspec.structs.replace(means, fetched=fetched)


def rehearse(prepared: Prepared) -> list[tuple[str, RoleResult]]:
    """Let every role say what it would change (Ansible's check mode). Changes nothing."""
    with tempfile.TemporaryDirectory(prefix="doctor-check-") as folder:
        book = Playbook(prepared.order.target, Path(folder), check=True)
        return [
            (step.title, book.play(step.name, step.role, step.variables))
            for step in prepared.plan.steps
            if step.role
        ]
