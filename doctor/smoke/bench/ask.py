"""What a load test is asked to do, within limits that always hold."""

from __future__ import annotations

from dataclasses import dataclass, field

from doctor.smoke.bench.lengths import Lengths
from doctor.smoke.secret import Secret

MOST_USERS, MOST_RATE = 1024, 10_000.0
MOST_REQUESTS = 100_000


@dataclass(frozen=True)
class Load:
    """How requests come; the other of the two is 0.

    `users` each wait for their answer before they ask again (closed loop); `rate` requests
    a second on average come whether or not answers do (open loop, Poisson).
    """

    users: int = 0
    rate: float = 0.0

    @property
    def is_open(self) -> bool:
        """True for an open loop."""
        return self.rate > 0

    @property
    def value(self) -> float:
        """Users, or requests a second."""
        return self.rate if self.is_open else float(self.users)

    def __str__(self) -> str:
        return f"{self.rate:g} a second" if self.is_open else f"{self.users} at once"


@dataclass(frozen=True)
class Limits:
    """Where a test ends.

    `requests` (0: by the load) and `seconds` are those of each load, `total_s` of all of
    it; `request_s` is the patience with one request. Prompts and answers are cut to
    `prompt` and `output` tokens.
    """

    requests: int = 0
    seconds: float = 20.0
    total_s: float = 180.0
    request_s: float = 60.0
    prompt: int = 1 << 20
    output: int = 1 << 16

    def requests_of(self, load: Load) -> int:
        """How many requests a load may send: ten for each user, and enough for percentiles."""
        if self.requests:
            return self.requests
        if load.is_open:
            return min(MOST_REQUESTS, max(50, round(load.rate * self.seconds * 2)))
        return min(MOST_REQUESTS, max(40, 10 * load.users))


@dataclass(frozen=True)
class BenchAsk:
    """A load test of the server at `url`.

    `loads` are tried in this order; `stops_early` ends a sweep once more load no longer
    helps. `warm_up` is how many requests go first, unmeasured. `chat` forces (True) or
    forbids (False) the chat interface. `ttft_limit_s` replaces the target of the matrix.
    """

    url: str
    lengths: Lengths
    loads: tuple[Load, ...]
    stops_early: bool = False
    model: str = ""
    key: Secret = field(default_factory=Secret)
    limits: Limits = Limits()
    warm_up: int = 2
    seed: int = 1
    chat: bool | None = None
    ttft_limit_s: float | None = None
