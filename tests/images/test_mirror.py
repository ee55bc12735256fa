"""Where Debian's packages come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from doctor.errors import UsageError
from doctor.images.mirror import VARIABLE, debian_mirror


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("sources.list", "# deb http://old/debian x\ndeb http://a.example/debian x main\n",
         "http://a.example/debian"),
        ("sources.list", "deb [signed-by=/k] https://b.example/debian/ trixie main\n",
         "https://b.example/debian"),
        ("sources.list.d/debian.sources", "Types: deb\nURIs: http://c.example/debian\nSuites: x\n",
         "http://c.example/debian"),
        ("sources.list", "deb http://d.example/ubuntu noble main\n", ""),
        ("sources.list", "deb http://d.example/debian-security x main\n", ""),
    ],
)  # fmt: skip
def test_the_mirror_of_this_machine(
    name: str, text: str, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / name).write_text(text)
    if found:
        assert debian_mirror(tmp_path) == found
        return
    with pytest.raises(UsageError) as refused:
        debian_mirror(tmp_path)
    assert VARIABLE in refused.value.hint


def test_the_mirror_that_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "http://e.example/debian/")
    assert debian_mirror(tmp_path) == "http://e.example/debian"
