"""A package index on this machine: a real HTTP server over made wheels."""

from __future__ import annotations

import hashlib
import io
import json
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TORCH = "torch==2.15.0"
JSON = "application/vnd.pypi.simple.v1+json"


def metadata(name: str, version: str, *lines: str, python: str = ">=3.10,<3.15") -> bytes:
    """METADATA with requirements."""
    head = ["Metadata-Version: 2.4", f"Name: {name}", f"Version: {version}"]
    body = [*head, f"Requires-Python: {python}", *(f"Requires-Dist: {line}" for line in lines)]
    return ("\n".join(body) + "\n\nA description.\nRequires-Dist: not-one\n").encode()


def wheel(name: str, version: str, stated: bytes | None, padding: int = 0) -> bytes:
    """A wheel: padding first and METADATA at the end, as real ones are."""
    folder = f"{name.replace('-', '_')}-{version}.dist-info"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("big.bin", b"\0" * padding, compress_type=zipfile.ZIP_STORED)
        if stated is not None:
            archive.writestr(f"{folder}/METADATA", stated)
    return buffer.getvalue()


@dataclass
class LocalIndex:
    """What the server has, how it behaves, and what it was asked.

    `form` is "json" or "html"; `has_ranges` and `has_metadata` say what it serves; `login` is
    the value of the header that it demands; `moved` sends every page elsewhere.
    """

    form: str = "json"
    has_metadata: bool = True
    has_ranges: bool = True
    login: str = ""
    moved: str = ""
    projects: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    wheels: dict[str, bytes] = field(default_factory=dict)
    stated: dict[str, bytes] = field(default_factory=dict)
    raw: dict[str, bytes] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    logins: list[str | None] = field(default_factory=list)
    sent: int = 0
    url: str = ""

    def add(
        self,
        name: str,
        version: str,
        *lines: str,
        tags: str = "cp38-abi3-manylinux_2_28_x86_64",
        padding: int = 1_200_000,
        **entry: Any,
    ) -> None:
        """Put a wheel with these requirements on the index."""
        body = metadata(name, version, *lines)
        file = f"{name.replace('-', '_')}-{version}-{tags}.whl"
        self.wheels[file] = wheel(name, version, body, padding)
        row: dict[str, Any] = {
            "filename": file,
            "url": f"../../files/{file}",
            "hashes": {"sha256": hashlib.sha256(self.wheels[file]).hexdigest()},
            "size": len(self.wheels[file]),
            "upload-time": "2026-11-20T10:00:00.000000Z",
            "requires-python": ">=3.10,<3.15",
        }
        if self.has_metadata:
            self.stated[file] = body
            row["core-metadata"] = {"sha256": hashlib.sha256(body).hexdigest()}
        self.projects.setdefault(name, []).append({**row, **entry})

    def page(self, project: str) -> tuple[bytes, str]:
        """A project's page in the index's form."""
        if project in self.raw:
            return self.raw[project], JSON
        rows = self.projects[project]
        if self.form == "json":
            wire = {"meta": {"api-version": "1.1"}, "name": project, "files": rows}
            return json.dumps(wire).encode(), JSON
        lines = "".join(_anchor(row) for row in rows)
        return f"<!DOCTYPE html><html><body>{lines}</body></html>".encode(), "text/html"


def three_new(index: LocalIndex) -> LocalIndex:
    """Three versions of vllm above all known, and one that is known."""
    known = 'numpy; sys_platform == "win32"'
    for version in ("0.33.0", "0.40.0", "0.40.1", "0.41.0"):
        index.add("vllm", version, TORCH, "Transformers<6,>=5.20", known, 'ray; extra == "ray"')
    return index


def _anchor(row: dict[str, Any]) -> str:
    digest = row["hashes"]["sha256"]
    stated = row.get("core-metadata")
    more = f' data-core-metadata="sha256={stated["sha256"]}"' if stated else ""
    python = row["requires-python"].replace("<", "&lt;").replace(">", "&gt;")
    yanked = ' data-yanked=""' if row.get("yanked") else ""
    link = f'href="{row["url"]}#sha256={digest}" data-requires-python="{python}"'
    return f"<a {link}{more}{yanked}>{row['filename']}</a><br/>\n"


def _handler(index: LocalIndex) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
            """Nothing on the terminal."""

        def do_GET(self) -> None:
            index.asked.append((self.path, self.headers.get("Range", "")))
            index.logins.append(self.headers.get("Authorization"))
            if index.login and self.headers.get("Authorization") != index.login:
                return self._answer(401, b"", "text/plain")
            if index.moved:
                return self._answer(302, b"", "text/plain", Location=index.moved + self.path)
            parts = self.path.strip("/").split("/")
            if parts[0] == "simple" and (parts[1] in index.projects or parts[1] in index.raw):
                return self._answer(200, *index.page(parts[1]))
            if parts[0] == "files":
                return self._file(parts[1])
            return self._answer(404, b"no such page", "text/plain")

        def _file(self, name: str) -> None:
            stated = index.stated.get(name.removesuffix(".metadata"))
            if name.endswith(".metadata") and stated is not None:
                return self._answer(200, stated, "application/octet-stream")
            body = index.wheels.get(name)
            if body is None:
                return self._answer(404, b"", "text/plain")
            asked = self.headers.get("Range", "")
            if not asked or not index.has_ranges:
                return self._answer(200, body, "application/octet-stream")
            first, last = (int(part) for part in asked.removeprefix("bytes=").split("-"))
            where = f"bytes {first}-{min(last, len(body) - 1)}/{len(body)}"
            part = body[first : last + 1]
            return self._answer(206, part, "application/octet-stream", **{"Content-Range": where})

        def _answer(self, status: int, body: bytes, kind: str, **headers: str) -> None:
            self.send_response(status)
            for name, value in {"Content-Type": kind, **headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            try:
                self.wfile.write(body)
            except OSError:
                return
            index.sent += len(body)

    return Handler


@contextmanager
def served(index: LocalIndex) -> Iterator[str]:
    """Serve an index; yields the address that pip would be given."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(index))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        index.url = f"http://127.0.0.1:{server.server_address[1]}/simple"
        yield index.url
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
