"""A real Chromium for tests: the distribution's, installed if that is possible, else skipped."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_PACKAGES = ("chromium", "fonts-dejavu-core")


@contextmanager
def chromium() -> Iterator[Any]:
    """A headless browser by playwright's interface; no browser is downloaded."""
    from playwright.sync_api import sync_playwright

    path = _found() or _installed()
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=arguments)
        yield browser
        browser.close()


def _found() -> str:
    return next((path for name in _NAMES if (path := shutil.which(name))), "")


def _installed() -> str:
    if os.geteuid() or not shutil.which("apt-get"):
        pytest.skip(f"no Chromium; run: sudo apt-get install {' '.join(_PACKAGES)}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "-y", "--no-install-recommends", *_PACKAGES]):
        subprocess.run(["apt-get", "-qq", *command], env=environment, check=True)
    return _found()
