"""An image in one file: fetched whole or refused, and told from every other file."""

from __future__ import annotations

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
from tests.profile.image_registry import (
    CONFIG,
    LAYERS,
    MANIFEST,
    Registry,
    digest_of,
    manifest_of,
    row,
)

pytestmark = pytest.mark.real


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
