"""The last rungs: bad requests are refused and do no harm, and the metrics count."""

from __future__ import annotations

import asyncio
import time

from doctor.smoke.asking import Asker
from doctor.smoke.calls import CallFault, Request, Trouble
from doctor.smoke.client import Client
from doctor.smoke.compare import shown
from doctor.smoke.known import KnownAnswer
from doctor.smoke.metrics import parse_metrics, pick
from doctor.smoke.steps import Failed, Skipped
from doctor.smoke.target import Target

_HALF = b'{"model":'


class Robustness:
    """Sends one server what it should refuse, and reads its counters."""

    def __init__(self, target: Target, client: Client, asker: Asker) -> None:
        self._target = target
        self._client = client
        self._asker = asker
        self._before: float | None = None

    async def refusal(self) -> str:
        """Half a JSON object and too long a prompt are refused; then it still answers."""
        refused = await self._client.post(self._asker.path, _HALF, self._target.answer_s)
        if refused.status < 400:
            raise Failed("accepts-bad-request", f"half a JSON object is answered {refused.status}")
        words = f"half a JSON object: {refused.status}"
        known = self._asker.known
        if known:
            words += f", too long a prompt: {await self._too_long(known)}"
        try:
            answer = await self._asker.ask(max_tokens=4)
        except CallFault as fault:
            if fault.trouble in (Trouble.DROPPED, Trouble.REFUSED):
                raise
            raise Failed("broken-by-bad-request", fault.text) from None
        if known and not known.sentence.startswith(answer.text.strip()):
            raise Failed("broken-by-bad-request", f"afterwards it says {shown(answer.text)}")
        return f"{words}; a good one afterwards is answered"

    async def _too_long(self, known: KnownAnswer) -> str:
        ids = known.cases["short"].ids
        prompt = ids * (known.context // len(ids) + 2)
        try:
            answer = await self._client.complete(
                Request(self._asker.model, prompt), self._target.answer_s
            )
        except CallFault as fault:
            if fault.trouble is not Trouble.HTTP_ERROR:
                raise
            return str(fault.status)
        self._asker.generated += answer.usage.completion_tokens if answer.usage else 0
        return "cut"

    async def remember(self) -> None:
        """Read the counter before anything is asked."""
        self._before = await self._count()

    async def counters(self) -> str:
        """The counter of generated tokens moved by at least what was given to us."""
        names = self._target.counters.get("generated_tokens", ())
        if not names or not self._target.metrics:
            raise Skipped("no counters are known for this engine")
        until = time.monotonic() + self._target.settle_s
        while True:
            now = await self._count()
            moved = (now or 0.0) - (self._before or 0.0)
            # Engines publish their counters a moment after the answer.
            if moved >= self._asker.generated or now is None or time.monotonic() > until:
                break
            await asyncio.sleep(0.2)
        if now is None:
            raise Skipped(f"{self._target.metrics} does not give {names[0]}")
        seen = f"{moved:g} tokens counted, {self._asker.generated} given to us"
        if moved < self._asker.generated:
            raise Failed("still-counters", seen)
        return seen

    async def _count(self) -> float | None:
        names = self._target.counters.get("generated_tokens", ())
        if not names or not self._target.metrics:
            return None
        try:
            answer = await self._client.get(self._target.metrics, self._target.answer_s)
        except CallFault:
            return None
        return pick(parse_metrics(answer.text), names) if answer.status == 200 else None
