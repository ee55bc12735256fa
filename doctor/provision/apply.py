"""Carry a plan out: journal before each step, verify, go back if a layer fails.

However doctor ends, the journal says how far it came; what it was working towards lies
beside it, so that the same work can be taken up again or undone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from doctor.errors import DoctorError, ExitCode, ProvisionError
from doctor.matrix import Matrix
from doctor.provision import reboot
from doctor.provision.fetching import fetch
from doctor.provision.goal import Goal
from doctor.provision.journal import (
    APPLIED,
    BACK,
    BEGIN,
    DONE,
    END,
    FAILED,
    GIVEN_UP,
    ROLLED_BACK,
    STEP,
    SUSPENDED,
)
from doctor.provision.plan import Plan, make_plan
from doctor.provision.playbook import Listener, Playbook, RoleResult
from doctor.provision.runs import Run
from doctor.provision.step import NEEDS_REBOOT, NONE, PERSON, Step
from doctor.provision.survey import end_leftovers, read_boot, read_state
from doctor.provision.target import LOCAL, Target
from doctor.provision.variables import Means


@dataclass(frozen=True)
class Watcher:
    """Who is told: of a step that begins (number, of how many), its tasks, its end."""

    begins: Callable[[int, int, Step], None] = lambda *_: None
    task: Listener = lambda _: None
    ended: Callable[[Step, str, float], None] = lambda *_: None


@dataclass(frozen=True)
class Outcome:
    """How it ended: applied, rolled-back, given-up or suspended; `failure` is what failed first.

    Suspended is no end: a reboot is waited for, or, with a failure, a person must decide.
    """

    end: str
    run: str = ""
    failure: str = ""
    steps: int = 0
    seconds: float = 0.0
    proof: str = ""

    @property
    def is_good(self) -> bool:
        """True if the machine is what it was meant to be."""
        return self.end == APPLIED

    @property
    def exit_code(self) -> ExitCode:
        """What the command answers."""
        if self.end == SUSPENDED:
            return ExitCode.SUSPENDED
        return ExitCode.OK if self.is_good else ExitCode.FAILED


@dataclass(frozen=True)
class Worker:
    """Carries plans out on one target for one run."""

    run: Run
    target: Target
    means: Means
    matrix: Matrix
    watcher: Watcher = Watcher()

    def apply(self, plan: Plan, before: Goal) -> Outcome:
        """Take every step; on a failure go back to `before`, as far as steps can be undone.

        A reboot that an interrupted run still waits for comes first.
        """
        journal = self.run.journal
        awaited = self._awaited(plan)
        journal.write(BEGIN)
        try:
            if awaited:
                self._reboot(awaited, plan.goal)
            proof = self._steps(plan) or self._without_steps(plan)
        except reboot.Suspended as why:
            return Outcome(SUSPENDED, self.run.name, str(why))
        except DoctorError as fault:
            return self._back(plan, before, str(fault))
        self._end(APPLIED)
        return Outcome(APPLIED, self.run.name, steps=len(plan.steps), proof=proof)

    def go_to(self, goal: Goal) -> str:
        """Bring the machine to a goal, whatever its state. Raises DoctorError."""
        state = read_state(self.target, goal)
        plan = make_plan(self.target.name, goal, state, self.means)
        if plan.blockers:
            raise ProvisionError(plan.blockers[0], "settle it, then resume")
        return self._steps(plan)

    def _steps(self, plan: Plan) -> str:
        proof = ""
        for number, step in enumerate(plan.steps, 1):
            self.run.journal.write(STEP, step.name)
            if step.reboots:
                reboot.note(self.run, step.name, self.target)
            self.watcher.begins(number, len(plan.steps), step)
            result = self._take(step, plan.goal)
            if not result.failure and step.name == "verify":
                proof, result.failure = self._proven(plan.goal)
            self.watcher.ended(step, result.failure, result.seconds)
            if result.failure:
                self.run.journal.write(FAILED, step.name, result.failure)
                raise ProvisionError(f"{step.name}: {result.failure}")
            self.run.journal.write(DONE, step.name)
            if step.reboots:
                self._reboot(step.name, plan.goal)
        return proof

    def _awaited(self, plan: Plan) -> str:
        """A step that is done and whose reboot has not been; one yet to be done brings its own."""
        entries = self.run.journal.read()
        if not reboot.asked_for(entries):
            return ""
        name = reboot.awaited(entries, read_boot(self.target))
        return "" if name in [step.name for step in plan.steps if step.reboots] else name

    def _reboot(self, step: str, goal: Goal) -> None:
        """Boot that machine again and go on; on this one raise Suspended."""
        if self.target.kind == LOCAL:
            reboot.suspend(self.run, goal, self.target)
        before = read_boot(self.target)
        result = self._book().play(f"reboot_after_{step}", "reboot", reboot.variables())
        if not result.failure and read_boot(self.target) == before:
            result.failure = "the machine runs in the same boot as before"
        if result.failure:
            self.run.journal.write(FAILED, step, result.failure)
            raise ProvisionError(f"reboot after {step}: {result.failure}")

    def _end(self, text: str) -> None:
        self.run.journal.write(END, text=text)
        reboot.forget(self.run)

    def _without_steps(self, plan: Plan) -> str:
        """What was interrupted after its last change, a reboot perhaps, is yet to be proven."""
        if plan.steps:
            return ""
        words, failure = self._proven(plan.goal)
        if failure:
            raise ProvisionError(f"verify: {failure}")
        return words

    def _take(self, step: Step, goal: Goal) -> RoleResult:
        if step.actor == PERSON:
            raise reboot.Suspended(f"{step.title}: {step.reason}")
        if not step.role:
            fetch(step.name, goal, self.means, self.watcher.task)
            return RoleResult()
        return self._book().play(step.name, step.role, step.variables)

    def _book(self) -> Playbook:
        roles = self.run.folder / "roles"
        return Playbook(self.target, roles, self.run.name, listen=self.watcher.task)

    def _proven(self, goal: Goal) -> tuple[str, str]:
        # A second apply proves nothing, and the client of the smoke test takes long to load.
        from doctor.provision.proof import prove

        outcome = prove(goal, self.target, self.matrix)
        return outcome.words, "" if outcome.is_proven else outcome.words

    def _back(self, plan: Plan, before: Goal, failure: str) -> Outcome:
        """Undo, up to a step that needs a reboot; what cannot be undone is named."""
        journal = self.run.journal
        entries = journal.read()
        begun = {entry.step for entry in entries if entry.event == STEP}
        undone_by_boot = [s for s in plan.steps if s.undo == NEEDS_REBOOT and s.name in begun]
        if undone_by_boot or reboot.asked_for(entries):
            failure += "\nnot taken back by itself: that would need a reboot"
            return Outcome(SUSPENDED, self.run.name, failure)
        done = {entry.step for entry in entries if entry.event == DONE}
        kept = [step.title for step in plan.steps if step.undo == NONE and step.name in done]
        failure += "".join(f"\nnot taken back: {title}" for title in kept)
        journal.write(BACK, text=failure)
        try:
            # A task that lost its Ansible may still be at work.
            end_leftovers(self.target, self.run.name)
            self.go_to(before)
        except DoctorError as fault:
            return Outcome(GIVEN_UP, self.run.name, f"{failure}\nand going back failed: {fault}")
        self._end(ROLLED_BACK)
        return Outcome(ROLLED_BACK, self.run.name, failure)
