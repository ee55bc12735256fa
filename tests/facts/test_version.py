"""Versions order as PEP 440 says (packaging is the oracle) and know what they do not know."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet
from packaging.version import Version as Oracle

from doctor.facts import ComputeCapability, Specifier, Version

numbers = st.integers(0, 120).map(str)
releases = st.lists(numbers, min_size=1, max_size=4).map(".".join)
pres = st.sampled_from(["", "a1", "b2", "rc1", "rc2", ".dev0", "rc1.dev3", ".post1", ".post2.dev1"])
locals_ = st.sampled_from(["", "+cu128", "+cpu", "+cu13.0"])
versions = st.tuples(releases, pres, locals_).map("".join)
ops = st.sampled_from(["==", "!=", "<", "<=", ">", ">=", "~="])


@given(versions, versions)
def test_orders_as_the_oracle(left: str, right: str) -> None:
    mine = Version(left).older_than(Version(right))
    assert mine == (Oracle(Oracle(left).public) < Oracle(Oracle(right).public))


@given(ops, releases, versions)
def test_specifiers_admit_as_the_oracle(op: str, bound: str, version: str) -> None:
    if op == "~=" and "." not in bound:
        bound += ".0"
    oracle = SpecifierSet(op + bound).contains(Oracle(version), prereleases=True)
    parsed = Specifier.parse(op + bound)
    assert parsed is not None
    assert parsed.admits(Version(version)) == oracle


@given(ops.filter(lambda op: op in {"==", "!="}), releases, versions)
def test_prefix_specifiers_admit_as_the_oracle(op: str, bound: str, version: str) -> None:
    oracle = SpecifierSet(f"{op}{bound}.*").contains(Oracle(version), prereleases=True)
    parsed = Specifier.parse(f"{op}{bound}.*")
    assert parsed is not None
    assert parsed.admits(Version(version)) == oracle


@given(releases, versions)
def test_a_prefix_answers_only_what_all_its_members_agree_on(prefix: str, other: str) -> None:
    answer = Version(f"{prefix}.*").older_than(Version(other))
    members = [Version(f"{prefix}.0"), Version(f"{prefix}.999999")]
    seen = {member.older_than(Version(other)) for member in members}
    if answer is not None:
        assert seen == {answer}


@given(st.text(max_size=60))
def test_any_text_is_a_version_or_a_value_error(text: str) -> None:
    version = Version.maybe(text)
    assert version is None or Version(str(version)) == version
    Specifier.parse(text)


@pytest.mark.parametrize(
    ("mine", "other", "older"),
    [
        ("550.*", "525.60.13", False),
        ("550.*", "550.54.14", None),
        ("550.*", "560", True),
        (">=0.8,<0.9", "0.9.0", True),
        (">=0.8,<0.9", "0.8.3", None),
        ("b7474", "b7500", True),
        ("b7474", "0.4.0", None),
        ("12.4", "12.10", True),
        ("9.0", "10.0", True),
    ],
)
def test_known_within_bounds(mine: str, other: str, older: bool | None) -> None:
    assert Version(mine).older_than(Version(other)) is older


def test_parts() -> None:
    driver = Version("580.95.05")
    assert (driver.major, driver.minor, driver.release) == (580, 95, (580, 95, 5))
    assert Version("2.8.0+cu128").local == "cu128"
    assert Version("2.8.0+cu128").public == "2.8.0"
    assert Version("0.20.0rc1").is_prerelease


def test_a_pin_is_open_for_a_prefix() -> None:
    pin = Specifier.parse("==2.8.0")
    assert pin is not None
    assert pin.admits(Version("2.8.*")) is None
    assert pin.admits(Version("2.9.*")) is False


def test_compute_capabilities_are_numbers() -> None:
    assert ComputeCapability.parse("9.0") < ComputeCapability.parse("10.0")
    with pytest.raises(ValueError, match="not a compute capability"):
        ComputeCapability.parse("8,9")
