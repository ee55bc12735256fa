"""Models of a hub: what a revision is, and its files, whole or refused.

The hub's HTTP API as huggingface_hub speaks it (huggingface/huggingface_hub
src/huggingface_hub/hf_api.py, file_download.py): /api/models/ID/revision/REV?blobs=true
lists files with their hashes; /ID/resolve/COMMIT/FILE leads to the bytes, often on another
host. Large files have a sha256; small ones have the hash that git gives them, by which
they are checked while their sha256 is found out.
"""

from __future__ import annotations

import fnmatch
import hashlib
import http.client
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

import msgspec

from doctor.errors import RemoteError, UsageError
from doctor.profile.lock import LockedFile, LockedModel
from doctor.profile.web import Call, Reply, get, opened

# What the hub's own tools ask where nothing else is named.
ENDPOINT, ENDPOINT_VARIABLE = "https://huggingface.co", "HF_ENDPOINT"
COMPLETE = ".complete"
# The same weights once more, for other programs.
_OTHER_WEIGHTS = (".bin", ".pt", ".pth", ".gguf", ".onnx", ".onnx_data", ".h5", ".msgpack", ".ot")
_PART_OF = re.compile(r"-\d{5}-of-\d{5}\.gguf$")
_LIST_LIMIT, _SMALL_LIMIT = 32 << 20, 32 << 20
_BLOCK, _TRIES = 1 << 20, 3
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Hub:
    """One hub; `token` is sent to it and to no other host."""

    endpoint: str = ENDPOINT
    token: str = field(default="", repr=False)

    def call(self, path: str, headers: Mapping[str, str] | None = None) -> Call:
        """A request below the endpoint."""
        secret = f"Bearer {self.token}" if self.token else ""
        return Call(f"{self.endpoint.rstrip('/')}/{path}", headers or {}, secret)


def hub_of(environ: Mapping[str, str], token: str = "") -> Hub:
    """The hub that this user's environment names, else the usual one."""
    return Hub(environ.get(ENDPOINT_VARIABLE) or ENDPOINT, token)


@dataclass(frozen=True)
class Wish:
    """A model as it is wanted: `revision` is a branch, tag or commit, "" for main.

    `form` is "hf" or "gguf", `pick` patterns of files; none picks those of that form.
    """

    name: str
    revision: str = ""
    form: str = "hf"
    pick: tuple[str, ...] = ()


def pin_model(hub: Hub, wish: Wish) -> LockedModel:
    """What a revision is now, with the sha256 of every file that is wanted of it.

    Small files without one are fetched for it. Raises RemoteError, or UsageError.
    """
    name, revision = wish.name, wish.revision
    asked = revision or "main"
    path = f"api/models/{quote(name)}/revision/{quote(asked, safe='')}?blobs=true"
    reply, body = get(hub.call(path), _LIST_LIMIT)
    if reply.status != 200:
        raise _refused(reply, name, asked)
    listing = _object(body)
    commit, rows = str(listing.get("sha", "")), listing.get("siblings")
    if not isinstance(rows, list) or not rows:
        raise RemoteError(f"{name} at {asked}: the hub lists no files", "is it a model?")
    by_name = {str(row.get("rfilename")): row for row in rows if isinstance(row, dict)}
    names = wanted_files(by_name, wish.form, wish.pick)
    if not names:
        raise UsageError(f"{name} at {asked} has no such files", "name some: model.files")
    files = [_pin_file(hub, name, commit, by_name[file]) for file in names]
    data = {"id": name, "commit": commit, "wanted": revision, "pick": wish.pick, "files": files}
    try:
        return msgspec.convert(data, LockedModel)
    except msgspec.ValidationError as fault:
        raise RemoteError(
            f"{name} at {asked}: the hub's list is strange: {fault}", "is HF_ENDPOINT a hub?"
        ) from None


def wanted_files(names: Iterable[str], form: str, pick: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Which files of a repository a model is. Pure. Raises UsageError if there is a choice.

    Where weights lie there as safetensors, other forms of the same weights are left out.
    """
    listed = sorted(names)
    if pick:
        return tuple(n for n in listed if any(fnmatch.fnmatchcase(n, p) for p in pick))
    if form == "gguf":
        found = [name for name in listed if name.endswith(".gguf")]
        if len({_PART_OF.sub("", name) for name in found}) > 1:
            raise UsageError(
                f"there are {len(found)} GGUF files to choose from: {', '.join(found)[:300]}",
                "name one: model.files: ['*Q4_K_M.gguf']",
            )
        return tuple(found)
    plain = [name for name in listed if not name.startswith(".")]
    if not any(name.endswith(".safetensors") for name in plain):
        return tuple(plain)
    return tuple(name for name in plain if not name.endswith(_OTHER_WEIGHTS))


def _pin_file(hub: Hub, name: str, commit: str, found: dict[str, Any]) -> dict[str, Any]:
    lfs = found.get("lfs")
    file = {"name": found.get("rfilename"), "size": found.get("size")}
    if isinstance(lfs, dict):
        return {**file, "size": lfs.get("size"), "sha256": lfs.get("sha256")}
    call = hub.call(_resolve(name, commit, str(file["name"])))
    reply, data = get(call, _SMALL_LIMIT)
    if reply.status != 200:
        raise _refused(reply, name, commit)
    blob = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False)
    if blob.hexdigest() != found.get("blobId"):
        raise RemoteError(f"{name}: {file['name']} is not what the hub lists", "try again")
    return {**file, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def _resolve(name: str, commit: str, file: str) -> str:
    return f"{quote(name)}/resolve/{commit}/{quote(file)}"


def fetch_model(
    hub: Hub, model: LockedModel, folder: Path, progress: Progress = lambda *_: None
) -> None:
    """Fetch what of a model is not there yet; the folder is marked when it is whole.

    A file that was cut off is taken up where it ended. `progress` is told name, bytes and
    size. Raises RemoteError for a file that is another than the lock says.
    """
    if (folder / COMPLETE).exists():
        return
    try:
        for file in model.files:
            _fetch(hub, model, file, folder / file.name, progress)
        (folder / COMPLETE).touch()
    except OSError as fault:
        raise RemoteError(
            f"cannot keep {model.id} in {folder}: {fault.strerror}", "make room, then go on"
        ) from None


def _fetch(hub: Hub, model: LockedModel, file: LockedFile, place: Path, progress: Progress) -> None:
    if place.is_file() and _is_whole(place, file):
        progress(file.name, file.size, file.size)
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    part = place.with_name(f"{place.name}.part")
    call = _resolve(model.id, model.commit, file.name)
    for left in reversed(range(_TRIES)):
        try:
            _go_on(hub, call, file, part, progress)
            break
        except RemoteError:
            # What has come so far is kept; a server or proxy may cut long answers off.
            if not left:
                raise
    if not _is_whole(part, file):
        part.unlink()
        raise RemoteError(
            f"{model.id}: {file.name} is not the file whose sha256 is locked",
            "lock the profile again if the model was meant to change",
        )
    os.replace(part, place)


def _go_on(hub: Hub, path: str, file: LockedFile, part: Path, progress: Progress) -> None:
    """Append what is missing of a file."""
    with part.open("ab") as kept:
        have = kept.tell()
        if have > file.size:
            have = kept.truncate(0)
        if have == file.size:
            return
        headers = {"Range": f"bytes={have}-"} if have else {}
        with opened(hub.call(path, headers)) as reply:
            if reply.status == 200 and have:
                # This server does not know of ranges.
                have = kept.truncate(0)
            elif reply.status not in (200, 206):
                raise _refused(reply, path.partition("/resolve/")[0], file.name)
            _pour(reply, kept, file, progress)
        if kept.tell() != file.size:
            raise RemoteError(
                f"{file.name}: cut off at {kept.tell()} of {file.size} bytes",
                "try again: it goes on there",
            )


def _pour(reply: Reply, kept: BinaryIO, file: LockedFile, progress: Progress) -> None:
    """No more than the file's size is taken, whatever comes."""
    while (left := file.size + 1 - kept.tell()) > 0:
        try:
            block = reply.stream.read(min(_BLOCK, left))
        except (OSError, http.client.HTTPException) as fault:
            raise RemoteError(
                f"{file.name}: cut off: {fault}", "try again: it goes on there"
            ) from None
        if not block:
            return
        kept.write(block)
        progress(file.name, kept.tell(), file.size)


def _is_whole(place: Path, file: LockedFile) -> bool:
    if place.stat().st_size != file.size:
        return False
    digest = hashlib.sha256()
    with place.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest() == file.sha256


def _refused(reply: Reply, name: str, what: str) -> RemoteError | UsageError:
    code = reply.header("x-error-code")
    if reply.status in (401, 403):
        hint = "accept its terms on the hub's page, and name a token: model.token: file:/PATH"
        return RemoteError(f"{name}: the hub lets nobody in ({code or reply.status})", hint)
    if reply.status == 404:
        return UsageError(f"{name}: the hub has no {what} ({code or 404})", "check the spelling")
    return RemoteError(f"{name}: the hub answers {reply.status}", "try again later")


def _object(body: bytes) -> dict[str, Any]:
    with suppress(ValueError, RecursionError):
        found = json.loads(body)
        return found if isinstance(found, dict) else {}
    return {}
