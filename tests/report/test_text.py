"""The reports for a terminal: any width, colour only where it is understood, short on demand."""

from __future__ import annotations

import re
from dataclasses import replace
from io import StringIO

import pytest

from doctor.matrix import load_matrix
from doctor.report import Style, renderer
from doctor.report.output import terminal_style
from doctor.report.page import render_pages
from tests.golden.shared import load, names

text = renderer("text")


class _Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("name", names())
def test_only_commands_are_wider_than_the_terminal(name: str, width: int) -> None:
    for line in text(load(name), Style(width=width, verbose=True)).splitlines():
        is_one_word = " " not in line.strip()
        assert len(line) <= width or line.startswith("          $ ") or is_one_word, line


@pytest.mark.parametrize("name", names())
def test_colour_changes_no_word(name: str) -> None:
    plain = text(load(name), Style())
    coloured = text(load(name), Style(colour=True))
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain
    assert "\x1b" not in plain


@pytest.mark.parametrize("name", names())
def test_quiet_is_a_line_a_target(name: str) -> None:
    report = load(name)
    lines = text(report, Style(quiet=True)).splitlines()
    assert len(lines) == max(len(report.diagnosis.targets), 1)


def test_the_last_lines_name_the_cause() -> None:
    end = "\n".join(text(load("several"), Style()).splitlines()[-3:])
    assert "FAIL: driver-too-new-for-old-gpu [DRV111]" in end
    assert "doctor explain DRV111" in end


def test_a_pass_says_what_was_not_known() -> None:
    assert re.search(r"^pass; \d+ rules? lacked a fact", text(load("healthy"), Style()), re.M)


def test_what_sources_say_differently_stands_in_the_long_report() -> None:
    report = load("healthy")
    said = "the number of NPUs is 7 (DCMI) or 8 (npu-smi info): took the first"
    report = replace(report, facts=replace(report.facts, notes=(said,)))
    assert said in " ".join(text(report, Style(verbose=True)).split())
    assert "took the first" not in text(report, Style())


def test_colour_follows_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert not terminal_style(StringIO()).colour
    assert terminal_style(_Terminal()).colour
    monkeypatch.setenv("NO_COLOR", "1")
    assert not terminal_style(_Terminal()).colour
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not terminal_style(_Terminal()).colour


@pytest.mark.parametrize("width", [40, 100])
def test_explain_names_relatives_and_fits(width: int) -> None:
    page = render_pages("DRV101", load_matrix(), Style(width=width))
    assert "Brings along" in page
    assert "ptx-too-new" in page
    assert all(len(line) <= width for line in page.splitlines())
