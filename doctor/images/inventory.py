"""Every file of an image by kind, rights and hash; and what should not be in one.

The content hash covers names, kinds, rights, owners and bytes, not times: two builds from the
same lock have the same one, whatever the builder.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

from doctor.errors import UsageError
from doctor.images.config import ImageConfig
from doctor.images.reading import LIMIT_S, ignore_progress, is_file, open_image
from doctor.images.streams import Chunks, Hashed, Meter, Metered, Progress, unpacked
from doctor.images.tar import BLOCK, Kind, Member, TarReader
from doctor.images.tree import Entry, ImageTree

_CHUNK = 1 << 20
_SEARCHED = 1 << 20
_SECRETS = (
    ("a private key", re.compile(rb"-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----\s[\w+/=\s]{64}")),
    ("an API token", re.compile(rb"\b(?:hf_[A-Za-z0-9]{30,}|nvapi-[\w-]{40,}|gh[pousr]_\w{30,}"
                                rb"|github_pat_\w{40,}|glpat-[\w-]{20,}|AKIA[A-Z0-9]{16}\b)")),
    ("a login in an address", re.compile(rb"\bhttps?://[^\s/:@\"'<>{}$%]{1,80}:[^\s/@\"'<>{}$%]{3,80}"
                                         rb"@[\w.-]+")),
)  # fmt: skip
_SECRET_FILES = re.compile(
    r"(?:^|/)(?:\.netrc|\.pypirc|\.git-credentials|\.docker/config\.json|id_(?:rsa|ed25519|ecdsa)"
    r"|\.aws/credentials|\.cache/huggingface/token)$"
)
# Where a login in an address is an example in somebody's documentation or test.
_QUIET = re.compile(r"/(?:dist|site)-packages/|/usr/(?:share|lib|include)/|/lib/python3")
# What every engine and kernel lays over the image, with rights of its own.
_MOUNTED = ("/dev/", "/proc/", "/sys/")


@dataclass(slots=True)
class Row:
    """One file: kind, rights, owner and group, and the hash of its content or its target."""

    kind: str
    mode: int
    uid: int
    gid: int
    content: str = ""


@dataclass
class Inventory:
    """All files by path; `secrets` are words and places of what looks like one.

    `layers` are digests of the unpacked layers as they were read, of an archive alone.
    """

    config: ImageConfig
    layers: list[str] = field(default_factory=list)
    rows: dict[str, Row] = field(default_factory=dict)
    secrets: list[tuple[str, str]] = field(default_factory=list)

    @property
    def content_hash(self) -> str:
        """One hash over all rows."""
        digest = hashlib.sha256()
        for path, row in sorted(self.rows.items()):
            if not path.startswith(_MOUNTED):
                line = (path, row.kind, f"{row.mode:o}", f"{row.uid}:{row.gid}", row.content)
                digest.update("\0".join(line).encode("utf-8", "surrogateescape") + b"\n")
        return f"sha256:{digest.hexdigest()}"

    @property
    def world_writable(self) -> tuple[str, ...]:
        """Files and folders that every user may change; folders with the sticky bit are meant."""
        return tuple(
            path
            for path, row in self.rows.items()
            if row.mode & 0o002
            and row.kind in (Kind.FILE.name, Kind.FOLDER.name)
            and not (row.kind == Kind.FOLDER.name and row.mode & 0o1000)
            and not path.startswith(_MOUNTED)
        )


def take_inventory(
    ref: str, progress: Progress = ignore_progress, limit_s: float = LIMIT_S
) -> Inventory:
    """Read every byte of an image once. Raises UsageError or RemoteError as `read_image` does."""
    with ExitStack() as stack:
        config, layers = open_image(ref, stack)
        found = Inventory(config)
        tree = ImageTree()
        meter = Meter(progress, limit_s)
        for layer in layers:
            tree.begin_layer()
            stream = Hashed(unpacked(Metered(layer, meter)))
            reader = TarReader(stream)
            for member in reader:
                meter.name = member.name
                _take(found, tree.add(member), member, reader)
            found.layers += [stream.digest()] if is_file(ref) else []
        found.rows = {path: _row(entry) for path, entry in tree.walk()}
    if not is_file(ref):
        found.secrets = sorted({*found.secrets, *_hidden(ref, Meter(progress, limit_s))})
    return found


def _hidden(ref: str, meter: Meter) -> Iterator[tuple[str, str]]:
    """Secrets in the layers of an image of the engine, and in the commands that made them.

    What a later layer removes is gone from the merged files, and still in the image.
    """
    from doctor.images import engine

    with engine.connect() as client:
        image = engine.find_image(client, ref)
        for line in engine.history(image):
            yield from ((word, "the history") for word in _secrets("/history", 0, line.encode()))
        outer = TarReader(Metered(Chunks(engine.saved(image)), meter))
        for member in outer:
            meter.name = member.name
            if member.kind is Kind.FILE and member.size > BLOCK:
                yield from _of_layer(outer)


def _of_layer(outer: TarReader) -> Iterator[tuple[str, str]]:
    """Secrets in one layer; what is no layer (a manifest) is passed over."""
    try:
        inner = TarReader(unpacked(outer))
        for member in inner:
            if member.kind is Kind.FILE:
                first = inner.read(_SEARCHED)
                yield from (
                    (word, _path(member)) for word in _secrets(_path(member), member.size, first)
                )
    except UsageError:
        return


def _path(member: Member) -> str:
    return f"/{member.name.strip('/').removeprefix('./')}"


def _row(entry: Entry) -> Row:
    """The row of a member; a folder that no archive names belongs to root."""
    return entry.seen if isinstance(entry.seen, Row) else Row(entry.kind.name, entry.mode, 0, 0)


def _take(found: Inventory, entry: Entry | None, member: Member, reader: TarReader) -> None:
    if entry is None or member.kind is Kind.HARD_LINK:
        return
    digest, first = hashlib.sha256(member.target.encode("utf-8", "surrogateescape")), b""
    if member.kind is Kind.FILE:
        while data := reader.read(_CHUNK):
            first = first or data
            digest.update(data)
        found.secrets += [
            (word, _path(member)) for word in _secrets(_path(member), member.size, first)
        ]
    row = Row(member.kind.name, member.mode, member.uid, member.gid, digest.hexdigest())
    entry.seen = row


def _secrets(path: str, size: int, first: bytes) -> Iterator[str]:
    """What a file looks as if it held; of packages' own files only what is never an example."""
    if _SECRET_FILES.search(path) and size:
        yield "a file of logins"
    if size > _SEARCHED or first.startswith(b"\x7fELF") or b"\0" in first[:1024]:
        return
    for word, pattern in _SECRETS:
        if not _QUIET.search(path) and pattern.search(first):
            yield word
