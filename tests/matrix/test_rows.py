"""Checks that run on every row of the shipped matrix."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from doctor.facts import Version
from doctor.matrix import Matrix, load_matrix
from doctor.matrix.domains import IDENTITY
from doctor.matrix.load import DATA
from doctor.matrix.model import Row
from doctor.matrix.verify import verify

DOMAINS = sorted(path.stem for path in DATA.glob("*.yaml"))
# Longest name: words that only the place where the rows were gathered would use.
FOREIGN = ("/home/", "index id", "file id", "this machine")


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load_matrix()


def _rows(domain: Any) -> Iterator[Row]:
    for field in domain.__struct_fields__:
        if field in IDENTITY:
            yield from getattr(domain, field)


def test_no_row_has_a_fault(matrix: Matrix) -> None:
    assert verify(matrix) == ()


@pytest.mark.parametrize("name", DOMAINS)
def test_no_source_speaks_of_where_it_was_gathered(name: str) -> None:
    text = (DATA / f"{name}.yaml").read_text()
    assert not [word for word in FOREIGN if word in text]


@pytest.mark.parametrize("name", [d for d in DOMAINS if d != "causes"])
def test_every_row_says_where_it_comes_from(name: str, matrix: Matrix) -> None:
    for row in _rows(matrix.domain(name)):
        assert all(source.strip() for source in row.source)
        assert row.source


def test_a_version_newer_than_the_matrix_has_no_row(matrix: Matrix) -> None:
    future = Version("99.0")
    for name in matrix.engine_names:
        assert matrix.release(name, future) is None
        assert matrix.variants(name, future) == ()
    assert matrix.toolkit(future) is None
    assert matrix.compiler(future) is None
    assert matrix.family(future) is None
    assert matrix.ptx_ceiling(future) is None
    assert matrix.branch(Version("9900.10")) is None


def test_what_holds_for_open_ranges_is_marked_as_extrapolated(matrix: Matrix) -> None:
    future = Version("99.0")
    for name in matrix.engine_names:
        domain = matrix.engine(name)
        assert domain is not None
        for kind in {claim.kind for claim in domain.claims}:
            for match in matrix.claims(name, kind, future):
                assert match.extrapolated == match.claim.verified_to


def test_numbers_that_look_like_floats_survive(matrix: Matrix) -> None:
    assert matrix.toolkit(Version("10.0")) is not matrix.toolkit(Version("10.1"))
    newest = matrix.release("vllm", Version("0.10.0"))
    assert newest is not None
    assert newest.version == "0.10.0"
    torch = matrix.release("torch", Version("2.10.0"))
    assert torch is not None
    assert torch.version == "2.10.0"


def test_the_newest_release_is_final_and_known(matrix: Matrix) -> None:
    for name in matrix.engine_names:
        newest = matrix.newest(name)
        if newest is not None:
            assert matrix.release(name, newest) is not None
