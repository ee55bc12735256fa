"""Every format of the stored diagnoses, to the letter."""

from __future__ import annotations

import pytest

from tests.golden.shared import FOLDER, names
from tests.golden.write import rendered

FILES = FOLDER / "files"


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    return rendered()


def test_every_format_has_its_file(texts: dict[str, str]) -> None:
    assert set(texts) == {path.name for path in FILES.iterdir()}
    assert len(names()) >= 7


@pytest.mark.parametrize("path", sorted(FILES.iterdir()), ids=lambda p: p.name)
def test_a_report_is_as_it_was(path: object, texts: dict[str, str]) -> None:
    name = getattr(path, "name", "")
    wanted = (FILES / name).read_text(encoding="utf-8")
    assert texts[name] == wanted, "if this is meant: python -m tests.golden.write"
