"""The package index that a user has: pages of projects, and METADATA out of wheels.

Whole wheels are never fetched: METADATA comes from the file that the index keeps beside a
wheel (PEP 658), else by reading ranges of the wheel's own end.
"""

from __future__ import annotations

import hashlib
import re
import ssl
from base64 import b64encode
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlsplit, urlunsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from doctor.errors import RemoteError
from doctor.matrix.index_page import (
    METADATA_LIMIT,
    PAGE_LIMIT,
    IndexFile,
    NotFetched,
    listed,
)

_ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2"
_TIMEOUT_S = 20
_SAFE = "/%:@!$&'()*+,;=~-._"


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
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))

    def project(self, name: str) -> tuple[IndexFile, ...]:
        """Files of a project; raises NotFetched if the index does not have it."""
        address = f"{self.url.rstrip('/')}/{name}/"
        body, kind, final = self._get(address, {"Accept": _ACCEPT}, PAGE_LIMIT)
        if "json" in kind:
            return tuple(listed(body, final))
        from doctor.matrix.index_html import anchors

        return tuple(anchors(body.decode("utf-8", "replace"), final))

    def metadata(self, file: IndexFile) -> bytes:
        """METADATA of a wheel; raises NotFetched if neither way gives it."""
        if file.metadata is not None:
            body, _, _ = self._get(f"{file.url}.metadata", {}, METADATA_LIMIT)
            if file.metadata and hashlib.sha256(body).hexdigest() != file.metadata:
                raise NotFetched(f"metadata of {file.name} is not what the index announced")
            return body
        from doctor.matrix.index_ranges import RangeFile, metadata_of

        return metadata_of(RangeFile(self, file.url, file.size))

    def span(self, url: str, first: int, last: int) -> bytes:
        """Bytes of a file from `first` to `last`, both included; never the whole of it."""
        headers = {"Range": f"bytes={first}-{last}", "Accept-Encoding": "identity"}
        body, _, _ = self._get(url, headers, last - first + 1, partial=True)
        return body

    def size(self, url: str) -> int:
        """The size of a file, from the answer to a request for its first byte."""
        with self._open(url, {"Range": "bytes=0-0", "Accept-Encoding": "identity"}) as answer:
            total = str(answer.headers.get("Content-Range", "")).rpartition("/")[2]
        if not re.fullmatch(r"[0-9]{1,15}", total):
            raise NotFetched("the index does not serve parts of files")
        return int(total)

    def _get(
        self, url: str, headers: dict[str, str], limit: int, partial: bool = False
    ) -> tuple[bytes, str, str]:
        """Body, content type and final address."""
        with self._open(url, headers) as answer:
            if partial and answer.status != 206:
                raise NotFetched("the index does not serve parts of files")
            body = self._body(answer, limit)
            kind = str(answer.headers.get("Content-Type", ""))
            final = str(answer.url)
        if len(body) > limit:
            raise NotFetched(f"an answer of more than {limit} bytes")
        return body, kind, final

    def _open(self, url: str, headers: dict[str, str]) -> Any:
        request = Request(self._plain(url), headers=headers)  # noqa: S310 - http alone
        for name, value in self.login(url).items():
            request.add_unredirected_header(name, value)
        self.requests += 1
        try:
            return self._opened.open(request, timeout=_TIMEOUT_S)
        except HTTPError as fault:
            fault.close()
            raise NotFetched(f"the index answers {fault.code}") from None
        except (URLError, OSError, HTTPException, ValueError) as fault:
            # ValueError: it leads to an address that is none.
            raise self._unreached(fault) from None

    def _body(self, answer: Any, limit: int) -> bytes:
        try:
            body: bytes = answer.read(limit + 1)
        except (OSError, HTTPException) as fault:
            raise self._unreached(fault) from None
        return body

    def _unreached(self, fault: Exception) -> RemoteError:
        reason = getattr(fault, "reason", None) or str(fault) or type(fault).__name__
        return RemoteError(
            f"cannot reach the package index {self.shown}: {reason}",
            "check the network, and what pip is told (pip config list)",
        )

    @property
    def _opened(self) -> Any:
        if self._opener is None:
            context = ssl.create_default_context(cafile=self.certificates or None)
            self._opener = build_opener(HTTPSHandler(context=context), _SameLogin(self))
        return self._opener

    def _plain(self, url: str) -> str:
        """The address without login; raises NotFetched for what is no web address."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise NotFetched("an address that is not one") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise NotFetched("an address that is not http")
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        where = host + (f":{port}" if port else "")
        return urlunsplit((parts.scheme, where, quote(parts.path, _SAFE), parts.query, ""))

    def login(self, url: str) -> dict[str, str]:
        """The header that logs in, for addresses of the index's own host."""
        own, other = urlsplit(self.url), urlsplit(url)
        if not own.username or (own.hostname, own.port) != (other.hostname, other.port):
            return {}
        pair = f"{unquote(own.username)}:{unquote(own.password or '')}"
        return {"Authorization": f"Basic {b64encode(pair.encode()).decode()}"}


class _SameLogin(HTTPRedirectHandler):
    """Follows a redirection; the login goes along to the index's own host alone."""

    def __init__(self, index: Index) -> None:
        self._index = index

    def redirect_request(self, *args: Any, **kwargs: Any) -> Request | None:
        """The next request, which the base makes of `args`, its address last."""
        address = str(args[-1])
        if urlsplit(address).scheme not in ("http", "https"):
            return None
        found = super().redirect_request(*args, **kwargs)
        if found is not None:
            for name, value in self._index.login(address).items():
                found.add_unredirected_header(name, value)
        return found
