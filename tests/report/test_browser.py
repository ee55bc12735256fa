"""The pages in a real browser: quiet, alone, usable by everybody, at any width."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from doctor.report import Fleet, Style, fleet_renderer, renderer
from tests.browser import chromium
from tests.golden.shared import fleet, load
from tests.report.hostile import ATTACKS, report_of

pytestmark = pytest.mark.slow
TWO = [("light", 1280), ("dark", 360)]
FOUR = [*TWO, ("light", 360), ("dark", 1280)]


def _pages() -> dict[str, str]:
    """The pages that are looked at: healthy, broken, undecided, attacked; a fleet."""
    one, many = renderer("html"), fleet_renderer("html")
    attacked = report_of(" ".join(ATTACKS))
    shown = {n: one(load(n), Style()) for n in ("healthy", "broken", "several", "gated", "log",
                                                  "nothing", "undecided")}  # fmt: skip
    shown["attacked"] = one(attacked, Style())
    shown["fleet"] = many(fleet(), Style())
    shown["attacked-fleet"] = many(Fleet("x", (attacked,)), Style())
    return shown


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("pages")
    for name, text in _pages().items():
        (top / f"{name}.html").write_text(text, encoding="utf-8")
    return top


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as running:
        yield running


def _axe() -> str:
    spec = find_spec("axe_playwright_python")
    assert spec is not None
    assert spec.origin is not None
    return (Path(spec.origin).parent / "axe.min.js").read_text(encoding="utf-8")


class _View:
    """One page opened; takes note of what it asks for and what it complains of."""

    def __init__(self, browser: Any, path: Path, scheme: str = "light", width: int = 1280) -> None:
        size = {"width": width, "height": 900}
        self.context = browser.new_context(color_scheme=scheme, viewport=size)
        self.page = self.context.new_page()
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(dialog.message))
        self.page.goto(path.as_uri())

    def __enter__(self) -> _View:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()


@pytest.mark.parametrize("name", list(_pages()))
def test_a_page_is_quiet_alone_and_usable(name: str, folder: Path, browser: Any) -> None:
    path = folder / f"{name}.html"
    for scheme, width in FOUR if name in ("broken", "fleet") else TWO:
        with _View(browser, path, scheme, width) as view:
            assert [r for r in view.requests if not r.startswith("data:")] == [path.as_uri()]
            assert view.page.evaluate("document.documentElement.scrollWidth") <= width
            for summary in view.page.locator("summary").all():
                if summary.is_visible():
                    summary.click()
            assert view.page.evaluate("document.documentElement.scrollWidth") <= width
            assert not view.complaints
            view.page.evaluate(_axe())
            found = view.page.evaluate("axe.run()")["violations"]
            assert not [(v["id"], v["nodes"][0]["html"]) for v in found]


def test_a_page_is_read_without_its_script(folder: Path, browser: Any) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((folder / "fleet.html").as_uri())
    assert page.locator("tbody tr").first.is_visible()
    assert not page.locator(".filters").is_visible()
    page.goto((folder / "broken.html").as_uri())
    assert page.locator(".command button").count() == 0
    assert page.locator("h3").first.inner_text() == "Driver too old"
    context.close()


def test_commands_are_copied(folder: Path, browser: Any) -> None:
    with _View(browser, folder / "broken.html") as view:
        view.context.grant_permissions(["clipboard-read", "clipboard-write"])
        view.page.locator(".command button").last.click()
        view.page.locator("button", has_text="Copied").wait_for()
        copied = view.page.evaluate("navigator.clipboard.readText()")
        assert copied.splitlines()[-1] == "sudo reboot"
        assert "$ " not in copied


def _shows(page: Any, count: str) -> None:
    page.locator("#shown", has_text=count).wait_for()


def test_hosts_are_filtered(folder: Path, browser: Any) -> None:
    with _View(browser, folder / "fleet.html") as view:
        page = view.page
        page.fill("#words", "535.129")
        _shows(page, "2 of")
        page.fill("#words", "driver=595")
        _shows(page, "1 of")
        page.fill("#words", "")
        page.select_option("#rung", label="device")
        _shows(page, "1 of")
        page.locator(".spread button").first.focus()
        page.keyboard.press("Enter")
        assert "=" in page.input_value("#words")


def test_the_keyboard_reaches_the_report(folder: Path, browser: Any) -> None:
    with _View(browser, folder / "broken.html") as view:
        view.page.keyboard.press("Tab")
        assert view.page.evaluate("document.activeElement.className") == "skip"
        view.page.keyboard.press("Enter")
        assert view.page.evaluate("document.activeElement.id") == "main"


def test_a_page_is_small(folder: Path) -> None:
    assert all(path.stat().st_size <= 300_000 for path in folder.iterdir())
    # Thirty environments with the same forty faults.
    report = load("broken")
    target = report.diagnosis.targets[0]
    findings = tuple(replace(target.findings[0], message=f"fault {n}") for n in range(40))
    many = (replace(target, findings=findings, primary=findings[0]),) * 30
    crowded = replace(report, diagnosis=replace(report.diagnosis, targets=many))
    assert len(renderer("html")(crowded, Style())) <= 300_000


def test_printed_it_is_whole(folder: Path, browser: Any) -> None:
    with _View(browser, folder / "broken.html") as view:
        assert view.page.pdf(format="A4").startswith(b"%PDF")
        assert view.page.evaluate("document.querySelectorAll('details:not([open])').length") == 0
