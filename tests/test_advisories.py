"""The advisory check of doctor's own dependencies: what was not checked is no pass."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest

from tests.smoke.making import script
from tests.web import Asked, Given, Site

ROOT = Path(__file__).parent.parent
NOBODY = "http://127.0.0.1:9/v1/querybatch"


@pytest.fixture(scope="module")
def check() -> ModuleType:
    return script("advisories")


def _answered(*vulnerable: str) -> Site:
    def answer(asked: Asked) -> Given:
        names = [query["package"]["name"] for query in json.loads(asked.body)["queries"]]
        rows = [{"vulns": [{"id": "GHSA-1"}]} if name in vulnerable else {} for name in names]
        return Given(body=json.dumps({"results": rows}).encode())

    return Site(answer)


@pytest.mark.real
def test_every_dependency_is_asked_for(
    check: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with _answered() as site:
        assert check.main(["--url", site.url, "--sbom", str(tmp_path / "own.json")]) == check.NONE
    asked = {query["package"]["name"] for query in json.loads(site.seen[0].body)["queries"]}
    assert {"llm-doctor", "click", "msgspec", "pyyaml", "ansible-core", "aiohttp"} <= asked
    listed = json.loads((tmp_path / "own.json").read_text())
    assert listed["metadata"]["component"]["type"] == "application"
    assert {part["name"] for part in listed["components"]} == asked
    assert "0 with advisories" in capsys.readouterr().out


@pytest.mark.real
def test_one_with_an_advisory_is_named(
    check: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    with _answered("click") as site:
        assert check.main(["--url", site.url]) == check.FOUND
    assert "GHSA-1" in capsys.readouterr().out


@pytest.mark.real
@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b"[]", b"{}", b'{"results": []}', b'{"results": [{"vulns": 1}]}', b"[" * 9999],
)
def test_an_answer_that_is_none_is_no_pass(
    check: ModuleType, body: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    with Site(lambda _: Given(body=body)) as site:
        assert check.main(["--url", site.url]) == check.NOT_CHECKED
    with Site(lambda _: Given(status=503, body=body)) as site:
        assert check.main(["--url", site.url]) == check.NOT_CHECKED
    assert "not checked" in capsys.readouterr().err


@pytest.mark.real
def test_where_nobody_answers_it_is_no_pass(check: ModuleType) -> None:
    assert check.main(["--url", NOBODY]) == check.NOT_CHECKED


def _index(check: ModuleType, newest_only: bool, vulnerable: str = "", stale: str = "") -> Site:
    """An index's JSON pages of what is installed here; `stale` has only a newer release there."""
    versions = {part.name: part.version for part in check.closure()}

    def answer(asked: Asked) -> Given:
        name, *release = asked.path.split("/")[2:-1]
        if release and (newest_only or name == stale):
            return Given(status=404)
        rows: list[dict[str, object]] = [{"id": "GHSA-2", "withdrawn": "2026-01-01T00:00:00Z"}]
        if name == vulnerable:
            rows.append({"id": "PYSEC-1", "withdrawn": None})
        version = "999" if name == stale else versions[name]
        page = {"info": {"version": version}, "vulnerabilities": rows}
        return Given(body=json.dumps(page).encode())

    return Site(answer)


@pytest.mark.real
@pytest.mark.parametrize("newest_only", [False, True])
def test_an_index_answers_too(
    check: ModuleType, newest_only: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with _index(check, newest_only) as site:
        assert check.main(["--index", site.url + "/"]) == check.NONE
    with _index(check, newest_only, vulnerable="click") as site:
        assert check.main(["--index", site.url]) == check.FOUND
    out = capsys.readouterr().out
    assert "PYSEC-1" in out
    assert "GHSA-2" not in out, "withdrawn"


@pytest.mark.real
def test_what_an_index_has_no_page_for_is_no_pass(
    check: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    with _index(check, newest_only=False, stale="click") as site:
        assert check.main(["--index", site.url]) == check.NOT_CHECKED
    assert "not checked: click" in capsys.readouterr().err
    assert check.main(["--index", "http://127.0.0.1:9"]) == check.NOT_CHECKED


@pytest.mark.real
@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"info": 1}', b"[" * 9999])
def test_a_page_that_is_none_is_no_pass(check: ModuleType, body: bytes) -> None:
    with Site(lambda _: Given(body=body)) as site:
        assert check.main(["--index", site.url]) == check.NOT_CHECKED


def test_ci_does_not_take_it_for_granted() -> None:
    for recipe in (".ci/run", "dev"):
        assert "|| true" not in "".join(
            line for line in (ROOT / recipe).read_text().splitlines() if "advisories" in line
        )
