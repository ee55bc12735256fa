"""Predictions against what engines printed. The figures are promises: see docs/accuracy.md."""

from __future__ import annotations

import pytest

from doctor.sizing.known import model_of
from doctor.sizing.kv import KvPlan, token_bytes
from doctor.sizing.prediction import Fit
from doctor.sizing.weights import rank_weights
from tests.sizing import score
from tests.sizing.measured import half, matrix


@pytest.fixture(scope="module")
def found() -> list[score.Pair]:
    return score.pairs()


def _halves(found: list[score.Pair]) -> list[list[score.Pair]]:
    return [found, *([p for p in found if half(p[0]) == name] for name in "ab")]


def test_weights(found: list[score.Pair]) -> None:
    for chosen in _halves(found):
        errors = score.weights(chosen)
        assert len(errors.by_row) >= 20
        assert errors.median <= 0.005
        assert abs(errors.worst) <= 0.10


def test_weights_of_padded_formats(found: list[score.Pair]) -> None:
    assert abs(score.weights(found, padded=True).worst) <= 0.05


def test_kv_bytes_per_token(found: list[score.Pair]) -> None:
    for chosen in _halves(found):
        errors = score.kv_bytes(chosen)
        assert errors.median <= 0.001
        assert abs(errors.worst) <= 0.02


def test_tokens_of_the_pool(found: list[score.Pair]) -> None:
    for chosen in _halves(found):
        errors = score.kv_tokens(chosen)
        assert len(errors.by_row) >= 6
        assert errors.median <= 0.05


def test_what_one_request_needs(found: list[score.Pair]) -> None:
    assert abs(score.requests(found).worst) <= 0.01


def test_engines_that_allocate_at_start(found: list[score.Pair]) -> None:
    assert abs(score.split_cache(found).worst) <= 0.001
    assert abs(score.split_files(found).worst) <= 0.005
    assert score.split_scratch(found).median <= 0.05


def test_no_false_promise(found: list[score.Pair]) -> None:
    table = score.verdict_table(found)
    started, failed = (sum(counts[n] for counts in table.values()) for n in (0, 1))
    assert started >= 20
    assert failed >= 6
    assert table[Fit.FITS][1] == 0
    assert table[Fit.DOES_NOT][0] == 0
    assert sum(table[Fit.UNCERTAIN]) <= 0.25 * (started + failed)


def test_engines_that_failed_for_want_of_memory_are_never_said_to_fit(
    found: list[score.Pair],
) -> None:
    """With defaults for what a row does not state."""
    wrong = [
        row["id"]
        for row, guess in found
        if row.get("starts") is False and guess.verdict is Fit.FITS
    ]
    assert wrong == []


def test_published_files_are_as_large_as_the_widths_say() -> None:
    """Sizes of repositories on the hub: nothing of them was used to make the formulas."""
    errors = []
    for row in matrix().models:
        model = model_of(matrix(), row)
        # Some repositories hold their weights twice, or vision parts and draft layers as well.
        if model.published is None or model.is_multimodal or model.quantization or model.unclear:
            continue
        if row.vocab is None or row.layers is None:
            continue
        held = rank_weights(model, matrix().memory, None)
        size = held.bytes - held.by_kind.get("rotary", 0)
        errors.append(abs(size / model.published - 1))
    assert len(errors) >= 12
    assert max(errors) < 0.002


def test_kv_of_every_model_is_what_its_row_says() -> None:
    form = next(row for row in matrix().memory.kv_formats if "auto" in row.aliases)
    checked = 0
    for row in matrix().models:
        model = model_of(matrix(), row)
        sparse = model.latent is not None and model.latent.index_dim
        # A row without vocabulary takes its widths from another of the same model.
        if row.kv_bytes_per_token and row.vocab and model.kv_heads and not sparse:
            checked += 1
            assert token_bytes(model, KvPlan(form)) == row.kv_bytes_per_token, row.repo
    assert checked > 120
