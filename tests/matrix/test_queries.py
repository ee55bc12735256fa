"""Queries on the shipped matrix: CUDA, drivers, releases, claims."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.facts import ComputeCapability, Version
from doctor.matrix import capability_matches, load_matrix

MATRIX = load_matrix()
MINORS = sorted({row.cuda for row in MATRIX.cuda.compilers}, key=lambda t: Version(t).release)


@pytest.mark.parametrize(
    ("cuda", "isa"), [("11.8", (7, 8)), ("12.6", (8, 5)), ("12.7", (8, 6)), ("13.0.2", (9, 0))]
)
def test_the_ptx_ceiling_of_a_cuda_version(cuda: str, isa: tuple[int, int]) -> None:
    assert MATRIX.ptx_ceiling(Version(cuda)) == isa


@given(st.sampled_from(MINORS))
def test_ptx_of_a_toolkit_loads_from_that_toolkit_on(cuda: str) -> None:
    isa = MATRIX.ptx_ceiling(Version(cuda))
    assert isa is not None
    oldest = MATRIX.cuda_of_isa(isa)
    assert oldest is not None
    assert Version(cuda).at_least(oldest)


def test_the_ptx_ceiling_never_falls() -> None:
    ceilings = [MATRIX.ptx_ceiling(Version(cuda)) for cuda in MINORS]
    assert ceilings == sorted(c for c in ceilings if c)


def test_no_cuda_compiles_ptx_of_the_future() -> None:
    assert MATRIX.cuda_of_isa((99, 0)) is None


@pytest.mark.parametrize(
    ("cuda", "floor"), [("12.8", "570.26"), ("12.8.1", "570.124.06"), ("13.0", "580.65.06")]
)
def test_the_driver_of_a_toolkit(cuda: str, floor: str) -> None:
    toolkit = MATRIX.toolkit(Version(cuda))
    assert toolkit is not None
    assert toolkit.min_driver == floor


@pytest.mark.parametrize(
    ("cuda", "floor"), [("11.8", "450.80.02"), ("12.1", "525.60.13"), ("13.4", "580")]
)
def test_the_floor_of_minor_version_compatibility(cuda: str, floor: str) -> None:
    family = MATRIX.family(Version(cuda))
    assert family is not None
    assert family.min_driver == floor


def test_there_is_no_minor_version_compatibility_before_cuda_11() -> None:
    assert MATRIX.family(Version("10.2")) is None


@pytest.mark.parametrize(("driver", "cuda"), [("580.95.05", "13.0"), ("535.*", "12.2")])
def test_the_cuda_of_a_driver(driver: str, cuda: str) -> None:
    assert str(MATRIX.driver_cuda(Version(driver))) == cuda


def test_image_requirements_know_brands_and_branches() -> None:
    row = MATRIX.image_requirement(Version("13.0.3"))
    assert row is not None
    assert 535 in row.branches
    assert "tesla" in row.brands
    assert "geforce" not in row.brands


def test_tegra_parts_are_known() -> None:
    assert ComputeCapability(8, 7) in MATRIX.tegra
    assert ComputeCapability(8, 6) not in MATRIX.tegra


def test_a_local_label_does_not_hide_a_release() -> None:
    row = MATRIX.release("torch", Version("2.8.0+cu128"))
    assert row is not None
    assert row.cuda == "12.8"


def test_variants_by_architecture() -> None:
    wheels = MATRIX.variants("torch", Version("2.9.1"), "aarch64")
    assert {v.name for v in wheels if v.default} == {"cpu"}
    wheels = MATRIX.variants("torch", Version("2.9.1"), "x86_64")
    assert {v.name for v in wheels if v.default} == {"cu128"}


def test_claims_by_range_and_key() -> None:
    def values(version: str, key: str) -> set[str]:
        return {m.claim.value for m in MATRIX.claims("vllm", "quantization", Version(version), key)}

    assert "removed" in values("0.24.0", "gguf")
    assert "removed" not in values("0.23.0", "gguf")


def test_a_claim_beyond_what_was_verified_says_so() -> None:
    found = list(MATRIX.claims("vllm", "min-capability", Version("99.0")))
    assert found
    assert all(match.extrapolated for match in found)


def test_an_unknown_version_meets_all_ranges() -> None:
    every = list(MATRIX.claims("vllm", "cuda"))
    assert len(every) > len(list(MATRIX.claims("vllm", "cuda", Version("0.9.0"))))


def test_an_engine_that_is_not_in_the_matrix() -> None:
    assert MATRIX.engine("no-such-engine") is None
    assert MATRIX.release("no-such-engine", Version("1.0")) is None
    assert list(MATRIX.claims("no-such-engine", "cuda")) == []


@pytest.mark.parametrize(
    ("spec", "card", "answer"),
    [
        (">=8.0,<9.0", "8.9", True),
        (">=8.0,<9.0", "9.0", False),
        (">=8.0", "10.0", True),
        ("<9.0", "10.0", False),
        ("9.0|10.0", "10.0", True),
        ("9.0|10.0", "10.3", False),
    ],
)
def test_conditions_on_the_capability(spec: str, card: str, answer: bool) -> None:
    assert capability_matches(spec, ComputeCapability.parse(card)) is answer
