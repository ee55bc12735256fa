"""The package index that a user has: pages of projects, and METADATA out of wheels.

Whole wheels are never fetched: METADATA comes from the file that the index keeps beside a
wheel (PEP 658), else by reading ranges of the wheel's own end.
"""

from __future__ import annotations

import hashlib
import io
import json
import ssl
import zipfile
import zlib
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit
from urllib.request import HTTPSHandler, Request, build_opener

from doctor.errors import RemoteError

_ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2"
_PAGE_LIMIT, _METADATA_LIMIT = 64 << 20, 4 << 20
_TAIL = 256 << 10
_BLOCK = 64 << 10
_TIMEOUT_S = 20
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError)


class NotFetched(Exception):  # noqa: N818 - an answer about one file, not a failure of the work
    """One thing could not be had; the rest of the work goes on."""


@dataclass(frozen=True)
class IndexFile:
    """One file of a project, as the index lists it."""

    name: str
    url: str
    sha256: str = ""
    size: int | None = None
    requires_python: str = ""
    uploaded: str = ""
    yanked: bool = False
    metadata: str | None = None


@dataclass
class Index:
    """An index by its address; `certificates` is a file of authorities, "" for the system's.

    `requests` counts what was asked. A password in the address is sent to that host alone and
    shown nowhere.
    """

    url: str
    certificates: str = ""
    requests: int = 0
    _opener: Any = field(default=None, repr=False)

    @property
    def shown(self) -> str:
        """The address without what is secret in it."""
        parts = urlsplit(self.url)
        return urlunsplit((parts.scheme, parts.hostname or "", parts.path, "", ""))

    def project(self, name: str) -> tuple[IndexFile, ...]:
        """Files of a project; raises NotFetched if the index does not have it."""
        address = f"{self.url.rstrip('/')}/{name}/"
        body, kind, final = self._get(address, {"Accept": _ACCEPT}, _PAGE_LIMIT)
        if "json" in kind:
            return tuple(_listed(body, final))
        from doctor.matrix.index_html import anchors

        return tuple(anchors(body.decode("utf-8", "replace"), final))

    def metadata(self, file: IndexFile) -> bytes:
        """METADATA of a wheel; raises NotFetched if neither way gives it."""
        if file.metadata is not None:
            body, _, _ = self._get(f"{file.url}.metadata", {}, _METADATA_LIMIT)
            if file.metadata and hashlib.sha256(body).hexdigest() != file.metadata:
                raise NotFetched(f"metadata of {file.name} is not what the index announced")
            return body
        return _metadata_of(RangeFile(self, file.url, file.size))

    def span(self, url: str, first: int, last: int) -> bytes:
        """Bytes of a file from `first` to `last`, both included; never the whole of it."""
        headers = {"Range": f"bytes={first}-{last}", "Accept-Encoding": "identity"}
        body, _, _ = self._get(url, headers, last - first + 1, partial=True)
        return body

    def size(self, url: str) -> int:
        """The size of a file, from the answer to a request for its first byte."""
        with self._open(url, {"Range": "bytes=0-0", "Accept-Encoding": "identity"}) as answer:
            total = str(answer.headers.get("Content-Range", "")).rpartition("/")[2]
        if not total.isdigit():
            raise NotFetched("the index does not serve parts of files")
        return int(total)

    def _get(
        self, url: str, headers: dict[str, str], limit: int, partial: bool = False
    ) -> tuple[bytes, str, str]:
        """Body, content type and final address."""
        with self._open(url, headers) as answer:
            if partial and answer.status != 206:
                raise NotFetched("the index does not serve parts of files")
            body: bytes = answer.read(limit + 1)
            kind = str(answer.headers.get("Content-Type", ""))
            final = str(answer.url)
        if len(body) > limit:
            raise NotFetched(f"an answer of more than {limit} bytes")
        return body, kind, final

    def _open(self, url: str, headers: dict[str, str]) -> Any:
        request = Request(self._plain(url), headers={**headers, **self._login(url)})  # noqa: S310
        self.requests += 1
        try:
            return self._opened.open(request, timeout=_TIMEOUT_S)
        except HTTPError as fault:
            fault.close()
            raise NotFetched(f"the index answers {fault.code}") from None
        except (URLError, OSError, HTTPException) as fault:
            reason = getattr(fault, "reason", fault)
            raise RemoteError(
                f"cannot reach the package index {self.shown}: {reason}",
                "check the network, and what pip is told (pip config list)",
            ) from None

    @property
    def _opened(self) -> Any:
        if self._opener is None:
            context = ssl.create_default_context(cafile=self.certificates or None)
            self._opener = build_opener(HTTPSHandler(context=context))
        return self._opener

    def _plain(self, url: str) -> str:
        """The address without login; raises NotFetched for what is no web address."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise NotFetched("an address that is not http")
        host = parts.hostname + (f":{parts.port}" if parts.port else "")
        return urlunsplit((parts.scheme, host, parts.path, parts.query, ""))

    def _login(self, url: str) -> dict[str, str]:
        own, other = urlsplit(self.url), urlsplit(url)
        if not own.username or (own.hostname, own.port) != (other.hostname, other.port):
            return {}
        pair = f"{unquote(own.username)}:{unquote(own.password or '')}"
        return {"Authorization": f"Basic {b64encode(pair.encode()).decode()}"}


def _listed(body: bytes, base: str) -> Iterator[IndexFile]:
    """Files of a JSON page (PEP 691); what is not of its form is left out."""
    try:
        page = json.loads(body)
        files = page["files"]
    except (ValueError, KeyError, TypeError, RecursionError):
        files = None
    if not isinstance(files, list):
        raise NotFetched("the index's page is not one of a package index")
    for entry in files:
        if isinstance(entry, dict) and isinstance(entry.get("filename"), str):
            yield _file(entry, base)


def _file(entry: dict[str, Any], base: str) -> IndexFile:
    hashes = entry.get("hashes")
    size = entry.get("size")
    return IndexFile(
        name=entry["filename"],
        url=urljoin(base, str(entry.get("url") or "")),
        sha256=_sha256(hashes),
        size=size if isinstance(size, int) and size > 0 else None,
        requires_python=str(entry.get("requires-python") or "")[:200],
        uploaded=str(entry.get("upload-time") or "")[:10],
        yanked=bool(entry.get("yanked")),
        metadata=_announced(entry.get("core-metadata", entry.get("dist-info-metadata"))),
    )


def _sha256(hashes: Any) -> str:
    found = str(hashes.get("sha256", "")) if isinstance(hashes, dict) else ""
    return found if len(found) == 64 and all(c in "0123456789abcdef" for c in found) else ""


def _announced(value: Any) -> str | None:
    """The hash of the metadata file, "" if it is announced without one, None if it is not."""
    if isinstance(value, dict):
        return _sha256(value)
    return "" if value is True else None


class RangeFile(io.RawIOBase):
    """A remote file that is read in spans; what was read is kept."""

    def __init__(self, index: Index, url: str, size: int | None) -> None:
        super().__init__()
        self._index = index
        self._url = url
        self._size = size if size is not None else index.size(url)
        self._at = 0
        self._spans: list[tuple[int, bytes]] = []

    def seekable(self) -> bool:
        """True: any place can be asked for."""
        return True

    def readable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """Where the next read begins."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move; nothing is fetched."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Bytes from here; fetched with some more, in one request."""
        last = self._size if size < 0 else min(self._at + size, self._size)
        if self._at >= last:
            return b""
        found = self._kept(self._at, last)
        if found is None:
            self._fetch(self._at, last)
            found = self._kept(self._at, last) or b""
        self._at += len(found)
        return found

    def _kept(self, first: int, last: int) -> bytes | None:
        for start, data in self._spans:
            if start <= first and last <= start + len(data):
                return data[first - start : last - start]
        return None

    def _fetch(self, first: int, last: int) -> None:
        """One request: at the end a long tail, for a wheel keeps its METADATA there."""
        is_tail = last > self._size - _BLOCK
        start = max(0, min(first, self._size - _TAIL)) if is_tail else first
        stop = self._size if is_tail else min(max(last, first + _BLOCK), self._size)
        if stop - start > _PAGE_LIMIT or (start == 0 and stop == self._size > _TAIL):
            raise NotFetched("the file would have to be fetched whole")
        self._spans.append((start, self._index.span(self._url, start, stop - 1)))


def _metadata_of(file: RangeFile) -> bytes:
    try:
        with zipfile.ZipFile(file) as archive:
            for info in archive.infolist():
                folder, _, name = info.filename.partition("/")
                if name == "METADATA" and folder.endswith(".dist-info"):
                    if info.file_size > _METADATA_LIMIT:
                        raise NotFetched("its METADATA is too large")
                    return archive.read(info)
    except _BROKEN as fault:
        raise NotFetched(f"the wheel cannot be read: {fault}") from None
    raise NotFetched("the wheel has no METADATA")
