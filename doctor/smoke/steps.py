"""What one step of the readiness ladder found, and the faults that it can name."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class State(str, Enum):
    """Skipped is not passed: nothing was shown."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Step:
    """One rung: its state, what was seen, the fault's name if it failed, how long it took."""

    name: str
    state: State
    text: str
    fault: str = ""
    seconds: float = 0.0


class Failed(Exception):  # noqa: N818 - a result
    """A step failed with a fault of FAULTS; `text` says what was seen."""

    def __init__(self, fault: str, text: str) -> None:
        super().__init__(fault, text)
        self.fault = fault
        self.text = text


class Skipped(Exception):  # noqa: N818 - a result
    """A step could not be tried; the reason."""


# Fault → what it means and where to look. The causes of a dead process come from its log.
FAULTS: dict[str, str] = {
    "dead-process": "The server's process has ended. Its log says why.",
    "too-slow-to-start": "The server did not become ready in time. Look in its log for what it is "
    "doing (loading, compiling, downloading), or allow more with --timeout.",
    "port-closed": "Nothing listens there. Check the address, and that the server binds to it: "
    "in a container a loopback address cannot be reached from outside.",
    "unhealthy": "The server itself says that it is not ready.",
    "unauthorized": "The server wants an API key: --api-key env:NAME or file:PATH.",
    "html-instead-of-json": "A web page came in place of an answer: a proxy or another server is "
    "in between, or the address is wrong.",
    "not-json": "The answer is not JSON: something that is no engine answers there.",
    "model-not-listed": "The server serves another model than the one asked for.",
    "request-refused": "The server refuses a request that it should take.",
    "mute": "The server says that it is healthy but gives no token. Restart it; health checks "
    "of this kind do not run the model.",
    "dropped-connection": "The server closed the connection in place of an answer.",
    "wrong-text": "The model says something else: other weights, a wrong chat template or "
    "tokenizer, or kernels that compute wrong.",
    "early-eos": "The answer stops too soon: a wrong end-of-text token, or a limit on output.",
    "no-eos": "The answer does not stop where it should: the end-of-text token is ignored.",
    "wrong-logprobs": "The text is right and the numbers are not: a kernel, the rotary positions, "
    "the attention or a scale is wrong on this device or in this number format.",
    "nan": "The model computes values that are no numbers: an overflow of the number format, "
    "damaged weights, or a broken kernel.",
    "truncated-stream": "The stream broke off: a proxy that cuts or buffers, or a crash.",
    "no-usage": "The stream does not say how many tokens it had, or says it wrong.",
    "accepts-bad-request": "The server takes a request that is no request.",
    "broken-by-bad-request": "After a bad request the server no longer answers a good one.",
    "still-counters": "The server's metrics do not count what it did.",
    "mixed-answers": "Two requests at once get other answers than one: batching is wrong.",
    "not-repeatable": "The same request gives very different numbers.",
    "outside-band": "The figures are outside of what was recorded for this model.",
    "all-reduce-hangs": "The devices cannot talk to each other: driver, peer access or NCCL.",
    "all-reduce-wrong": "The devices add up wrongly: a fault of memory, link or driver.",
    "all-reduce-fails": "The devices cannot be joined.",
}
