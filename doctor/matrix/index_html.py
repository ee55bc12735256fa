"""The older form of an index's page: anchors in HTML (PEP 503), for indexes without JSON."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from html.parser import HTMLParser
from urllib.parse import unquote, urldefrag, urlsplit

from doctor.matrix.index_page import IndexFile, joined

_MOST = 200_000


class _Anchors(HTMLParser):
    """Collects the attributes of anchors."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[dict[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep the attributes of an anchor."""
        if tag == "a" and len(self.found) < _MOST:
            self.found.append({key: value or "" for key, value in attrs})


def anchors(text: str, base: str) -> Iterator[IndexFile]:
    """Files of an HTML page; the file's name is the end of its address."""
    parser = _Anchors()
    # html.parser gives up on odd declarations; what came before them counts.
    with suppress(AssertionError, NotImplementedError):
        parser.feed(text)
    for attributes in parser.found:
        address, fragment = urldefrag(joined(base, attributes.get("href", "")))
        name = unquote(urlsplit(address).path.rpartition("/")[2])
        if not name:
            continue
        said = attributes.get("data-core-metadata", attributes.get("data-dist-info-metadata"))
        yield IndexFile(
            name=name,
            url=address,
            sha256=fragment.removeprefix("sha256=") if fragment.startswith("sha256=") else "",
            requires_python=attributes.get("data-requires-python", "")[:200],
            yanked="data-yanked" in attributes,
            metadata=_hash(said),
        )


def _hash(said: str | None) -> str | None:
    if said is None:
        return None
    return said.removeprefix("sha256=") if said.startswith("sha256=") else ""
