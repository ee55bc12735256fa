"""A server that is to be proven, and what is known of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import urlsplit

from doctor.errors import UsageError
from doctor.smoke.known import TOLERANCE


class Process(Protocol):
    """The server's process, if it was started here."""

    @property
    def pid(self) -> int:
        """Its number."""

    def exit_status(self) -> int | None:
        """How it ended (negative: by which signal), or None while it runs."""


@dataclass(frozen=True)
class Record:
    """Figures of a user's own model from a run that was held to be right.

    `own` is the mean log-probability of its own answer, `text` that of a fixed text (None
    if the server does not tell), both in nats; `answer` the beginning of the answer.
    """

    model: str
    own: float
    text: float | None = None
    answer: str = ""


def _say_nothing(_text: str) -> None:
    """For who does not want to hear."""


@dataclass(frozen=True)
class Target:
    """A server: where it is, what it serves, what it may take.

    `process` is given if it was started here. `model` "" means the first that it lists; a
    name with "known-answer" in it is taken for that model. `wait_s` is how long it may take
    to become ready, `answer_s` how long an answer may take, `first_s` the first one (which
    may compile), `settle_s` how long counters may lag, `death_s` how long a dying process
    may take to be gone. `known` says whether that model is served, whatever its name; None:
    the name says it. `record` are figures of the user's own model from an earlier run.
    `say` is told now and then that there is still nothing.
    """

    url: str
    model: str = ""
    process: Process | None = None
    health: str = "/health"
    metrics: str = "/metrics"
    counters: dict[str, tuple[str, ...]] = field(default_factory=dict)
    wait_s: float = 10.0
    answer_s: float = 60.0
    first_s: float = 120.0
    settle_s: float = 6.0
    death_s: float = 1.0
    tolerance: float = TOLERANCE
    known: bool | None = None
    record: Record | None = None
    say: Callable[[str], None] = _say_nothing

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        parts = urlsplit(self.url)
        return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def server_url(url: str) -> str:
    """The URL of a server, as it was given; raises UsageError if it is none or holds a password."""
    try:
        parts = urlsplit(url)
        is_server = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_server = False
    if not is_server:
        raise UsageError(f"{url[:200]!r} is no URL of a server", "write http://HOST:PORT")
    if parts.username or parts.password:
        raise UsageError("the URL holds a password", "--api-key env:NAME or file:PATH")
    return url
