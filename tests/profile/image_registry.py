"""A registry with one image in three layers, as a stand-in on the loopback."""

from __future__ import annotations

import hashlib
import json

from tests.web import Asked, Given, Site

TYPE = "application/vnd.docker.distribution.manifest.v2+json"
LAYERS = (b"lower" * 50_000, b"upper" * 7, b"")
CONFIG = b'{"architecture": "amd64", "os": "linux"}'


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def row(data: bytes) -> dict[str, object]:
    return {"mediaType": "x", "digest": digest_of(data), "size": len(data)}


def manifest_of(*layers: bytes, config: bytes = CONFIG) -> bytes:
    rows = [row(layer) for layer in layers]
    return json.dumps({"mediaType": TYPE, "config": row(config), "layers": rows}).encode()


# A layer may come twice.
MANIFEST = manifest_of(*LAYERS, LAYERS[1])


class Registry:
    """An image; layers are sent as `sends` says, the first `cuts` times no more than a part."""

    def __init__(self, manifest: bytes = MANIFEST) -> None:
        self.manifest = manifest
        self.blobs = {digest_of(data): data for data in (CONFIG, *LAYERS)}
        self.cuts = 0
        self.knows_ranges = True
        self.site = Site(self.answer)

    @property
    def image(self) -> str:
        return f"{self.site.url[7:]}/owner/engine@{digest_of(self.manifest)}"

    def answer(self, asked: Asked) -> Given:
        if "/manifests/" in asked.path:
            return Given(200, self.manifest)
        data = self.blobs[asked.path.rpartition("/")[2]]
        start = int(asked.headers.get("range", "bytes=0-")[6:-1]) if self.knows_ranges else 0
        self.cuts -= 1
        cut = 1000 if self.cuts >= 0 and len(data) > 1000 else None
        return Given(206 if start else 200, data[start:], cut=cut)
