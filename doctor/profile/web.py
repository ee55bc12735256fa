"""Plain HTTP for registries and hubs: whole answers, redirects by rule, streams with ranges.

Standard library. A secret header goes to the host it was meant for and to no other; nothing
that began with TLS goes on without it. Proxies and certificates are those of the environment.
"""

from __future__ import annotations

import http.client
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Any
from urllib.parse import SplitResult, urljoin, urlsplit

from doctor.errors import RemoteError, UsageError

TIMEOUT_S = 30.0
_HOPS = 6
_STRANGE = "whose address is it, and does a proxy answer in its place?"
_MOVED = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True)
class Call:
    """What to ask: `secret` is the Authorization header, "" for none."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    secret: str = field(default="", repr=False)
    data: bytes | None = field(default=None, repr=False)


@dataclass
class Reply:
    """What came: the status, headers by small name, where it came from, and the body."""

    status: int
    headers: dict[str, str]
    url: str
    stream: IO[bytes]
    # Headers of the answers that only led on, first come, first kept.
    passed: dict[str, str] = field(default_factory=dict)

    def header(self, name: str) -> str:
        """A header of this answer, or of one that led here; "" if there is none."""
        return self.passed.get(name) or self.headers.get(name, "")

    def read(self, limit: int) -> bytes:
        """The body; raises RemoteError if it is longer, or cut off."""
        try:
            data = self.stream.read(limit + 1)
        except (OSError, http.client.HTTPException) as fault:
            raise RemoteError(f"{_shown(self.url)}: cut off: {fault}", "try again") from None
        if len(data) > limit:
            raise RemoteError(f"{_shown(self.url)}: answers more than {limit} bytes", _STRANGE)
        return data


@contextmanager
def opened(call: Call) -> Iterator[Reply]:
    """Ask, following redirects. Any status is a reply. Raises RemoteError, or UsageError."""
    url, secret, passed = call.url, call.secret, dict[str, str]()
    for _ in range(_HOPS):
        with _asked(Call(url, call.headers, secret, call.data)) as reply:
            reply.passed = passed
            if reply.status not in _MOVED or not reply.headers.get("location"):
                yield reply
                return
            if call.data is not None:
                raise RemoteError(
                    f"{_shown(url)}: leads elsewhere with what was sent to it", _STRANGE
                )
            passed = {**reply.headers, **passed}
            onward = _joined(url, reply.headers["location"])
        secret = secret if _may_follow(url, onward) else ""
        url = onward
    raise RemoteError(f"{_shown(call.url)}: leads round in circles", _STRANGE)


def get(call: Call, limit: int) -> tuple[Reply, bytes]:
    """Ask, and read the whole body of at most `limit` bytes. Raises RemoteError."""
    with opened(call) as reply:
        return reply, reply.read(limit)


@contextmanager
def _asked(call: Call) -> Iterator[Reply]:
    # What the caller raises while it reads is its own, so nothing is caught around the yield.
    answer = _answer(call)
    headers = {name.lower(): value for name, value in answer.headers.items()}
    try:
        yield Reply(answer.status, headers, call.url, answer)
    finally:
        answer.close()


def _answer(call: Call) -> Any:
    if split(call.url).scheme not in ("http", "https"):
        raise UsageError(f"{_shown(call.url)!r} is no address", "write https://HOST/PATH")
    headers = {"User-Agent": "llm-doctor", **call.headers}
    if call.secret:
        headers["Authorization"] = call.secret
    request = urllib.request.Request(call.url, call.data, headers)  # noqa: S310 - seen above
    try:
        return urllib.request.build_opener(_Stay).open(request, timeout=TIMEOUT_S)
    except urllib.error.HTTPError as answer:
        return answer
    except (OSError, http.client.HTTPException, ValueError) as fault:
        raise RemoteError(f"{_shown(call.url)}: {_reason(fault)}", "is it reachable?") from None


class _Stay(urllib.request.HTTPRedirectHandler):
    """Redirects are followed above, where secrets are kept back."""

    def redirect_request(self, *_args: Any, **_kwargs: Any) -> None:
        """Follow none."""


def _may_follow(url: str, onward: str) -> bool:
    """Whether a secret may go along. Raises RemoteError for a way out of TLS."""
    old, new = split(url), split(onward)
    if (old.scheme, new.scheme) == ("https", "http"):
        raise RemoteError(f"{_shown(url)}: leads to {_shown(onward)}, without TLS", _STRANGE)
    return (old.scheme, old.netloc) == (new.scheme, new.netloc)


def split(url: str) -> SplitResult:
    """The parts of an address; raises RemoteError, without it, for what is none."""
    try:
        parts = urlsplit(url)
        # Whoever asks for the port is the first to see that it is no number.
        _ = parts.port
    except ValueError as fault:
        raise RemoteError(f"an address that is none: {fault}", "whose answer is it?") from None
    return parts


def _joined(url: str, onward: str) -> str:
    try:
        return urljoin(url, onward)
    except ValueError as fault:
        raise RemoteError(f"{_shown(url)}: leads to no address: {fault}", _STRANGE) from None


def _reason(fault: Exception) -> str:
    reason = getattr(fault, "reason", fault)
    if isinstance(reason, ssl.SSLCertVerificationError):
        return "its certificate is not trusted here (SSL_CERT_FILE names more)"
    return str(getattr(reason, "strerror", "") or reason)[:300]


def _shown(url: str) -> str:
    """An address without user, password and query, which may hold secrets."""
    parts = split(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"[:300]
