"""A client for OpenAI-compatible servers: one connection pool, whole and streamed answers.

Asynchronous, so that `doctor bench` can hold hundreds of streams with it. Every way in
which a server can fail ends in a `CallFault` that says which one it was; nothing is
retried, no redirect is followed, no proxy is used.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from doctor.errors import DoctorError
from doctor.extras import how_to_add
from doctor.smoke.calls import (
    CallFault,
    Completion,
    Piece,
    Request,
    Trouble,
    error_text,
    joined,
    read_piece,
)

if TYPE_CHECKING:
    import aiohttp

BODY_LIMIT, LINE_LIMIT = 32 << 20, 4 << 20
_END = b"[DONE]"


@dataclass(frozen=True)
class Answer:
    """What a plain request brought: status and text."""

    status: int
    text: str

    @property
    def data(self) -> Any:
        """The body as JSON; None for anything else."""
        try:
            return json.loads(self.text)
        except (ValueError, RecursionError):
            return None


class Client:
    """Talks to one server. Use as an async context manager.

    `base` is the server's URL without /v1, `key` an API key (sent as a bearer token),
    `timeout_s` how long a whole answer may take. Without `keep_alive` every call has a
    connection of its own: a server may close an idle one just as it is used again, which
    would look like a fault of the engine.
    """

    def __init__(
        self, base: str, key: str = "", timeout_s: float = 60.0, keep_alive: bool = False
    ) -> None:
        self.base = base.rstrip("/").removesuffix("/v1")
        self.timeout_s = timeout_s
        self._key = key
        self._keep_alive = keep_alive
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Client:
        aiohttp = http_library()
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, force_close=not self._keep_alive),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=headers,
            read_bufsize=1 << 16,
        )
        return self

    async def __aexit__(self, *_error: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def get(self, path: str, timeout_s: float | None = None) -> Answer:
        """Fetch a path of the server (or a whole URL). Any status is an answer."""
        return await self._whole("GET", path, None, timeout_s)

    async def post(self, path: str, body: bytes, timeout_s: float | None = None) -> Answer:
        """Send bytes as JSON, right or wrong. Any status is an answer."""
        return await self._whole("POST", path, body, timeout_s)

    async def complete(self, request: Request, timeout_s: float | None = None) -> Completion:
        """Generate, and wait for the whole answer. Raises CallFault."""
        sent = time.monotonic()
        body = json.dumps(request.body(stream=False)).encode()
        answer = await self.post(request.path, body, timeout_s)
        ended = time.monotonic()
        _expect_success(answer)
        piece = read_piece(_json(answer.text))
        stamps = (ended,) if piece.text else ()
        return joined([piece], sent=sent, ended=ended, stamps=stamps)

    async def stream(
        self, request: Request, timeout_s: float | None = None
    ) -> AsyncGenerator[tuple[float, Piece], None]:
        """Generate, and yield each piece with the time at which it came.

        Raises CallFault; a stream that ends without its end mark is TRUNCATED.
        """
        body = json.dumps(request.body(stream=True)).encode()
        async with self._call("POST", request.path, body, timeout_s) as response:
            if response.status != 200 or "html" in response.content_type:
                _expect_success(await _answer(response))
            async for line in _data_lines(response):
                if line == _END:
                    return
                yield time.monotonic(), read_piece(_json(line))
        raise CallFault(Trouble.TRUNCATED, "the stream ended without its end mark [DONE]")

    async def collect(self, request: Request, timeout_s: float | None = None) -> Completion:
        """Generate by streaming; the whole answer with the times of its pieces."""
        pieces: list[Piece] = []
        stamps: list[float] = []
        sent = time.monotonic()
        async for at, piece in self.stream(request, timeout_s):
            pieces.append(piece)
            if piece.text:
                stamps.append(at)
        return joined(pieces, sent=sent, ended=time.monotonic(), stamps=tuple(stamps))

    async def _whole(
        self, method: str, path: str, body: bytes | None, timeout_s: float | None
    ) -> Answer:
        async with self._call(method, path, body, timeout_s) as response:
            return await _answer(response)

    @asynccontextmanager
    async def _call(
        self, method: str, path: str, body: bytes | None, timeout_s: float | None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send; turn every error of the library into a CallFault."""
        aiohttp = http_library()
        if self._session is None:
            raise RuntimeError("the client is used outside of its context")
        url = path if "://" in path else self.base + path
        limit = aiohttp.ClientTimeout(total=self.timeout_s if timeout_s is None else timeout_s)
        headers = {"Content-Type": "application/json"} if body is not None else {}
        try:
            async with self._session.request(
                method, url, data=body, headers=headers, timeout=limit, allow_redirects=False
            ) as response:
                yield response
        except asyncio.TimeoutError:
            raise CallFault(Trouble.TIMED_OUT, f"no answer within {limit.total:g} s") from None
        except aiohttp.ClientPayloadError as fault:
            raise CallFault(Trouble.TRUNCATED, f"the answer broke off ({fault})") from None
        except aiohttp.ClientConnectorError as fault:
            raise CallFault(Trouble.REFUSED, f"no connection: {fault.strerror or fault}") from None
        except (aiohttp.ClientError, ConnectionError) as fault:
            raise CallFault(Trouble.DROPPED, f"the connection broke: {_words(fault)}") from None


def http_library() -> Any:
    """The HTTP library; raises DoctorError with the command that installs it."""
    try:
        import aiohttp
    except ImportError:
        raise DoctorError("the HTTP client is not installed", how_to_add("smoke")) from None
    return aiohttp


async def _answer(response: aiohttp.ClientResponse) -> Answer:
    raw = bytearray()
    async for chunk in response.content.iter_any():
        raw += chunk
        if len(raw) > BODY_LIMIT:
            raise CallFault(Trouble.TOO_LONG, f"more than {BODY_LIMIT >> 20} MiB")
    return Answer(response.status, raw.decode("utf-8", "replace"))


async def _data_lines(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """What follows "data:" on the lines of an event stream; comments are passed over."""
    rest = b""
    async for chunk in response.content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                yield line[5:].strip()
            elif line.lstrip()[:1] in (b"<", b"{"):
                _expect_success(Answer(200, line.decode("utf-8", "replace")))
                raise CallFault(Trouble.NOT_JSON, "no event stream, although one was asked for")
        if len(rest) > LINE_LIMIT:
            raise CallFault(Trouble.TOO_LONG, f"a line of more than {LINE_LIMIT >> 20} MiB")


def _expect_success(answer: Answer) -> None:
    """Raise the fault that a status or an HTML page is."""
    words = error_text(answer.data) or _first_line(answer.text)
    if answer.status in (401, 403):
        raise CallFault(Trouble.UNAUTHORIZED, words or "no words", answer.status)
    if answer.text.lstrip()[:1] == "<":
        raise CallFault(Trouble.HTML, _first_line(answer.text), answer.status)
    if answer.status != 200:
        raise CallFault(Trouble.HTTP_ERROR, words or "no words", answer.status)


def _json(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        shown = text if isinstance(text, str) else text.decode("utf-8", "replace")
        if shown.lstrip()[:1] == "<":
            raise CallFault(Trouble.HTML, _first_line(shown), 200) from None
        raise CallFault(Trouble.NOT_JSON, f"not JSON: {_first_line(shown)}", 200) from None


def _first_line(text: str) -> str:
    lines = (line.strip() for line in text.splitlines())
    return next((line for line in lines if line), "")[:120]


def _words(fault: Exception) -> str:
    return str(fault) or type(fault).__name__
