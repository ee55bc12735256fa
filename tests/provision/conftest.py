"""One download of the engine for all tests of a session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.provision.sandbox import Sandbox, fetch_engine


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The engine's files with their lock."""
    pytest.importorskip("ansible_runner")
    pytest.importorskip("uv")
    folder = tmp_path_factory.mktemp("engine") / "wheels"
    fetch_engine(folder)
    return folder


@pytest.fixture
def box(tmp_path: Path, wheels: Path) -> Iterator[Sandbox]:
    """A user with an empty home."""
    found = Sandbox(tmp_path, wheels)
    yield found
    found.end()
