"""Processors as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.intake.cpu_names import full_name


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ("X5675", "Intel(R) Xeon(R) CPU X5675"),
        ("E5-2670", "Intel(R) Xeon(R) CPU E5-2670"),
        ("E5-2670v2", "Intel(R) Xeon(R) CPU E5-2670 v2"),
        ("E52690 V4", "Intel(R) Xeon(R) CPU E5-2690 v4"),
        ("i7-920", "Intel(R) Core(TM) i7-920"),
        ("Intel Core i7 3770", "Intel(R) Core(TM) i7-3770"),
        ("i5 2500k", "Intel(R) Core(TM) i5-2500K"),
        ("Intel(R) Core(TM) i9-14900K", "Intel(R) Core(TM) i9-14900K"),
    ],
)
def test_a_short_name(short: str, full: str) -> None:
    assert full_name(short) == full


@pytest.mark.parametrize(
    "name",
    [
        "AMD EPYC 7543 32-Core Processor",
        "Common KVM processor",
        "",
        "Xeon Gold 6230",
        "Xeon X5675",
        "Apple M2",
    ],
)
def test_what_is_not_short_stays(name: str) -> None:
    assert full_name(name) == name


@given(st.text(max_size=80))
def test_any_text(text: str) -> None:
    assert isinstance(full_name(text), str)
