"""The middle rungs: one token, the known text and numbers, the same as a stream, two at once."""

from __future__ import annotations

import asyncio

from doctor.smoke.asking import Asker
from doctor.smoke.calls import CallFault, Completion
from doctor.smoke.compare import check_logprobs, check_text, shown
from doctor.smoke.known import KnownCase
from doctor.smoke.steps import Failed, Skipped
from doctor.smoke.target import Target


class Answers:
    """Looks at answers of one server; `answer` is its first whole one."""

    def __init__(self, target: Target, asker: Asker) -> None:
        self._target = target
        self._asker = asker
        self.answer: Completion | None = None

    async def one_token(self) -> str:
        """It gives a token at all; the first one may have to wait for a compiler."""
        answer = await self._asker.ask(max_tokens=1, timeout_s=self._target.first_s)
        counted = answer.usage is not None and answer.usage.completion_tokens > 0
        if not answer.text and (self._asker.known or not counted):
            raise Failed("mute", "an answer without a token")
        return f"{shown(answer.text)} after {answer.duration_s:.2f} s"

    async def text(self) -> str:
        """It says the sentence and stops."""
        self.answer = await self._asker.ask()
        return self._said(self.answer)

    async def logprobs(self) -> str:
        """Its numbers are those of the reference."""
        answer, case = self.answer, self._asker.case("short")
        if answer is None or case is None:
            raise Skipped("there is no answer to compare")
        is_exact = self._asker.sends_ids
        if not answer.logprobs:
            answer, case = await self._chat_with_numbers(case)
            is_exact = False
        return check_logprobs(answer, case, self._target.tolerance, is_exact)

    async def _chat_with_numbers(self, case: KnownCase) -> tuple[Completion, KnownCase]:
        try:
            answer, of_chat = await self._asker.ask_chat()
        except CallFault as fault:
            raise Skipped(f"this server gives no log-probabilities ({fault.text})") from None
        return answer, of_chat or case

    async def stream(self) -> str:
        """Streaming brings the same, ends with its mark, and counts its tokens."""
        answer = await self._asker.ask(streamed=True)
        if self._asker.known:
            self._said(answer)
        elif not answer.text:
            raise Failed("mute", "a stream without text")
        usage, whole = answer.usage, self.answer
        if usage is None or usage.completion_tokens == 0:
            raise Failed("no-usage", "no usage at the end of the stream, although asked for")
        same = whole is not None and whole.text == answer.text
        if whole and same and whole.usage and whole.usage != usage:
            raise Failed("no-usage", f"{usage} streamed, {whole.usage} in one piece")
        pieces = f"{usage.completion_tokens} tokens in {len(answer.stamps)} pieces"
        return f"{pieces}, the first after {answer.ttft_s or 0:.3f} s"

    async def two_at_once(self) -> str:
        """Two different requests in one batch do not disturb each other."""
        names = ("short", "long")
        pair = await asyncio.gather(*(self._asker.ask(name) for name in names))
        seen = [self._one_of_two(*item) for item in zip(names, pair, strict=True)]
        return f"both right; {seen[-1]}" if self._asker.known else "both answered"

    def _one_of_two(self, name: str, answer: Completion) -> str:
        case = self._asker.case(name)
        try:
            if self._asker.known is None:
                return self._any_text(answer)
            words = self._said(answer)
            if case is None or not answer.logprobs:
                return words
            is_exact = self._asker.sends_ids
            return check_logprobs(answer, case, self._target.tolerance, is_exact)
        except Failed as found:
            raise Failed("mixed-answers", f"the {name} one: {found.text}") from None

    def _said(self, answer: Completion) -> str:
        known = self._asker.known
        return check_text(answer, known) if known else shown(answer.text)

    def _any_text(self, answer: Completion) -> str:
        if not answer.text:
            raise Failed("mute", "no text")
        return "text"
