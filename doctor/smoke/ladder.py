"""The readiness ladder: from a living process to two right answers at once.

Cheapest first. A step that fails and without which the later ones mean nothing ends the
climb; the later ones are then skipped, and skipped is not passed.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

from doctor.smoke.answers import Answers
from doctor.smoke.asking import Asker
from doctor.smoke.calls import CallFault, Trouble
from doctor.smoke.client import Client
from doctor.smoke.known import KnownAnswer
from doctor.smoke.readiness import Readiness
from doctor.smoke.robustness import Robustness
from doctor.smoke.sanity import Sanity
from doctor.smoke.steps import Failed, Skipped, State, Step
from doctor.smoke.target import Record, Target

Take = Callable[[], Awaitable[str]]

_BLOCKING = frozenset({"process", "port", "health", "models", "one token"})
# Steps that may be skipped without leaving a doubt: what they show is shown by others, or
# is not the engine's business.
OPTIONAL = frozenset(
    {"process", "health", "models", "counters", "record", "perplexity", "all-reduce"}
)


@dataclass(frozen=True)
class Climb:
    """All steps of a climb, in order; `model` is what was asked.

    `known` is the known answer if that is its model, `record` the figures of another.
    """

    steps: tuple[Step, ...]
    model: str = ""
    known: KnownAnswer | None = None
    record: Record | None = None

    @property
    def first_fault(self) -> Step | None:
        """The step that failed first."""
        return next((step for step in self.steps if step.state is State.FAILED), None)

    @property
    def doubts(self) -> tuple[Step, ...]:
        """Steps that were skipped and should not have been."""
        skipped = (step for step in self.steps if step.state is State.SKIPPED)
        return tuple(step for step in skipped if step.name not in OPTIONAL)

    @property
    def is_proven(self) -> bool:
        """True if nothing failed and nothing that matters was left out."""
        return bool(self.steps) and self.first_fault is None and not self.doubts


async def climb(target: Target, client: Client) -> Climb:
    """Take every step of the ladder."""
    return await _Ladder(target, client).climb()


class _Ladder:
    def __init__(self, target: Target, client: Client) -> None:
        self.asker = Asker(client, target)
        self.readiness = Readiness(target, client, self.asker)
        self.answers = Answers(target, self.asker)
        self.robustness = Robustness(target, client, self.asker)
        self.sanity = Sanity(target, client, self.asker)

    async def climb(self) -> Climb:
        steps: list[Step] = []
        barrier = ""
        for name, take in self._rungs():
            if barrier:
                steps.append(Step(name, State.SKIPPED, f"not tried: {barrier} failed"))
                continue
            step = await self._taken(name, take)
            steps.append(step)
            if step.state is State.FAILED and (name in _BLOCKING or step.fault == "dead-process"):
                barrier = name
        return Climb(tuple(steps), self.asker.model, self.asker.known, self.sanity.record)

    def _rungs(self) -> Iterator[tuple[str, Take]]:
        """The steps in order; which come in the middle is known when the model has a name."""
        ready, answers, sanity = self.readiness, self.answers, self.sanity
        yield "process", ready.process
        yield "port", ready.port
        yield "health", ready.health
        yield "models", ready.models
        yield "one token", self._first_token
        if self.asker.known or not self.asker.model:
            yield "text", answers.text
            yield "logprobs", answers.logprobs
        else:
            yield "finite", sanity.finite
            yield "repeatable", sanity.repeatable
            yield "perplexity", sanity.perplexity
            yield "record", sanity.recorded
        yield "stream", answers.stream
        yield "refusal", self.robustness.refusal
        yield "counters", self.robustness.counters
        yield "two at once", answers.two_at_once

    async def _first_token(self) -> str:
        await self.robustness.remember()
        return await self.answers.one_token()

    async def _taken(self, name: str, take: Take) -> Step:
        began = time.monotonic()

        def step(state: State, text: str, fault: str = "") -> Step:
            return Step(name, state, text, fault, round(time.monotonic() - began, 3))

        try:
            return step(State.PASSED, await take())
        except Skipped as reason:
            return step(State.SKIPPED, str(reason))
        except Failed as found:
            return step(State.FAILED, found.text, found.fault)
        except CallFault as fault:
            named = await self._named(fault)
            return step(State.FAILED, named.text, named.fault)

    async def _named(self, fault: CallFault) -> Failed:
        """The name of a failed call: a process that died beats everything else."""
        if fault.trouble in _BREAKS:
            dead = await self.readiness.died()
            if dead:
                return Failed("dead-process", f"{dead} ({fault.text})")
        words = f"status {fault.status}: {fault.text}" if fault.status >= 400 else fault.text
        return Failed(_NAMES[fault.trouble], words)


_BREAKS = frozenset({Trouble.DROPPED, Trouble.REFUSED, Trouble.TRUNCATED})
_NAMES = {
    Trouble.REFUSED: "port-closed",
    Trouble.DROPPED: "dropped-connection",
    Trouble.TIMED_OUT: "mute",
    Trouble.UNAUTHORIZED: "unauthorized",
    Trouble.HTTP_ERROR: "request-refused",
    Trouble.HTML: "html-instead-of-json",
    Trouble.NOT_JSON: "not-json",
    Trouble.TRUNCATED: "truncated-stream",
    Trouble.TOO_LONG: "not-json",
}
