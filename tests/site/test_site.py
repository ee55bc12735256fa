"""The documentation site builds strictly, and holds what the rules and the matrix hold."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from doctor.matrix import load_matrix
from doctor.rules.registry import RULES

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.slow
def test_the_site_builds_without_a_broken_link(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    command = [sys.executable, str(ROOT / "scripts/make_site.py"), str(tmp_path)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    matrix, html = load_matrix(), tmp_path / "html"
    pages = {path.stem for path in (html / "causes").glob("*.html")}
    assert pages == {*matrix.causes, "index"}
    text = "".join(path.read_text() for path in (html / "causes").glob("*.html"))
    assert all(rule.code in text for rule in RULES)
    newest = matrix.newest("vllm")
    assert f"<td>{newest}</td>" in (html / "engines/vllm.html").read_text()
    for page in html.rglob("*.html"):
        sources = re.findall(
            r'<(?:script|link|img)[^>]+(?:src|href)="(https?:[^"]+)"', page.read_text()
        )
        assert not [url for url in sources if "canonical" not in url], page.name
    index = tmp_path / "pages/index.md"
    index.write_text(index.read_text() + "\n[gone](causes/no-such-cause.md)\n")
    again = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    assert subprocess.run(again, cwd=tmp_path, capture_output=True, check=False).returncode != 0
