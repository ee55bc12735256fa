"""Links of another user do not make root read what that user may not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from doctor.facts import Missing
from doctor.probes.local import LocalHost

SOMEBODY = 12345
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can read what others may not"),
]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder of somebody, and a secret of root beside it."""
    for place in (tmp_path, *list(tmp_path.parents)[:-2]):
        place.chmod(0o755)
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "secret").chmod(0o600)
    (tmp_path / "public").write_text("public")
    (tmp_path / "closed").mkdir(mode=0o700)
    (tmp_path / "closed" / "file").write_text("secret")
    own = tmp_path / "own"
    own.mkdir(mode=0o755)
    return own


def _laid(place: Path, target: str, owner: int = SOMEBODY) -> str:
    place.symlink_to(target)
    os.lchown(place, owner, owner)
    return str(place)


@pytest.mark.parametrize("target", ["../secret", "../closed/file", "chain", "../closed"])
def test_what_its_owner_could_not_read_is_not_permitted(tree: Path, target: str) -> None:
    _laid(tree / "chain", "../secret")
    path = _laid(tree / "link", target) + ("/file" if target == "../closed" else "")
    found = LocalHost().read_text(path)
    assert (found.value, found.missing) == (None, Missing.NOT_PERMITTED)


def test_what_everybody_can_read_is_read(tree: Path) -> None:
    assert LocalHost().read_text(_laid(tree / "link", "../public")).value == "public"


def test_what_is_its_owners_is_read(tree: Path) -> None:
    (tree / "file").write_text("mine")
    (tree / "file").chmod(0o600)
    os.chown(tree / "file", SOMEBODY, SOMEBODY)
    assert LocalHost().read_text(_laid(tree / "link", "file")).value == "mine"


def test_links_of_root_lead_where_they_lead(tree: Path) -> None:
    assert LocalHost().read_text(_laid(tree / "link", "../secret", 0)).value == "secret"
    loop = _laid(tree / "loop", "loop")
    assert LocalHost().read_text(loop).value is None
