"""What is sent to an OpenAI-compatible server and what comes back, as plain values. Pure.

Engines differ in small ways: four shapes of errors, two of log-probabilities. Here they
become one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any


class Trouble(str, Enum):
    """Why a call gave no usable answer."""

    REFUSED = "connection-refused"
    DROPPED = "connection-dropped"
    TIMED_OUT = "timed-out"
    UNAUTHORIZED = "unauthorized"
    HTTP_ERROR = "http-error"
    HTML = "html-instead-of-json"
    NOT_JSON = "not-json"
    TRUNCATED = "truncated-stream"
    TOO_LONG = "answer-too-long"


class CallFault(Exception):  # noqa: N818 - a fault of the server, not of this program
    """A call failed: what kind of trouble, the HTTP status (0 if none), the server's words."""

    def __init__(self, trouble: Trouble, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.trouble = trouble
        self.text = text
        self.status = status


@dataclass(frozen=True)
class Request:
    """One generation. Give `prompt` as text or token ids, or `messages` for a chat.

    `extra` is merged into the body last, so it can add or replace any field.
    """

    model: str
    prompt: str | tuple[int, ...] = ""
    messages: tuple[dict[str, str], ...] = ()
    max_tokens: int = 16
    logprobs: bool = False
    echo: bool = False
    temperature: float = 0.0
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def path(self) -> str:
        """Where it is sent, under the server's base."""
        return "/v1/chat/completions" if self.messages else "/v1/completions"

    def body(self, stream: bool) -> dict[str, Any]:
        """The JSON of the request; a streamed one asks for usage too."""
        body: dict[str, Any] = {
            "model": self.model,
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
        }
        if self.messages:
            body["messages"] = list(self.messages)
            body.update({"logprobs": True, "top_logprobs": 1} if self.logprobs else {})
        else:
            ids = self.prompt if isinstance(self.prompt, str) else list(self.prompt)
            body["prompt"] = ids
            body.update({"logprobs": 1} if self.logprobs else {})
            body.update({"echo": True} if self.echo else {})
        if stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return {**body, **self.extra}


@dataclass(frozen=True)
class Usage:
    """Tokens as the server counted them."""

    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True)
class Piece:
    """What one message of the server adds to an answer.

    `logprobs` are those of its tokens; NaN stands for a value that is no number.
    `timings` are figures that llama.cpp adds, in milliseconds.
    """

    text: str = ""
    logprobs: tuple[float, ...] = ()
    finish: str = ""
    usage: Usage | None = None
    timings: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Completion:
    """A whole answer. `done` is False for a stream that ended without its end mark.

    Times are seconds on one monotonic clock: `sent` when the request left, `stamps` when
    each piece with text came, `ended` when all had come.
    """

    text: str = ""
    logprobs: tuple[float, ...] = ()
    finish: str = ""
    usage: Usage | None = None
    done: bool = True
    sent: float = 0.0
    stamps: tuple[float, ...] = ()
    ended: float = 0.0
    timings: dict[str, float] = field(default_factory=dict)

    @property
    def ttft_s(self) -> float | None:
        """Seconds to the first text, None if none came."""
        return self.stamps[0] - self.sent if self.stamps else None

    @property
    def duration_s(self) -> float:
        """Seconds from sending to the end."""
        return self.ended - self.sent


def joined(pieces: list[Piece], **times: Any) -> Completion:
    """The answer that pieces add up to."""
    whole = Piece()
    texts: list[str] = []
    logprobs: list[float] = []
    for piece in pieces:
        texts.append(piece.text)
        logprobs += piece.logprobs
        whole = Piece(
            finish=piece.finish or whole.finish,
            usage=piece.usage or whole.usage,
            timings=piece.timings or whole.timings,
        )
    answer = Completion(
        "".join(texts), tuple(logprobs), whole.finish, whole.usage, timings=whole.timings
    )
    return replace(answer, **times)


def read_piece(data: Any) -> Piece:
    """Read a response or one message of a stream; a message of no use is an empty piece.

    Raises CallFault for an error that came with status 200.
    """
    if not isinstance(data, dict):
        raise CallFault(Trouble.NOT_JSON, f"a {type(data).__name__} where an object belongs")
    if data.get("error"):
        raise CallFault(Trouble.HTTP_ERROR, error_text(data))
    choices = data.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else {}
    choice: dict[str, Any] = first if isinstance(first, dict) else {}
    return Piece(
        text=_text(choice),
        logprobs=_logprobs(choice.get("logprobs")),
        finish=str(choice.get("finish_reason") or ""),
        usage=_usage(data.get("usage")),
        timings=_timings(data.get("timings")),
    )


def _text(choice: dict[str, Any]) -> str:
    """Text of a completion, a chat answer, or a part of either; thinking counts as text."""
    inner = choice.get("delta") or choice.get("message") or choice
    if not isinstance(inner, dict):
        return ""
    parts = (inner.get(key) for key in ("reasoning_content", "reasoning", "content", "text"))
    return "".join(part for part in parts if isinstance(part, str))


def _logprobs(found: Any) -> tuple[float, ...]:
    """Both shapes: a list of tokens with values, and parallel lists."""
    if not isinstance(found, dict):
        return ()
    content = found.get("content")
    if isinstance(content, list):
        values = [item.get("logprob") for item in content if isinstance(item, dict)]
    else:
        listed = found.get("token_logprobs")
        values = listed if isinstance(listed, list) else []
    return tuple(_number(value) for value in values)


def _number(value: Any) -> float:
    """A float; NaN for what JSON cannot say (null), or should not (NaN, Infinity, 1e999)."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan


def _usage(found: Any) -> Usage | None:
    if not isinstance(found, dict):
        return None
    counts = [found.get(f"{kind}_tokens") for kind in ("prompt", "completion")]
    whole = [count if isinstance(count, int) else 0 for count in counts]
    return Usage(*whole)


def _timings(found: Any) -> dict[str, float]:
    if not isinstance(found, dict):
        return {}
    figures = {name: _number(value) for name, value in found.items()}
    return {name: figure for name, figure in figures.items() if math.isfinite(figure)}


def error_text(data: Any) -> str:
    """The words of an error body: nested, flat, or a string. "" if there are none."""
    if not isinstance(data, dict):
        return ""
    error = data.get("error")
    if isinstance(error, dict):
        return str(error.get("message") or error.get("type") or error)[:500]
    if isinstance(error, str):
        return error[:500]
    words = data.get("message") or data.get("detail") or ""
    return str(words)[:500]
