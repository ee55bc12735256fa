"""Text from outside forges nothing and names nobody, in any format."""

from __future__ import annotations

import json
import re
import unicodedata
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from doctor.report import FORMATS, Fleet, Style, Unreadable, fleet_renderer, renderer
from doctor.report.redact import Redactor
from tests.report.hostile import ATTACKS, CANARIES, TRACES, report_of

ALL = " ".join(ATTACKS)
MANY = [*ATTACKS, ALL]


def _texts(text: str, form: str) -> tuple[str, str]:
    """One host and a fleet."""
    report = report_of(text)
    fleet = Fleet(text, (report, report), (Unreadable(text, text, text),))
    style = Style(verbose=True)
    return renderer(form)(report, style), fleet_renderer(form)(fleet, style)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("attack", MANY, ids=range(len(MANY)))
def test_nothing_acts_on_a_terminal(attack: str, form: str) -> None:
    for text in _texts(attack, form):
        odd = {c for c in text if c != "\n" and unicodedata.category(c) in {"Cc", "Cf", "Cs"}}
        # A character of no width keeps a mention in markdown from being one.
        assert odd <= ({"\u200b"} if form == "markdown" else set())
        text.encode("utf-8")


class _Elements(HTMLParser):
    """Collects elements and attributes, and the texts of scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.scripts: list[str] = []
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag == "a":
            assert str(dict(attrs).get("href")).startswith(("https://", "#"))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1] == "script":
            self.scripts.append(data)


@pytest.mark.parametrize("attack", MANY, ids=range(len(MANY)))
def test_html_has_no_element_of_the_attacker(attack: str) -> None:
    plain = _texts("plain", "html")
    for text, usual in zip(_texts(attack, "html"), plain, strict=True):
        found, expected = _Elements(), _Elements()
        found.feed(text)
        expected.feed(usual)
        assert found.tags.count("script") == 1
        assert set(found.tags) <= set(expected.tags) | {"a"}
        assert not {name for name in found.attributes if name.startswith("on")}
        assert found.scripts == expected.scripts


@pytest.mark.parametrize("attack", MANY, ids=range(len(MANY)))
def test_the_formats_stay_what_they_are(attack: str) -> None:
    for text in _texts(attack, "junit"):
        ElementTree.fromstring(text)  # noqa: S314 - our own
    for form in ("json", "sarif", "baseline"):
        for text in _texts(attack, form):
            json.loads(text)
    for text in _texts(attack, "github"):
        lines = text.splitlines()
        assert all(re.match(r"::(error|warning|notice) (file|title|line)=", x) for x in lines)
        assert not any("forged" in line.split("::")[1].split(" ")[0] for line in lines)
    for text in _texts(attack, "prometheus"):
        assert not re.search(r"^forged", text, re.MULTILINE)


@pytest.mark.parametrize("attack", MANY, ids=range(len(MANY)))
def test_markdown_has_no_markup_of_the_attacker(attack: str) -> None:
    for text in _texts(attack, "markdown"):
        prose = re.sub(r"^(`{3,})sh\n.*?^\1$", "", text, flags=re.DOTALL | re.MULTILINE)
        prose = re.sub(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", "", prose)
        assert not re.search(r"(?<!\\)<(?!/?sub>|!--)", prose)
        assert not re.search(r"(?<!\\)\]\(", prose)
        assert not re.search(r"@\w", prose)
        assert "\n# forged" not in prose
        rows = [line for line in prose.splitlines() if line.startswith("|")]
        widths = {len(re.findall(r"(?<!\\)\|", row)) for row in rows}
        assert widths <= {3, 4, 5}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("kind", CANARIES)
def test_nobody_is_named(kind: str, form: str) -> None:
    redactor = Redactor("/home/alicia", "prod-db-7")
    report = report_of(f"before {CANARIES[kind]} after")
    fleet = redactor.value(Fleet(report.source, (report,), (Unreadable("a", "b", report.source),)))
    style = Style(verbose=True)
    for text in (
        renderer(form)(redactor.report(report), style),
        fleet_renderer(form)(fleet, style),
    ):
        assert not [trace for trace in TRACES if trace in text]
        assert "before" in text or form == "baseline"


def test_what_names_nobody_stays() -> None:
    kept = (
        "driver 535.129.03, cuBLAS 12.8.4.1, cuRAND 10.3.9.90, PCI 0000:3b:00.0, 12:34:56, "
        "127.0.0.1:8000, 0.0.0.0:80, sm_90a, libcudart.so.12, /root/x, serial console"
    )
    assert Redactor("/home/alicia", "prod-db-7").text(kept) == kept


def test_one_name_becomes_one_other_name() -> None:
    redactor = Redactor("/home/alicia", "prod-db-7")
    assert redactor.text("/home/bob/a") == redactor.text("/home/bob/a")
    assert redactor.text("/home/bob/a") != redactor.text("/home/eve/a")


def test_a_redacted_report_is_still_one() -> None:
    report = report_of("on prod-db-7")
    redacted = Redactor("/home/alicia", "prod-db-7").report(report)
    target = redacted.diagnosis.targets[0]
    assert target.primary is target.findings[0]
    assert redacted.facts.devices.at == "on host"
    assert Redactor("/home/alicia", "prod-db-7").report(report_of("plain")) == report_of("plain")
