"""A real HTTP server on the loopback whose answers a test writes as a function."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit


@dataclass
class Asked:
    """One request."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes = b""


@dataclass
class Given:
    """One answer; `cut` sends only so many bytes of the body, then hangs up."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None


@dataclass
class Site:
    """Serves while the context lasts; `seen` are all requests."""

    answer: Callable[[Asked], Given]
    seen: list[Asked] = field(default_factory=list)
    url: str = ""

    def __enter__(self) -> Site:
        handler = type("Handler", (_Handler,), {"site": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def answer_raw(connection: socket.socket, *parts: bytes) -> None:
    """Read what is asked and send these bytes, whatever they are.

    A client that has heard enough hangs up: how far this came then depends on the moment, and is no
    fault of the server.
    """
    with suppress(ConnectionError):
        connection.recv(65536)
        for part in parts:
            connection.sendall(part)


class _Handler(BaseHTTPRequestHandler):
    site: Site

    def _do(self) -> None:
        parts = urlsplit(self.path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self.rfile.read(int(headers.get("content-length", 0)))
        asked = Asked(self.command, parts.path, parts.query, headers, body)
        self.site.seen.append(asked)
        given = self.site.answer(asked)
        self.send_response(given.status)
        for name, value in given.headers.items():
            self.send_header(name, value)
        if "Content-Length" not in given.headers:
            self.send_header("Content-Length", str(len(given.body)))
        self.end_headers()
        self.wfile.write(given.body if given.cut is None else given.body[: given.cut])
        self.close_connection = True

    do_GET = do_POST = _do  # noqa: N815 - names of the library

    def log_message(self, *_args: Any) -> None:
        """Say nothing."""
