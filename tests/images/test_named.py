"""What a person may name at night, and what an author may give: one clear line, or an image."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import json
import lzma
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from doctor.errors import RemoteError, UsageError
from doctor.images.engine import connect, reported
from doctor.images.reading import read_image
from doctor.images.verify import Expectation, verify
from doctor.matrix import load_matrix
from tests.images.conftest import Load
from tests.images.written import Layer, save, system

Pack = Callable[[bytes], bytes]
PACKS: dict[str, tuple[Pack, str]] = {
    "gzip": (gzip.compress, "gunzip"),
    "zstd": (zstandard.compress, "unzstd"),
    "xz": (lzma.compress, "unxz"),
    "bzip2": (bz2.compress, "bunzip2"),
}


def oci(folder: Path, layer: bytes) -> Path:
    """An OCI layout of one layer."""
    blobs = folder / "blobs/sha256"
    blobs.mkdir(parents=True)

    def put(data: bytes) -> dict[str, str]:
        digest = hashlib.sha256(data).hexdigest()
        (blobs / digest).write_bytes(data)
        return {"digest": f"sha256:{digest}"}

    config = put(b'{"config": {"Cmd": ["vllm"]}}')
    manifest = put(json.dumps({"config": config, "layers": [put(layer)]}).encode())
    (folder / "index.json").write_text(json.dumps({"manifests": [manifest]}))
    return folder


def fault_of(path: Path) -> UsageError:
    with pytest.raises(UsageError) as caught, read_image(str(path)):
        pass
    return caught.value


@pytest.mark.parametrize("form", PACKS)
def test_a_packed_archive_names_what_unpacks_it(form: str, tmp_path: Path) -> None:
    pack, tool = PACKS[form]
    path = tmp_path / "image.tar"
    path.write_bytes(pack(save(path, system()).read_bytes()))
    fault = fault_of(path)
    assert str(fault) == f"{path} is packed"
    assert fault.hint.startswith(f"{tool} {path}")


@pytest.mark.parametrize("form", ["xz", "bzip2"])
def test_a_layer_in_a_form_of_no_registry_is_named(form: str, tmp_path: Path) -> None:
    fault = fault_of(oci(tmp_path / "oci", PACKS[form][0](system().tar())))
    assert f"a layer is packed with {form}" in str(fault)


def test_without_zstandard_its_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "zstandard", None)
    fault = fault_of(oci(tmp_path / "oci", zstandard.compress(system().tar())))
    assert "zstd" in str(fault)
    assert "pip install" in fault.hint


def test_nothing_in_a_file_or_folder(tmp_path: Path) -> None:
    (tmp_path / "empty.tar").touch()
    assert str(fault_of(tmp_path / "empty.tar")).endswith("is empty")
    (tmp_path / "folder").mkdir()
    assert "without index.json" in str(fault_of(tmp_path / "folder"))


@pytest.mark.parametrize("entry", [
    {"Config": "c", "RepoTags": 7, "Layers": []},
    {"Config": "c", "RepoTags": [None, {"a": 1}], "Layers": {"a": 1}},
    {"Config": "c", "RepoTags": "text"},
])  # fmt: skip
def test_odd_entries_of_a_saved_image_are_left_out(
    entry: dict[str, object], tmp_path: Path
) -> None:
    outer = Layer().file("manifest.json", json.dumps([entry]))
    outer.file("c", '{"config": [1], "rootfs": [2], "architecture": 3}')
    (tmp_path / "i.tar").write_bytes(outer.tar())
    with read_image(str(tmp_path / "i.tar")) as opened:
        assert opened.config.ref == str(tmp_path / "i.tar")
        assert opened.config.layers == ()


def test_a_layout_of_several_images_is_not_guessed_from(tmp_path: Path) -> None:
    folder = oci(tmp_path / "oci", system().tar())
    row = json.loads((folder / "index.json").read_text())["manifests"][0]
    name = "org.opencontainers.image.ref.name"
    rows = [{**row, "annotations": {name: "a:1"}}, {**row, "annotations": {name: "a:latest"}}]
    (folder / "index.json").write_text(json.dumps({"manifests": rows}))
    with read_image(str(folder)) as opened:
        assert opened.config.digest == row["digest"], "one image under two names"
    rows.append({"digest": f"sha256:{'0' * 64}", "annotations": {name: "b:1"}})
    (folder / "index.json").write_text(json.dumps({"manifests": rows}))
    assert "holds 2 images: a:latest, b:1" in str(fault_of(folder))


def test_a_part_that_is_not_what_its_digest_says(tmp_path: Path) -> None:
    folder = oci(tmp_path / "oci", system().tar())
    manifest = json.loads((folder / "index.json").read_text())["manifests"][0]["digest"]
    blob = folder / "blobs/sha256" / manifest.partition(":")[2]
    blob.write_text(blob.read_text() + " ")
    assert "is not what its name says" in str(fault_of(folder))


def test_layers_that_are_not_those_of_the_configuration(tmp_path: Path) -> None:
    path = save(tmp_path / "i.tar", system())
    whole = verify(str(path), Expectation(), load_matrix())
    assert next(p for p in whole.points if p.name == "digest").passed is None
    data = path.read_bytes()
    assert data.count(b"ID=debian\n") == 1
    path.write_bytes(data.replace(b"ID=debian\n", b"ID=forged\n"))
    found = verify(str(path), Expectation(whole.config.id), load_matrix())
    point = next(p for p in found.points if p.name == "digest")
    assert point.passed is False
    assert "its layers are not those of" in point.words


@pytest.mark.parametrize(("words", "said"), [
    ("('Connection aborted.', PermissionError(13, 'Permission denied'))", "this user may not ask"),
    ("Error while fetching server API version", "no container engine answers"),
])  # fmt: skip
def test_an_engine_that_does_not_answer(words: str, said: str) -> None:
    import docker

    with pytest.raises(RemoteError, match=said) as fault, reported():
        raise docker.errors.DockerException(words)
    assert "name a file" in fault.value.hint


@pytest.mark.real
@pytest.mark.parametrize("made", [False, True])
def test_an_engine_that_is_not_there_leaves_nothing_open(
    made: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "engine.sock"
    if made:  # as one that was killed leaves it
        with socket.socket(socket.AF_UNIX) as killed:
            killed.bind(str(place))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{place}")
    before = set(os.listdir("/proc/self/fd"))
    with pytest.raises(RemoteError, match="no container engine answers"), connect():
        pass
    assert set(os.listdir("/proc/self/fd")) <= before


@pytest.mark.slow
@pytest.mark.docker
@pytest.mark.parametrize(("name", "said"), [
    ("two words", "is no image"),
    ("UPPER/case:1", "is no image"),
    ("x@sha256:12", "is no image"),
    ("a:b:c", "is no image"),
    ("nobody/has-this:1", "has no image"),
])  # fmt: skip
def test_names_that_are_none_and_that_are_not_there(load: Load, name: str, said: str) -> None:
    fault = fault_of(Path(name))
    assert said in str(fault)
    assert fault.hint
    assert not os.path.exists(name)
