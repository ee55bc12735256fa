"""Distributions of a site folder, whole, odd and broken."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from doctor.facts import Package, Version
from doctor.probes import dists
from doctor.probes.local import LocalHost

HEAD = "Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"


def _install(site: Path, name: str, version: str, head: str = "", body: str = "") -> Path:
    folder = site / f"{name}-{version}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(HEAD.format(name=name, version=version) + head + "\n" + body)
    return folder


def _read(site: Path) -> dict[str, Package]:
    names = tuple(sorted(os.listdir(site)))
    return {package.name: package for package in dists.read_site(LocalHost(), str(site), names)}


def test_a_wheel(tmp_path: Path) -> None:
    folder = _install(
        tmp_path,
        "Foo_Bar.baz",
        "1.0+cu128",
        "License: a\n        Version: 9\nRequires-Python: >=3.9\n"
        'Requires-Dist: torch==2.8.0\nRequires-Dist: x>1 ; extra == "y"\n',
        "Version: 7\n",
    )
    (folder / "WHEEL").write_text("Wheel-Version: 1.0\nTag: cp312-cp312-linux_x86_64\n")
    assert _read(tmp_path)["foo-bar-baz"] == Package(
        "foo-bar-baz",
        Version("1.0+cu128"),
        ("torch==2.8.0", 'x>1 ; extra == "y"'),
        ">=3.9",
        ("cp312-cp312-linux_x86_64",),
        str(tmp_path),
    )


def test_two_of_one_name_are_both_told(tmp_path: Path) -> None:
    _install(tmp_path, "torch", "2.8.0")
    _install(tmp_path, "torch", "2.7.1")
    names = tuple(sorted(os.listdir(tmp_path)))
    found = dists.read_site(LocalHost(), str(tmp_path), names)
    assert [str(p.version) for p in found] == ["2.7.1", "2.8.0"]


def test_what_is_broken_says_why(tmp_path: Path) -> None:
    (tmp_path / "empty-1.dist-info").mkdir()
    _install(tmp_path, "noversion", "")
    _install(tmp_path, "odd", "1.0-foo!bar")
    _install(tmp_path, "~orch", "2.8.0")
    fifo = _install(tmp_path, "fifo", "1")
    (fifo / "METADATA").unlink()
    os.mkfifo(fifo / "METADATA")
    loop = _install(tmp_path, "loop", "1")
    (loop / "METADATA").unlink()
    (loop / "METADATA").symlink_to("METADATA")
    found = _read(tmp_path)
    assert {name: package.broken for name, package in found.items()} == {
        "empty": "metadata not-there",
        "noversion": "metadata states no version",
        "odd": "'1.0-foo!bar' is not a version",
        "~orch": "left over from an interrupted uninstall",
        "fifo": "metadata not-readable",
        "loop": "metadata not-readable",
    }
    assert all(package.version is None for package in found.values())


def test_metadata_of_ten_megabytes(tmp_path: Path) -> None:
    _install(tmp_path, "body", "1.0", body="x\n" * (5 << 20))
    _install(tmp_path, "head", "1.0", head="Classifier: x\n" * 800_000)
    found = _read(tmp_path)
    assert found["body"].version == Version("1.0")
    assert found["head"].broken == "metadata head is too long"


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    folder = tmp_path / "evil-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(HEAD.format(name="[/foo]\x1b[31m", version="1"))
    assert set(_read(tmp_path)) == {"[/foo]\x1b[31m"}


def test_eggs(tmp_path: Path) -> None:
    folder = tmp_path / "old-1.0-py3.11.egg-info"
    folder.mkdir()
    (folder / "PKG-INFO").write_text(HEAD.format(name="old", version="1.0"))
    (folder / "requires.txt").write_text("numpy>=1\n[gpu]\ncupy\n[:python_version<'3.8']\nback\n")
    (tmp_path / "single-2.0.egg-info").write_text(HEAD.format(name="single", version="2.0"))
    zipped = tmp_path / "dir-3.0-py3.11.egg" / "EGG-INFO"
    zipped.mkdir(parents=True)
    (zipped / "PKG-INFO").write_text(HEAD.format(name="dir", version="3.0"))
    found = _read(tmp_path)
    assert found["old"].requires == (
        "numpy>=1",
        'cupy ; extra == "gpu"',
        "back ; python_version<'3.8'",
    )
    assert found["single"].version == Version("2.0")
    assert found["dir"].location == f"{tmp_path}/dir-3.0-py3.11.egg"


def test_an_editable_install_lies_at_its_source(tmp_path: Path) -> None:
    folder = _install(tmp_path, "mine", "0.1")
    url = '{"url": "file:///home/me/my%20code", "dir_info": {"editable": true}}'
    (folder / "direct_url.json").write_text(url)
    assert _read(tmp_path)["mine"].location == str(tmp_path)
    (tmp_path / "_mine.pth").write_text("/home/me/my code\n")
    assert _read(tmp_path)["mine"].location == "/home/me/my code"


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"url": 1, "dir_info": {"editable": true}}', '{"dir_info": []}', "[" * 99999],
)
def test_other_direct_urls_are_no_editable_install(text: str) -> None:
    assert dists.parse_editable(text) == ""


def test_pth_files_name_folders_and_are_not_run() -> None:
    text = "import os; os.system('x')\n# note\n./src\n/abs\n\nimport\tos\n"
    assert dists.parse_pth(text) == ("./src", "/abs")
