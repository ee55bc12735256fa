"""A small real HTTP server that stands in for an engine, with switches for its faults.

In a test: `with StandIn("mute") as url`. As a process: python standin.py PORT FAULT.
"""

from __future__ import annotations

import json
import math
import os
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[2] / "doctor" / "smoke" / "data" / "known-answer.json"
KNOWN = json.loads(DATA.read_text())
WORDS = [f" {word}" for word in KNOWN["sentence"].split()]
CONTEXT = KNOWN["context"]
PAGE = "<html><body>502 Bad Gateway</body></html>"


class StandIn:
    """Serves on a port of the loopback while the context lasts; its value is the URL."""

    def __init__(self, fault: str = "", port: int = 0) -> None:
        handler = type("Handler", (_Handler,), {"fault": fault, "state": _State()})
        self.server = _Server(("127.0.0.1", port), handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> str:
        self.thread.start()
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def __exit__(self, *_error: object) -> None:
        self.server.shutdown()
        self.server.server_close()


class _Server(ThreadingHTTPServer):
    """Says nothing of clients that go away: some faults make them."""

    def handle_error(self, request: object, client_address: object) -> None:
        pass


class _State:
    """What all requests of one server share."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.began = time.monotonic()
        self.generated = 0
        self.requests = 0
        self.active = 0
        self.broken = False


class _Handler(BaseHTTPRequestHandler):
    fault = ""
    state: _State
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
        if os.environ.get("STANDIN_LOG"):
            super().log_message(format, *args)

    # -- plain requests ------------------------------------------------------------

    def do_GET(self) -> None:
        if self.path == "/health":
            self._health()
        elif self._lacks_key():
            return
        elif self.path == "/v1/models" and self.fault == "401":
            self._send(401, {"error": "Unauthorized"})
        elif self.path == "/v1/models" and self.fault == "models-not-json":
            self._send(200, "welcome", "text/plain")
        elif self.path == "/v1/models" and self.fault == "no-list":
            self._send(404, {"detail": "Not Found"})
        elif self.path == "/v1/models":
            name = {"other-model": "llama-70b"}.get(self.fault, "known-answer")
            name = "own-model" if self.fault.startswith("own") else name
            self._send(200, {"object": "list", "data": [{"id": name, "object": "model"}]})
        elif self.path == "/metrics" and self.fault != "no-metrics":
            count = 0 if self.fault == "still-counters" else self.state.generated
            text = f'# TYPE x counter\nvllm:generation_tokens_total{{model="m"}} {count}\n'
            self._send(200, text, "text/plain")
        else:
            self._send(404, {"detail": "Not Found"})

    def _health(self) -> None:
        waiting = {"slow-start": 0.4, "never-ready": 3600.0}.get(self.fault, 0.0)
        if time.monotonic() - self.state.began < waiting:
            self._send(503, {"error": {"message": "Loading model", "code": 503}})
        elif self.fault == "html-health":
            self._send(200, PAGE, "text/html")
        elif self.fault == "no-health":
            self._send(404, {"detail": "Not Found"})
        else:
            self._send(200, {"status": "ok"})

    def _send(self, status: int, body: Any, kind: str = "application/json") -> None:
        raw = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    # -- generation ------------------------------------------------------------------

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with self.state.lock:
            self.state.requests += 1
            self.state.active += 1
        try:
            self._generate(raw)
        finally:
            with self.state.lock:
                self.state.active -= 1

    def _lacks_key(self) -> bool:
        """Refuse a request without the key, in words that repeat what was sent."""
        sent = self.headers.get("Authorization", "")
        if self.fault != "wants-key" or sent == "Bearer sk-canary-7f3a":
            return False
        self._send(401, {"error": {"message": f"bad key {sent}", "type": "auth"}})
        return True

    def _generate(self, raw: bytes) -> None:
        if self._lacks_key():
            return
        try:
            asked = json.loads(raw)
        except ValueError:
            self._bad_request()
            return
        if self._troubled(asked):
            return
        is_chat = self.path.endswith("chat/completions")
        ids = asked.get("prompt")
        if self.fault == "no-ids" and isinstance(ids, list):
            self._send(422, {"error": "expected a string", "error_type": "validation"})
        elif self.fault == "chat-only" and not is_chat:
            self._send(404, {"detail": "Not Found"})
        elif isinstance(ids, list) and len(ids) > CONTEXT and self.fault != "cuts":
            self._send(400, {"error": {"message": "prompt too long", "code": 400}})
        elif asked.get("stream"):
            self._stream(asked, is_chat)
        else:
            self._whole(asked, is_chat)

    def _bad_request(self) -> None:
        self.state.broken = self.fault == "broken-by-bad-request"
        if self.fault == "accepts-bad-request":
            self._send(200, {"choices": [{"text": "fine", "finish_reason": "stop"}]})
        else:
            self._send(400, {"object": "error", "message": "not JSON", "code": 400})

    def _troubled(self, asked: dict[str, Any]) -> bool:
        """Answer as the fault wants it; False to go on."""
        full = asked.get("max_tokens", 0) > 4
        if self.fault == "crash" or (self.fault == "crash-later" and full):
            print("ERROR: CUDA out of memory. Tried to allocate 2.00 GiB", flush=True)
            os._exit(1)
        if self.fault in ("hang", "hang-later") and (full or self.fault == "hang"):
            time.sleep(30)
            return True
        if self.fault == "drop":
            self.close_connection = True
            return True
        answers: dict[str, tuple[int, Any, str]] = {
            "401-later": (401, {"error": {"message": "bad key", "code": 401}}, "application/json"),
            "html": (200, PAGE, "text/html"),
            "html-502": (502, PAGE, "text/html"),
            "not-json": (200, "done", "text/plain"),
            "error-500": (500, {"error": {"message": "CUDA error", "code": 500}}, ""),
            "error-with-200": (200, {"error": {"message": "no slot"}}, "application/json"),
        }
        if self.fault in answers or self.state.broken:
            self._send(*answers.get(self.fault, (500, {"error": "dead"}, "application/json")))
            return True
        return False

    def _tokens(self, asked: dict[str, Any], is_chat: bool) -> list[tuple[str, float | None]]:
        case = _case(asked, is_chat)
        words = list(WORDS)
        logprobs: list[float | None] = list(KNOWN["cases"][case]["logprobs"][: len(words)])
        if self.fault == "mixed" and case == "long":
            logprobs = list(KNOWN["cases"]["short"]["logprobs"][: len(words)])
        if self.fault == "two-beginnings":
            logprobs = KNOWN["cases"][case]["other_beginnings"]["two"][: len(words)]
        if self.fault == "wrong-text":
            words[3], words[4] = words[4], words[3]
        if self.fault == "wrong-logprobs":
            logprobs = [(value or 0) - 0.3 * (i == 7) for i, value in enumerate(logprobs)]
        if self.fault == "nan":
            logprobs = [None if i > 2 else value for i, value in enumerate(logprobs)]
        if self.fault == "nan-literal":
            logprobs = [math.nan for _ in logprobs]
        if self.fault in ("own-unstable", "own-drift"):
            logprobs = [-1.0 - self.state.requests for _ in logprobs]
        pairs = list(zip(words, logprobs, strict=True))
        if self.fault == "mute":
            return []
        if self.fault == "early-eos":
            pairs = pairs[:11]
        if self.fault == "no-eos":
            pairs = pairs * 2
        return pairs[: asked.get("max_tokens", 16)]

    def _count(self, tokens: int) -> dict[str, int]:
        with self.state.lock:
            self.state.generated += tokens
        return {"prompt_tokens": 7, "completion_tokens": tokens, "total_tokens": 7 + tokens}

    def _whole(self, asked: dict[str, Any], is_chat: bool) -> None:
        tokens = self._tokens(asked, is_chat)
        if asked.get("echo"):
            self._echo(asked)
            return
        without = ("no-logprobs", *(() if is_chat else ("chat-logprobs", "two-beginnings")))
        choice = _choice(tokens, is_chat, with_logprobs=self.fault not in without)
        cut = len(tokens) == asked.get("max_tokens") and len(tokens) < len(WORDS)
        choice["finish_reason"] = "length" if cut or self.fault == "no-eos" else "stop"
        self._send(200, {"choices": [choice], "usage": self._count(len(tokens))})

    def _echo(self, asked: dict[str, Any]) -> None:
        """Score the prompt: a value for each word, None for the first."""
        if self.fault == "own-no-echo":
            self._send(400, {"error": {"message": "echo is not supported"}})
            return
        count = len(str(asked["prompt"]).split()) + 1
        value = -9.0 if self.fault == "own-guesses" else -2.5
        logprobs = {"token_logprobs": [None, *[value] * (count - 1)]}
        choice = {"text": f"{asked['prompt']} x", "logprobs": logprobs, "finish_reason": "length"}
        self._send(200, {"choices": [choice], "usage": self._count(1)})

    def _stream(self, asked: dict[str, Any], is_chat: bool) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        tokens = self._tokens(asked, is_chat)
        for number, event in enumerate(self._events(tokens, is_chat)):
            if self.fault == "truncated-stream" and number == 5:
                self.wfile.flush()
                self.close_connection = True
                self.connection.close()
                return
            self._chunk(f"data: {event}\r\n\r\n" if number % 2 else f": ping\n\ndata: {event}\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def _events(self, tokens: list[tuple[str, float | None]], is_chat: bool) -> Iterator[str]:
        usage = self._count(len(tokens))
        if self.fault == "wrong-usage":
            usage["completion_tokens"] += 3
        for pair in tokens:
            if self.fault == "stream-html":
                yield PAGE
                return
            choice = _choice([pair], is_chat, with_logprobs=True, delta=True)
            yield json.dumps({"choices": [choice]})
        if self.fault == "error-in-stream":
            yield json.dumps({"error": {"message": "engine died"}})
        yield json.dumps({"choices": [{"index": 0, "text": "", "finish_reason": "stop"}]})
        if self.fault != "no-usage":
            yield json.dumps({"choices": [], "usage": usage})
        if self.fault != "no-done":
            yield "[DONE]"

    def _chunk(self, text: str) -> None:
        raw = text.encode()
        # Split inside of a line: a client must put the parts together again.
        for part in (raw[:7], raw[7:]):
            if part:
                self.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")


def _case(asked: dict[str, Any], is_chat: bool) -> str:
    if is_chat:
        return "chat"
    prompt = asked.get("prompt")
    for name, case in KNOWN["cases"].items():
        if prompt in (case["text"], case["ids"]):
            return str(name)
    return "short"


def _choice(
    tokens: list[tuple[str, float | None]],
    is_chat: bool,
    with_logprobs: bool,
    delta: bool = False,
) -> dict[str, Any]:
    text = "".join(word for word, _ in tokens)
    choice: dict[str, Any] = {"index": 0, "finish_reason": None}
    if is_chat:
        choice["delta" if delta else "message"] = {"role": "assistant", "content": text}
        content = [{"token": word, "logprob": value} for word, value in tokens]
        choice["logprobs"] = {"content": content} if with_logprobs else None
    else:
        values = {"token_logprobs": [value for _, value in tokens]}
        choice |= {"text": text, "logprobs": values if with_logprobs else None}
    return choice


def main() -> None:
    """Serve on the port given until ended; some faults are those of a process."""
    port, fault = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""
    if fault == "dies-at-start":
        print("INFO loading\nValueError: unknown architecture FooForCausalLM", flush=True)
        sys.exit(3)
    if fault == "ignores-sigterm":
        import signal

        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if fault == "never-listens":
        time.sleep(3600)
    print("ready", flush=True)
    with StandIn(fault, port):
        threading.Event().wait()


if __name__ == "__main__":
    main()
