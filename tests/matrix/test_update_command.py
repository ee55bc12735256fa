"""`doctor matrix update` as a command, and against the index that this machine has."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from doctor.cli.matrix import command as matrix_command
from doctor.errors import RemoteError
from doctor.facts import Version
from doctor.matrix import load_matrix
from doctor.matrix.learnt import read_learnt
from doctor.matrix.load import DATA
from doctor.matrix.update import Updater, projects
from doctor.profile.index import pip_settings
from doctor.updating import index_of
from tests.matrix.local_index import LocalIndex, served, three_new

pytestmark = pytest.mark.real


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path / "llm-doctor" / "releases"


def command(monkeypatch: pytest.MonkeyPatch, url: str, *words: str) -> Result:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_INDEX_URL", url)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    return CliRunner().invoke(matrix_command, ["update", *words])


def test_the_command_says_what_came(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    with served(three_new(LocalIndex())) as url:
        first = command(monkeypatch, url, "vllm", "sglang")
        again = command(monkeypatch, url, "vllm", "--json")
    assert first.exit_code == 0
    assert "0.41.0, 0.40.1, 0.40.0" in first.stdout
    assert "sglang            not asked: the index answers 404" in first.stdout
    assert "3 new releases (2 projects, 5 requests)" in first.stdout
    row = json.loads(again.stdout)["domains"][0]
    assert (row["new"], row["newest"], row["failed"]) == ([], "0.41.0", "")


def test_the_command_fails_where_nothing_could_be_asked(
    monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    with served(LocalIndex()) as url:
        refused = command(monkeypatch, url, "vllm")
    assert refused.exit_code == 4
    gone = command(monkeypatch, url, "vllm")
    assert isinstance(gone.exception, RemoteError)


@pytest.mark.slow
def test_releases_taken_out_are_learnt_again(tmp_path: Path, home: Path) -> None:
    shipped = load_matrix()
    data = tmp_path / "data"
    shutil.copytree(DATA, data)
    text = (data / "vllm.yaml").read_text(encoding="utf-8")
    finals = [row.version for row in shipped.releases("vllm") if not row.prerelease][:3]
    for version in finals:
        text = re.sub(rf"  - version: {version}\n(?:    .*\n|\n)*", "", text)
    (data / "vllm.yaml").write_text(text, encoding="utf-8")
    older = load_matrix(data)
    index = index_of(os.environ, pip_settings())
    updater = Updater(older, index, "2026-11-29")
    found = {one.domain: one for one in updater.run(projects(older), lambda *_: None)}
    assert index.requests <= 25
    assert set(finals) <= set(found["vllm"].new)
    assert not found["vllm"].unread
    learnt = {row.version: row for row in read_learnt(home / "vllm.json").releases}
    for version in finals:
        known = shipped.release("vllm", Version(version))
        assert known is not None
        assert learnt[version].pins.items() >= known.pins.items()
        assert learnt[version].requires_python == known.requires_python
        assert learnt[version].min_glibc == known.min_glibc
