"""An image in one file: fetched whole or refused, and told from every other file."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.errors import RemoteError, UsageError
from doctor.profile.image_file import fetch_image, image_path, read_image_file
from tests.web import Asked, Given, Site

pytestmark = pytest.mark.real

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


@pytest.fixture
def registry() -> Iterator[Registry]:
    found = Registry()
    with found.site:
        yield found


def test_it_holds_what_engines_old_and_new_look_for(registry: Registry, tmp_path: Path) -> None:
    found = fetch_image(registry.image, tmp_path)
    assert found.id == digest_of(CONFIG)
    assert found.path == image_path(registry.image, tmp_path)
    with tarfile.open(found.path) as archive:
        files = {m.name: (archive.extractfile(m) or io.BytesIO()).read() for m in archive}
    index = json.loads(files["index.json"])["manifests"][0]
    assert files["blobs/" + index["digest"].replace(":", "/")] == MANIFEST
    saved = json.loads(files["manifest.json"])[0]
    assert files[saved["Config"]] == CONFIG
    assert [files[name] for name in saved["Layers"]] == [*LAYERS, LAYERS[1]]
    assert len(files) == 3 + 2 + len(LAYERS)
    asked = len(registry.site.seen)
    assert fetch_image(registry.image, tmp_path) == found
    assert len(registry.site.seen) == asked, "what is there is not fetched again"


@pytest.mark.parametrize("knows_ranges", [True, False])
def test_a_layer_that_is_cut_off_is_taken_up(
    knows_ranges: bool, registry: Registry, tmp_path: Path
) -> None:
    registry.cuts, registry.knows_ranges = 3, knows_ranges
    found = fetch_image(registry.image, tmp_path)
    assert read_image_file(found.path, registry.image, deep=True) == found


def test_what_is_not_whole_is_not_kept(registry: Registry, tmp_path: Path) -> None:
    registry.cuts = 9
    with pytest.raises(RemoteError, match="cut off"):
        fetch_image(registry.image, tmp_path)
    registry.cuts = 0
    registry.blobs[digest_of(LAYERS[0])] = b"LOWER" * 50_000
    with pytest.raises(RemoteError, match="something else"):
        fetch_image(registry.image, tmp_path)
    assert not list(image_path(registry.image, tmp_path).parent.iterdir())


BAD_MANIFESTS = {
    "no json": (b"{", "is no image"),
    "a list": (json.dumps({"manifests": []}).encode(), "list of images by platform"),
    "no layers": (json.dumps({"config": row(CONFIG)}).encode(), "is no image"),
    "a path as a digest": (
        manifest_of().replace(digest_of(CONFIG).encode(), b"sha256:../../../etc/passwd"),
        "is no image",
    ),
    "a size below zero": (
        manifest_of(b"x").replace(b'"size": 1', b'"size": -1'), "is no image"),
    "words as a size": (manifest_of(b"x").replace(b'"size": 1', b'"size": "1"'), "is no image"),
    "a list of numbers": (b'{"config": 1, "layers": [2]}', "is no image"),
    "just a number": (b"7", "is no image"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD_MANIFESTS)
def test_a_manifest_of_no_image_is_refused(what: str, tmp_path: Path) -> None:
    manifest, words = BAD_MANIFESTS[what]
    registry = Registry(manifest)
    with registry.site, pytest.raises(UsageError, match=words):
        fetch_image(registry.image, tmp_path)


def test_another_image_is_refused(registry: Registry, tmp_path: Path) -> None:
    path = fetch_image(registry.image, tmp_path).path
    other = f"{registry.image.partition('@')[0]}@sha256:{'0' * 64}"
    with pytest.raises(UsageError, match="it is not used"):
        read_image_file(path, other)
    with pytest.raises(UsageError, match="No such file"):
        read_image_file(tmp_path / "none.tar", registry.image)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    registry = Registry()
    with registry.site:
        return fetch_image(registry.image, tmp_path_factory.mktemp("image")).path, registry.image


@given(st.integers(0, 1 << 20), st.integers(1, 255), st.sampled_from(["change", "cut", "add"]))
def test_no_other_byte_passes(stored: tuple[Path, str], place: int, bits: int, what: str) -> None:
    path, image = stored
    data = bytearray(path.read_bytes())
    place %= len(data)
    if what == "change":
        data[place] ^= bits
    other = path.with_name("other")
    other.write_bytes(data[:place] if what == "cut" else data + (b"x" if what == "add" else b""))
    with pytest.raises(UsageError):
        read_image_file(other, image, deep=True)


@given(st.binary(max_size=3000))
def test_no_content_raises_anything_else(stored: tuple[Path, str], data: bytes) -> None:
    path, image = stored
    other = path.with_name("other")
    other.write_bytes(data)
    with pytest.raises(UsageError):
        read_image_file(other, image)
