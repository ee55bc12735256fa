"""Steps for the user's own model, of which no answer is known.

They show that its numbers are numbers, that it repeats itself, and that its figures are
those of an earlier run that was held to be right.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from doctor.smoke.asking import Asker
from doctor.smoke.calls import CallFault, Completion, Request
from doctor.smoke.client import Client
from doctor.smoke.compare import shown
from doctor.smoke.steps import Failed, Skipped
from doctor.smoke.target import Record, Target

# Plain English of no interest. A language model of any size finds it likelier than this.
PROSE = (
    "The library opens at nine in the morning and closes at six in the evening. On Sundays it "
    "is closed. Visitors may borrow up to ten books at a time and keep them for four weeks."
)
# Nats a token: 7 is a perplexity of 1100, near to guessing; 0.05 is within rounding.
_WORST_MEAN, _BAND = -7.0, 0.05
_SAME_TOKENS, _SAME_NUMBER = 8, 0.5


class Sanity:
    """Looks at one server with a model of the user."""

    def __init__(self, target: Target, client: Client, asker: Asker) -> None:
        self._target = target
        self._client = client
        self._asker = asker
        self.answer: Completion | None = None
        self._of_text: float | None = None

    async def finite(self) -> str:
        """All log-probabilities are numbers."""
        self.answer = await self._asker.ask()
        values = self.answer.logprobs
        if not values:
            raise Skipped("this server gives no log-probabilities")
        _expect_numbers(values)
        return f"{len(values)} log-probabilities, on average {_mean(values):.2f}"

    async def repeatable(self) -> str:
        """The same request twice gives the same. Other requests in the batch may change a bit."""
        first, again = self.answer, await self._asker.ask()
        if first is None:
            raise Skipped("there is no answer to compare")
        pairs = list(zip(first.logprobs, again.logprobs, strict=False))[:_SAME_TOKENS]
        if pairs and abs(pairs[0][0] - pairs[0][1]) > _SAME_NUMBER:
            raise Failed(
                "not-repeatable",
                f"the first token has {pairs[0][0]:.2f}, then {pairs[0][1]:.2f}",
            )
        if first.text == again.text:
            return f"twice {shown(first.text)}"
        return "the texts differ after a while, as they may when requests share a batch"

    async def perplexity(self) -> str:
        """A fixed text is likelier than chance."""
        values = await self._logprobs_of(PROSE)
        _expect_numbers(values)
        self._of_text = _mean(values)
        words = f"{math.exp(-self._of_text):.1f} over {len(values)} tokens of a fixed text"
        if self._of_text < _WORST_MEAN:
            raise Failed("outside-band", f"perplexity {words}: it guesses")
        return words

    async def _logprobs_of(self, text: str) -> tuple[float, ...]:
        request = Request(self._asker.model, text, max_tokens=1, logprobs=True, echo=True)
        try:
            answer = await self._client.complete(request, self._target.answer_s)
        except CallFault as fault:
            raise Skipped(f"this server does not score a given text: {fault.text}") from None
        self._asker.generated += 1
        # The first token has nothing before it, the last one is not of the text.
        values = answer.logprobs[1:-1]
        if len(values) < _SAME_TOKENS or not answer.text.startswith(text[:20]):
            raise Skipped("this server does not score a given text")
        return values

    async def recorded(self) -> str:
        """The figures are those of the record."""
        record, now = self._target.record, self.record
        if record is None:
            raise Skipped("no record was given to compare with")
        if now is None:
            raise Skipped("there are no figures to compare")
        pairs = [("its own answer", record.own, now.own), ("the fixed text", record.text, now.text)]
        seen = []
        for name, then, value in pairs:
            if then is None or value is None:
                continue
            if abs(value - then) > _BAND:
                raise Failed("outside-band", f"{name}: {value:.3f} a token, recorded {then:.3f}")
            seen.append(f"{name} {value:.3f}, recorded {then:.3f}")
        return "; ".join(seen)

    @property
    def record(self) -> Record | None:
        """This run's figures, None if there are none."""
        if self.answer is None or not self.answer.logprobs:
            return None
        own = round(_mean(self.answer.logprobs), 4)
        text = None if self._of_text is None else round(self._of_text, 4)
        return Record(self._asker.model, own, text, self.answer.text[:200])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _expect_numbers(values: Sequence[float]) -> None:
    bad = sum(not math.isfinite(value) for value in values)
    if bad:
        raise Failed("nan", f"{bad} of {len(values)} log-probabilities are no numbers")
