"""A wheel on an index, read in spans: its METADATA without the rest of it."""

from __future__ import annotations

import io
import zipfile
import zlib
from typing import Protocol

from doctor.matrix.index_page import METADATA_LIMIT, PAGE_LIMIT, NotFetched

_TAIL = 256 << 10
_BLOCK = 64 << 10
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError)


class Spans(Protocol):
    """Whoever can tell the size of a file and fetch parts of it."""

    def size(self, url: str) -> int:
        """Bytes of the file."""

    def span(self, url: str, first: int, last: int) -> bytes:
        """Bytes from `first` to `last`, both included."""


class RangeFile(io.RawIOBase):
    """A remote file that is read in spans; what was read is kept."""

    def __init__(self, index: Spans, url: str, size: int | None) -> None:
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
        if stop - start > PAGE_LIMIT or (start == 0 and stop == self._size > _TAIL):
            raise NotFetched("the file would have to be fetched whole")
        self._spans.append((start, self._index.span(self._url, start, stop - 1)))


def metadata_of(file: RangeFile) -> bytes:
    """METADATA out of a wheel; raises NotFetched if it has none or cannot be read."""
    try:
        with zipfile.ZipFile(file) as archive:
            for info in archive.infolist():
                folder, _, name = info.filename.partition("/")
                if name == "METADATA" and folder.endswith(".dist-info"):
                    if info.file_size > METADATA_LIMIT:
                        raise NotFetched("its METADATA is too large")
                    return archive.read(info)
    except _BROKEN as fault:
        raise NotFetched(f"the wheel cannot be read: {fault}") from None
    raise NotFetched("the wheel has no METADATA")
