"""Lists of parts by their schema, and everything that verification must notice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from doctor.errors import UsageError
from doctor.images import sbom
from doctor.images.inventory import take_inventory
from doctor.images.labels import LOCK, REQUIRED
from doctor.images.parts import read_parts
from doctor.images.reading import read_image
from doctor.images.verify import Expectation, Point, verify
from doctor.matrix import load_matrix
from doctor.profile.lock import Lock, LockedPackage, lock_text
from tests.images.conftest import Load
from tests.images.written import SITE, Layer, save, system, valid_parts

STATUS = """Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.36-9+deb12u9

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1.0

"""
NOTHING = Expectation()
KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\n" + "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQ" * 4


def good(version: str = "1.2") -> tuple[Layer, dict[str, Any]]:
    """An image with nothing wrong, and its configuration."""
    package = LockedPackage(name="xllamacpp", version="1.2", sha256=("a" * 64,))
    lock = Lock(schema="doctor/lock/v1", profile="p", engine="xllamacpp", packages=(package,))
    layer = system().distribution("xllamacpp", version)
    layer.file("var/lib/dpkg/status", STATUS)
    layer.file("opt/doctor/stack.lock", lock_text(lock))
    labels = {**dict.fromkeys(REQUIRED, "x"), LOCK: f"sha256:{lock.digest}"}
    return layer, {"User": "10001:10001", "Labels": labels}


def points(path: Path, expected: Expectation = NOTHING) -> dict[str, Point]:
    found = verify(str(path), expected, load_matrix())
    assert found.passed is all(point.passed is not False for point in found.points)
    return {point.name: point for point in found.points}


def failed(path: Path, expected: Expectation = NOTHING) -> set[str]:
    return {name for name, point in points(path, expected).items() if point.passed is False}


def document(path: Path) -> str:
    with read_image(str(path)) as opened:
        return sbom.render(opened.config, read_parts(opened))


def test_the_list_of_parts_is_valid_and_always_the_same(tmp_path: Path) -> None:
    layer, config = good()
    image = save(tmp_path / "i.tar", layer, config=config)
    text = document(image)
    assert text == document(image)
    found = valid_parts(text)
    purls = {row["purl"] for row in found["components"]}
    assert purls == {
        "pkg:pypi/xllamacpp@1.2",
        "pkg:deb/debian/libc6@2.36-9%2Bdeb12u9?arch=amd64&distro=debian-12",
    }
    assert found["compositions"][0]["aggregate"] == "complete"


def test_a_database_that_is_not_read_makes_the_list_incomplete(tmp_path: Path) -> None:
    layer = system().file("usr/lib/sysimage/rpm/rpmdb.sqlite", "x")
    image = save(tmp_path / "i.tar", layer)
    found = valid_parts(document(image))
    assert found["compositions"][0]["aggregate"] == "incomplete"
    assert "rpmdb.sqlite: its database" in found["metadata"]["properties"][0]["value"]
    (tmp_path / "parts.json").write_text(document(image))
    point = points(image, Expectation(sbom=str(tmp_path / "parts.json")))["parts"]
    assert point.passed is None
    assert "its database" in point.words


def test_an_image_with_nothing_wrong(tmp_path: Path) -> None:
    layer, config = good()
    image = save(tmp_path / "i.tar", layer, config=config)
    (tmp_path / "parts.json").write_text(document(image))
    found = points(image, Expectation(sbom=str(tmp_path / "parts.json")))
    assert {name: point.passed for name, point in found.items() if name != "digest"} == (
        dict.fromkeys(set(found) - {"digest"}, True)
    )


LOGIN = "index-url = https://me:s3cr3t@index.example/simple"
FILES = [
    (f"{SITE}/extra-1.0.dist-info/METADATA", "Name: extra\nVersion: 1.0\n\n", 0o644, "lock"),
    ("opt/doctor/stack.lock", "packages: [", 0o644, "lock"),
    ("opt/doctor/stack.lock", "", 0o644, "lock"),
    ("etc/id", KEY, 0o600, "secrets"),
    ("root/.netrc", "machine x", 0o600, "secrets"),
    ("etc/pip.conf", LOGIN, 0o644, "secrets"),
    ("srv/token", "hf_" + "a1B2" * 9, 0o644, "secrets"),
    ("etc/open", "x", 0o666, "world-writable"),
]
CONFIGS: list[tuple[dict[str, Any], str]] = [
    ({"User": ""}, "user"),
    ({"User": "0:0"}, "user"),
    ({"Labels": {LOCK: "sha256:" + "0" * 64}}, "lock"),
    ({"Labels": {}}, "labels"),
    ({"Env": ["HF_TOKEN=hf_abcdefghijklmnop"]}, "secrets"),
]


@pytest.mark.parametrize(("path", "text", "mode", "point"), FILES)
def test_each_fault_of_a_file_is_noticed(
    tmp_path: Path, path: str, text: str, mode: int, point: str
) -> None:
    layer, config = good()
    image = save(tmp_path / "i.tar", layer.file(path, text, mode), config=config)
    assert failed(image) == {point}


@pytest.mark.parametrize(("change", "point"), CONFIGS)
def test_each_fault_of_the_configuration_is_noticed(
    tmp_path: Path, change: dict[str, Any], point: str
) -> None:
    layer, config = good()
    assert point in failed(save(tmp_path / "i.tar", layer, config={**config, **change}))


def test_other_versions_than_the_lock_are_noticed(tmp_path: Path) -> None:
    layer, config = good(version="1.3")
    assert "lock" in failed(save(tmp_path / "i.tar", layer, config=config))


def test_a_secret_that_a_later_layer_hides_is_still_in_the_image(tmp_path: Path) -> None:
    layer, config = good()
    secret, hide = Layer().file("etc/id", KEY), Layer().file("etc/.wh.id")
    assert "secrets" in failed(save(tmp_path / "i.tar", layer, secret, hide, config=config))


def test_examples_in_packages_are_no_secrets(tmp_path: Path) -> None:
    layer, config = good()
    text = "proxy = https://user:password@proxy.example"
    layer.file("opt/venv/lib/python3.12/site-packages/x/doc.py", text)
    layer.file("usr/share/doc/x", KEY)
    assert "secrets" not in failed(save(tmp_path / "i.tar", layer, config=config))


def test_a_list_of_other_parts_is_noticed(tmp_path: Path) -> None:
    layer, config = good()
    image = save(tmp_path / "i.tar", layer, config=config)
    data = json.loads(document(image))
    data["components"].pop()
    (tmp_path / "parts.json").write_text(json.dumps(data))
    assert failed(image, Expectation(sbom=str(tmp_path / "parts.json"))) == {"parts"}
    (tmp_path / "parts.json").write_text("{}")
    with pytest.raises(UsageError, match="no CycloneDX document"):
        points(image, Expectation(sbom=str(tmp_path / "parts.json")))


def test_a_digest_is_held_against_both_that_an_image_has(tmp_path: Path) -> None:
    layer, config = good()
    image = save(tmp_path / "i.tar", layer, config=config)
    own = take_inventory(str(image)).config.id
    assert points(image, Expectation(own))["digest"].passed is True
    assert points(image, Expectation("sha256:" + "0" * 64))["digest"].passed is False
    with pytest.raises(UsageError, match="--digest"):
        points(image, Expectation("abc"))


def test_content_is_the_same_whatever_the_layers_and_times(tmp_path: Path) -> None:
    one = Layer().file("a", "1").file("b", "2")
    split = (Layer().file("a", "0").file("b", "2"), Layer().file("a", "1"))
    for info, _ in one.members:
        info.mtime = 1_000_000
    same = {take_inventory(str(save(tmp_path / f"{n}.tar", *layers))).content_hash
            for n, layers in enumerate([(one,), split])}  # fmt: skip
    assert len(same) == 1
    other = take_inventory(str(save(tmp_path / "o.tar", Layer().file("a", "1").file("b", "3"))))
    assert other.content_hash not in same
    rights = take_inventory(
        str(save(tmp_path / "r.tar", Layer().file("a", "1", 0o755).file("b", "2")))
    )
    assert rights.content_hash not in same


@pytest.mark.docker
def test_what_a_build_left_in_lower_layers_and_history_is_noticed(
    load: Load, tmp_path: Path
) -> None:
    import docker

    layer, _ = good()
    base = load(layer.file("bin/busy", ""), "hidden:0")
    context = tmp_path / "context"
    context.mkdir()
    (context / "id").write_text(KEY)
    # Without a shell to run `rm`, the file is written over.
    (context / "empty").write_text("")
    (context / "Containerfile").write_text(
        f"FROM {base}\nARG INDEX\nCOPY id /etc/id\nCOPY empty /etc/id\n"
        "LABEL index=https://me:s3cr3t@index.example/simple\nUSER 10001:10001\n"
    )
    client = docker.from_env()
    image, _ = client.images.build(path=str(context), dockerfile="Containerfile", rm=True)
    try:
        found = take_inventory(str(image.id))
        assert found.rows["/etc/id"].kind == "FILE"
        assert ("a private key", "/etc/id") in found.secrets
        assert ("a login in an address", "the history") in found.secrets
    finally:
        client.images.remove(str(image.id), force=True)
        client.close()
