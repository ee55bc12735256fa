"""Versions as vendors and people write them."""

from __future__ import annotations

import pytest

from doctor.facts import Version
from doctor.probes.stated_version import version


@pytest.mark.parametrize(
    ("text", "release", "local"),
    [
        ("0.11.1.fcbcba6.20251209pai-gpu", "0.11.1", "fcbcba6.20251209pai.gpu"),
        ("545.23.08-open", "545.23.08", "open"),
        ("0.4.6-cu124", "0.4.6", "cu124"),
        ("2.1.0_rocm", "2.1.0", "rocm"),
    ],
)
def test_a_vendors_mark_is_set_off_from_the_release(text: str, release: str, local: str) -> None:
    found = version(text)
    assert found is not None
    assert found.same_as(Version(release))
    assert found.local == local


@pytest.mark.parametrize("text", ["2.0.0-preview-foo", "1.0-nightly-x", "a.b.c", ""])
def test_what_comes_before_a_release_is_no_release(text: str) -> None:
    assert version(text) is None
