"""Which image a tag leads to today, asked from its registry: the digest for one platform.

The registry's HTTP API (OCI distribution specification, opencontainers/distribution-spec
@v1.1.0:spec.md): a manifest, or a list of them by platform. What comes is held against its
own digest, so that neither a proxy nor a mirror can answer with something else.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from doctor.errors import RemoteError, UsageError
from doctor.profile.registry_login import HUB, answer_challenge, find_login, is_here
from doctor.profile.web import Call, Reply, get, opened

_LIMIT = 4 << 20
_LISTS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
_MANIFESTS = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
# The hub is asked under another name than images have; images without an owner are its own.
_HUB_HOST, _HUB_OWNER = "registry-1.docker.io", "library"
_ARCHS = {"x86_64": "amd64", "aarch64": "arm64"}
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_REFERENCE = re.compile(
    r"(?P<name>[a-z0-9][\w./-]{0,200}?(?::[0-9]{1,5}/[\w./-]{1,200}?)?)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)


@dataclass(frozen=True)
class Reference:
    """An image by name: "registry:5000/owner/image:tag@sha256:..."."""

    name: str
    tag: str = ""
    digest: str = ""

    @property
    def registry(self) -> str:
        """The registry, docker.io where none is named."""
        first, slash, _ = self.name.partition("/")
        named = slash and ("." in first or ":" in first or first == "localhost")
        return first if named else HUB

    @property
    def repository(self) -> str:
        """The name within its registry."""
        if self.registry != HUB or self.name.startswith(f"{HUB}/"):
            path = self.name.partition("/")[2]
        else:
            path = self.name
        return f"{_HUB_OWNER}/{path}" if self.registry == HUB and "/" not in path else path

    @property
    def version(self) -> str:
        """What to ask for: the digest if there is one, else the tag, else "latest"."""
        return self.digest or self.tag or "latest"

    @property
    def base(self) -> str:
        """The address below which the repository is asked."""
        host = _HUB_HOST if self.registry == HUB else self.registry
        scheme = "http" if is_here(host.rpartition(":")[0] or host) else "https"
        return f"{scheme}://{host}/v2/{self.repository}"


@dataclass(frozen=True)
class Pinned:
    """What a tag leads to: `image` by digest, `list_digest` of the list that it came from.

    `config` is the digest of its configuration, by which engines know it; `size` the bytes
    of its layers as they travel.
    """

    image: str
    tag: str
    arch: str
    config: str
    size: int
    list_digest: str = ""


def parse_reference(text: str) -> Reference:
    """Read an image's name; raises UsageError."""
    match = _REFERENCE.fullmatch(text)
    if match is None:
        raise UsageError(f"{text[:200]!r} is no image", "write NAME:TAG or NAME@sha256:...")
    return Reference(match["name"], match["tag"] or "", match["digest"] or "")


def pin_image(text: str, arch: str) -> Pinned:
    """Ask the registry which image that is on an architecture (as uname gives it).

    Raises RemoteError with what the registry said, UsageError if there is none for it.
    """
    reference = parse_reference(text)
    wanted = _ARCHS.get(arch)
    if wanted is None:
        raise UsageError(f"no images are known for {arch[:40]!r}", f"one of {', '.join(_ARCHS)}")
    door = Repository(reference)
    digest, manifest = door.manifest(reference.version)
    listed = ""
    if "manifests" in manifest:
        listed, digest = digest, _for_platform(manifest, wanted, reference)
        digest, manifest = door.manifest(digest)
    config, layers = str(_part(manifest.get("config")).get("digest")), manifest.get("layers")
    if not _DIGEST.fullmatch(config) or not isinstance(layers, list):
        raise RemoteError(f"{text}: the registry answers with no image", "is the name right?")
    if not listed:
        _expect_arch(door.blob(config), wanted, text)
    image = f"{reference.name}@{digest}"
    return Pinned(image, reference.tag, arch, config, sum(map(_size, layers)), listed)


class Repository:
    """One repository of a registry, with the right to read it once that was asked for."""

    def __init__(self, reference: Reference) -> None:
        self._reference = reference
        self._right = ""

    def manifest(self, version: str) -> tuple[str, dict[str, Any]]:
        """A manifest or list, with the digest of what was sent. Raises RemoteError."""
        body = self.manifest_bytes(version)
        return f"sha256:{hashlib.sha256(body).hexdigest()}", _object(body)

    def manifest_bytes(self, version: str) -> bytes:
        """A manifest or list as it was sent, held against its digest. Raises RemoteError."""
        reply, body = self._get(f"manifests/{version}", ", ".join((*_LISTS, *_MANIFESTS)))
        digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        said = version if version.startswith("sha256:") else reply.header("docker-content-digest")
        if said and said != digest:
            raise RemoteError(
                f"{self._reference.name}: came as {digest}, not as {said}", "do not use it"
            )
        return body

    def blob(self, digest: str) -> dict[str, Any]:
        """A small JSON document. Raises RemoteError."""
        return _object(self.blob_bytes(digest))

    def blob_bytes(self, digest: str) -> bytes:
        """A small part, held against its digest. Raises RemoteError."""
        _, body = self._get(f"blobs/{digest}", "*/*")
        if f"sha256:{hashlib.sha256(body).hexdigest()}" != digest:
            raise RemoteError(f"{self._reference.name}: a part is not {digest}", "do not use it")
        return body

    @contextmanager
    def content(self, digest: str, start: int) -> Iterator[Reply]:
        """A part of any size as it comes, from byte `start` if the registry can; else from 0.

        The status tells: 206 or 200. Raises RemoteError.
        """
        url = f"{self._reference.base}/blobs/{digest}"
        headers = {"Range": f"bytes={start}-"} if start else {}
        for is_last in (False, True):
            with opened(Call(url, headers, self._right)) as reply:
                if reply.status in (200, 206):
                    yield reply
                    return
                if reply.status != 401 or is_last:
                    raise self._refused(reply, reply.read(_LIMIT))
                challenge = reply.headers.get("www-authenticate", "")
            # Rights end after minutes; a part of many gigabytes takes longer.
            self._right = self._ask_in(challenge)

    def _get(self, path: str, accepted: str) -> tuple[Reply, bytes]:
        url = f"{self._reference.base}/{path}"
        reply, body = get(Call(url, {"Accept": accepted}, self._right), _LIMIT)
        if reply.status == 401 and not self._right:
            self._right = self._ask_in(reply.headers.get("www-authenticate", ""))
            reply, body = get(Call(url, {"Accept": accepted}, self._right), _LIMIT)
        if reply.status != 200:
            raise self._refused(reply, body)
        return reply, body

    def _ask_in(self, challenge: str) -> str:
        registry = self._reference.registry
        scope = f"repository:{self._reference.repository}:pull"
        return answer_challenge(challenge, registry, scope, find_login(registry, os.environ))

    def _refused(self, reply: Reply, body: bytes) -> RemoteError:
        named = f"{self._reference.name}:{self._reference.version}"
        if reply.status in (401, 403):
            hint = f"docker login {self._reference.registry}"
            return RemoteError(f"{named}: the registry lets nobody in unnamed", hint)
        if reply.status == 404:
            return RemoteError(f"{named}: the registry has no such image", "check name and tag")
        said = _object(body).get("errors") or body.decode("utf-8", "replace")
        return RemoteError(
            f"{named}: the registry answers {reply.status}: {str(said)[:200]}",
            "try again, or ask who runs it",
        )


def _for_platform(manifest: dict[str, Any], arch: str, reference: Reference) -> str:
    """The digest of the image for Linux on that architecture; the plain variant first."""
    found = []
    seen = []
    listed = manifest["manifests"]
    for entry in listed if isinstance(listed, list) else ():
        platform = _part(_part(entry).get("platform"))
        seen.append(f"{platform.get('os')}/{platform.get('architecture')}")
        if (platform.get("os"), platform.get("architecture")) == ("linux", arch):
            found.append((str(platform.get("variant") or ""), str(entry.get("digest"))))
    found = [pair for pair in found if _DIGEST.fullmatch(pair[1])]
    if not found:
        there = ", ".join(sorted({name for name in seen if "unknown" not in name}))
        raise UsageError(f"{reference.name} has no image for linux/{arch}", f"there are: {there}")
    return min(found)[1]


def _expect_arch(config: dict[str, Any], arch: str, text: str) -> None:
    if config.get("architecture") != arch:
        raise UsageError(
            f"{text} is made for {config.get('architecture')}, not for {arch}", "choose another"
        )


def _size(layer: Any) -> int:
    size = _part(layer).get("size")
    return size if isinstance(size, int) else 0


def _part(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _object(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
