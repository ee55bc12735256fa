"""A stand-in for a hub of models: its listing, its redirects to another host, its ranges."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field

from tests.web import Asked, Given, Site

COMMIT = "b" * 40
TOKEN = "Bearer hf-canary"  # noqa: S105 - a test's own


@dataclass
class StandInHub:
    """Small files are answered by the hub itself, large ones (`lfs`) by another server.

    `faults` cut off the next answers of the other server after so many bytes; `gated` wants
    a token; without `ranges` the other server always begins anew.
    """

    name: str
    files: dict[str, bytes]
    lfs: frozenset[str]
    gated: bool = False
    ranges: bool = True
    commit: str = COMMIT
    faults: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.site = Site(self._hub)
        self.other = Site(self._other)

    def __enter__(self) -> StandInHub:
        self.site.__enter__()
        self.other.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.other.__exit__(*error)
        self.site.__exit__(*error)

    def _hub(self, asked: Asked) -> Given:
        if self.gated and asked.headers.get("authorization") != TOKEN:
            return Given(401, b"{}", {"X-Error-Code": "GatedRepo"})
        if asked.path.startswith("/old/name/"):
            # A repository that was renamed: a way within the hub.
            return Given(307, b"", {"Location": asked.path.replace("/old/name/", f"/{self.name}/")})
        if asked.path == f"/api/models/{self.name}/revision/main" and "blobs=true" in asked.query:
            return Given(200, json.dumps(self._listing()).encode())
        start = f"/{self.name}/resolve/{self.commit}/"
        file = asked.path.removeprefix(start)
        if not asked.path.startswith(start) or file not in self.files:
            return Given(404, b"Entry not found", {"X-Error-Code": "EntryNotFound"})
        if file in self.lfs:
            said = {"X-Linked-Etag": f'"{_sha256(self.files[file])}"', "X-Repo-Commit": self.commit}
            return Given(302, b"", {**said, "Location": f"{self.other.url}/cas/{file}?sig=s"})
        return Given(200, self.files[file], {"ETag": f'"{_blob(self.files[file])}"'})

    def _other(self, asked: Asked) -> Given:
        data = self.files[asked.path.removeprefix("/cas/")]
        begin = asked.headers.get("range", "bytes=0-").partition("=")[2].rstrip("-")
        begin = begin if self.ranges else "0"
        cut = self.faults.pop(0) if self.faults else None
        status = 206 if int(begin) else 200
        return Given(status, data[int(begin) :], {"ETag": f'"{_sha256(data)}"'}, cut)

    def _listing(self) -> dict[str, object]:
        rows = []
        for name, data in self.files.items():
            row: dict[str, object] = {"rfilename": name, "size": len(data), "blobId": _blob(data)}
            if name in self.lfs:
                row["lfs"] = {"sha256": _sha256(data), "size": len(data), "pointerSize": 134}
            rows.append(row)
        return {"id": self.name, "sha": self.commit, "gated": self.gated, "siblings": rows}


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _blob(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
