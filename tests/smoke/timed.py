"""A real HTTP server that answers by the clock: a known time to the first token, and for others.

In a test: `with Timed(Profile(...)) as server`. As a process: python timed.py PORT [NAME=VALUE...].
It notes when it really sent what it sent, so that a busy machine fools no test.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import Any

_PATHS = {"/v1/completions": "text", "/v1/chat/completions": "chat"}


@dataclass(frozen=True)
class Profile:
    """How the server behaves. `slots` requests run at once, others wait.

    `group` tokens come in one piece; `fail_every` n-th request is answered with 500;
    `context` is what prompt and answer may have; `declares` puts it in the list of models.
    """

    ttft: float = 0.01
    tpot: float = 0.001
    slots: int = 64
    group: int = 1
    context: int = 100_000
    declares: bool = False
    fail_every: int = 0
    usage: bool = True
    takes_ignore_eos: bool = True
    chat_only: bool = False
    metrics: bool = True
    key: str = ""
    longest_answer: int = 1 << 20


@dataclass
class Served:
    """What was really done for one request, on the monotonic clock."""

    arrived: float
    prompt: int
    tokens: int = 0
    first: float = 0.0
    last: float = 0.0


@dataclass
class State:
    served: list[Served] = field(default_factory=list)
    requests: int = 0
    running: int = 0
    waiting: int = 0
    most: int = 0
    generated: int = 0
    prompts: int = 0


class Timed:
    """Serves on the loopback while the context lasts."""

    def __init__(self, profile: Profile = Profile(), port: int = 0) -> None:
        self.profile, self.port = profile, port
        self.state = State()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), daemon=True)

    def __enter__(self) -> Timed:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_error: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def _main(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._slots = asyncio.Semaphore(self.profile.slots)
        server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, backlog=2048)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            words = head.split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in words[1:] if ": " in line)
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            await self._answer(words[0].split()[1], headers, body, writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(
        self, path: str, headers: dict[str, str], body: bytes, writer: asyncio.StreamWriter
    ) -> None:
        profile, state = self.profile, self.state
        if profile.key and headers.get("authorization") != f"bearer {profile.key}":
            _send(writer, 401, {"error": {"message": f"bad key {headers.get('authorization')}"}})
        elif path == "/v1/models":
            row = {
                "id": "timed",
                **({"max_model_len": profile.context} if profile.declares else {}),
            }
            _send(writer, 200, {"data": [row]})
        elif path == "/metrics" and profile.metrics:
            _send_text(writer, self._metrics())
        elif _PATHS.get(path) == "chat" or (_PATHS.get(path) and not profile.chat_only):
            await self._generate(json.loads(body), _PATHS[path] == "chat", writer)
        else:
            _send(writer, 404, {"detail": "Not Found"})
        state.most = max(state.most, state.running)

    def _metrics(self) -> str:
        state = self.state
        rows = {
            "vllm:num_requests_running": state.running,
            "vllm:num_requests_waiting": state.waiting,
            "vllm:kv_cache_usage_perc": min(state.running / self.profile.slots, 1.0),
            "vllm:prompt_tokens_total": state.prompts,
            "vllm:generation_tokens_total": state.generated,
        }
        return "".join(f'{name}{{engine="0"}} {value}\n' for name, value in rows.items())

    async def _generate(
        self, asked: dict[str, Any], is_chat: bool, writer: asyncio.StreamWriter
    ) -> None:
        profile, state = self.profile, self.state
        served = Served(time.monotonic(), prompt=1 + len(_text(asked).split()))
        state.requests += 1
        tokens = min(asked["max_tokens"], profile.longest_answer)
        if asked.get("ignore_eos") and not profile.takes_ignore_eos:
            _send(writer, 400, {"error": {"message": "unknown field ignore_eos"}})
        elif served.prompt + asked["max_tokens"] > profile.context:
            _send(writer, 400, {"error": {"message": "maximum context length exceeded"}})
        elif profile.fail_every and state.requests % profile.fail_every == 0:
            _send(writer, 500, {"error": {"message": "out of <b>memory</b>"}})
        else:
            state.waiting += 1
            async with self._slots:
                state.waiting -= 1
                state.running += 1
                state.most = max(state.most, state.running)
                try:
                    await self._stream(served, tokens, is_chat, writer)
                finally:
                    state.running -= 1

    async def _stream(
        self, served: Served, tokens: int, is_chat: bool, writer: asyncio.StreamWriter
    ) -> None:
        profile, state = self.profile, self.state
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
        )
        state.prompts += served.prompt
        due = time.monotonic() + profile.ttft
        while served.tokens < tokens:
            await asyncio.sleep(due - time.monotonic())
            count = min(profile.group, tokens - served.tokens)
            served.tokens += count
            state.generated += count
            served.last = time.monotonic()
            served.first = served.first or served.last
            text = " word" * count
            choice = {"delta": {"content": text}} if is_chat else {"text": text}
            _event(writer, {"choices": [{**choice, "finish_reason": None}]})
            await writer.drain()
            due += profile.tpot * profile.group
        _event(writer, {"choices": [{"text": "", "finish_reason": "length"}]})
        usage = {"prompt_tokens": served.prompt, "completion_tokens": served.tokens}
        if profile.usage:
            _event(writer, {"choices": [], "usage": usage})
        writer.write(b"data: [DONE]\n\n")
        state.served.append(served)


def _text(asked: dict[str, Any]) -> str:
    messages = asked.get("messages")
    return str(messages[0]["content"] if messages else asked["prompt"])


def _event(writer: asyncio.StreamWriter, data: dict[str, Any]) -> None:
    writer.write(b"data: " + json.dumps(data).encode() + b"\n\n")


def _send(writer: asyncio.StreamWriter, status: int, data: dict[str, Any]) -> None:
    _send_text(writer, json.dumps(data), status, "application/json")


def _send_text(
    writer: asyncio.StreamWriter, text: str, status: int = 200, kind: str = "text/plain"
) -> None:
    raw = text.encode()
    head = f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(raw)}\r\n"
    writer.write(f"{head}Connection: close\r\n\r\n".encode() + raw)


if __name__ == "__main__":
    given = dict(text.split("=") for text in sys.argv[2:])
    kinds = {name: type(value) for name, value in vars(Profile()).items()}
    profile = Profile(**{name: kinds[name](value) for name, value in given.items()})
    with Timed(profile, int(sys.argv[1])) as timed:
        print(timed.url, flush=True)
        threading.Event().wait()
