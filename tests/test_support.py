"""docs/support.md is what the matrix says today, and each proof is a test that is there."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("support", ROOT / "scripts/make_support.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_current(script: ModuleType) -> None:
    again = "python scripts/make_support.py"
    assert (ROOT / "docs/support.md").read_text() == script.page(), again


def test_what_is_proven_is_run_by_a_test(script: ModuleType) -> None:
    for row in script.DATA["proven"]:
        assert (ROOT / row["test"]).exists()
        assert row["engine"] in script.DATA["engines"]
        assert row["vendor"] in script.DATA["vendors"]
