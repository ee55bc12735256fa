"""One request, measured: when its tokens came, and how many the server says there were."""

from __future__ import annotations

import time
from contextlib import aclosing
from dataclasses import dataclass

from doctor.smoke.calls import CallFault, Piece, Request, Usage
from doctor.smoke.client import Client


@dataclass(frozen=True, slots=True)
class Sample:
    """One request that was sent.

    Times are seconds since the load began: when it was `due`, when it was `sent`, when its
    `first` and `last` text came, when all had `ended`.

    Tokens are those of the server's usage; `gap` is the longest pause between two pieces.
    `server_ttft` and `server_tpot` are the server's own figures, if it gives them. `fault`
    is "" for a request that succeeded, else its kind; `words` what the server said.
    """

    due: float
    sent: float
    ended: float
    first: float = 0.0
    last: float = 0.0
    gap: float = 0.0
    prompt_tokens: int = 0
    tokens: int = 0
    server_ttft: float | None = None
    server_tpot: float | None = None
    fault: str = ""
    words: str = ""

    @property
    def ttft(self) -> float:
        """Seconds from when it was due to its first text."""
        return self.first - self.due

    @property
    def tpot(self) -> float | None:
        """Seconds for each token after the first; None for an answer of one token."""
        return (self.last - self.first) / (self.tokens - 1) if self.tokens > 1 else None

    @property
    def latency(self) -> float:
        """Seconds from when it was due to its end."""
        return self.ended - self.due


class _Course:
    """What has come of one answer."""

    def __init__(self) -> None:
        self.first = self.last = self.gap = 0.0
        self.usage: Usage | None = None
        self.timings: dict[str, float] = {}

    def add(self, at: float, piece: Piece) -> None:
        if piece.text and not self.first:
            self.first = self.last = at
        elif self.first and (piece.text or piece.finish):
            # The end mark of an answer is a token without text.
            self.gap = max(self.gap, at - self.last)
            self.last = at
        self.usage = piece.usage or self.usage
        self.timings = piece.timings or self.timings


async def take(
    client: Client, request: Request, began: float, due: float, patience_s: float
) -> Sample:
    """Send one request and measure it. Never raises but for being cancelled."""
    course = _Course()
    sent = time.monotonic() - began
    fault, words = "", ""
    try:
        async with aclosing(client.stream(request, patience_s)) as pieces:
            async for at, piece in pieces:
                course.add(at - began, piece)
    except CallFault as failure:
        fault, words = failure.trouble.value, failure.text
        fault = f"http-{failure.status}" if failure.status not in (0, 200) else fault
    ended = time.monotonic() - began
    usage = course.usage or Usage(0, 0)
    if not fault:
        fault, words = _flaw(usage, course, request.max_tokens)
    ttft, tpot = _server_figures(course.timings)
    return Sample(
        due, sent, ended, course.first, course.last, course.gap,
        usage.prompt_tokens, usage.completion_tokens, ttft, tpot, fault, words,
    )  # fmt: skip


def _flaw(usage: Usage, course: _Course, asked: int) -> tuple[str, str]:
    """What makes an answer of no use for counting, and in words; "" for a sound one."""
    tokens = usage.completion_tokens
    if tokens == 0:
        return "no-usage", "the stream does not say how many tokens it had"
    # One more is forgiven: not all engines count the end mark alike.
    if not 0 < tokens <= asked + 1 or usage.prompt_tokens < 0:
        return "wrong-usage", f"{_short(tokens)} tokens are counted where {asked} were asked for"
    return ("", "") if course.first else ("no-text", f"{tokens} tokens and no text")


def _short(count: int) -> str:
    return str(count) if abs(count) < 10**12 else f"{float(min(count, 10**300)):.0e}"


def _server_figures(timings: dict[str, float]) -> tuple[float | None, float | None]:
    """Seconds to the first token and for each further one, as llama.cpp counts them.

    Its clock of generation starts with the first token, which it counts too.
    """
    prompt, spent, count = (timings.get(k) for k in ("prompt_ms", "predicted_ms", "predicted_n"))
    further = spent / (count - 1) / 1000 if spent is not None and count and count > 1 else None
    return (None if prompt is None else prompt / 1000), further
