"""How far predictions are from what engines printed: `python -m tests.sizing.score [FILE]`.

Half "a" of the rows was in view when constants were tuned, half "b" was not.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from doctor.sizing.cards import GIB
from doctor.sizing.prediction import Fit, Prediction
from tests.sizing.measured import ROWS, Measured, half, is_padded, is_text, predicted, rows

Pair = tuple[Measured, Prediction]
_LEAST_POOL_GIB = 0.5
_LEAST_TOKENS = 1000
_MIB = 1 << 20


@dataclass(frozen=True)
class Errors:
    """Relative errors of one quantity by row."""

    name: str
    by_row: dict[str, float]

    @property
    def median(self) -> float:
        return statistics.median(map(abs, self.by_row.values())) if self.by_row else 0.0

    @property
    def worst(self) -> float:
        return max(self.by_row.values(), key=abs, default=0.0)

    def line(self) -> str:
        within = [abs(e) <= 0.1 for e in self.by_row.values()]
        share = sum(within) / len(within) if within else 0.0
        return (
            f"{self.name:<44} {len(self.by_row):>3}  {self.median:>8.2%}  {share:>6.0%}  "
            f"{self.worst:>+8.1%}"
        )


def pairs(path: Path = ROWS) -> list[Pair]:
    """Rows whose model is known, each with its prediction."""
    found = ((row, predicted(row)) for row in rows(path))
    return [(row, guess) for row, guess in found if guess is not None]


def weights(found: list[Pair], padded: bool = False) -> Errors:
    return _errors("weights, MXFP4" if padded else "weights", found, _weights, padded)


def kv_bytes(found: list[Pair]) -> Errors:
    return _errors("KV bytes per token", found, _token)


def kv_tokens(found: list[Pair], text_on_one: bool = True) -> Errors:
    chosen = [p for p in found if (_is_text_on_one(p) or not text_on_one)]
    name = "KV tokens, text on one device" if text_on_one else "KV tokens, all"
    return _errors(name, chosen, _tokens)


def requests(found: list[Pair]) -> Errors:
    return _errors("KV of one request", found, _request)


def split_cache(found: list[Pair]) -> Errors:
    return _errors("llama.cpp: KV cache", found, _split_cache)


def split_files(found: list[Pair]) -> Errors:
    return _errors("llama.cpp: file", found, _split_file)


def split_scratch(found: list[Pair]) -> Errors:
    return _errors("llama.cpp: compute buffer", found, _split_scratch)


def _errors(
    name: str,
    found: list[Pair],
    quantity: Callable[[Measured, Prediction], tuple[float, float] | None],
    padded: bool | None = None,
) -> Errors:
    by_row = {}
    for row, guess in found:
        if padded is not None and is_padded(row) is not padded:
            continue
        both = quantity(row, guess)
        if both is not None:
            by_row[row["id"]] = (both[0] - both[1]) / both[1]
    return Errors(name, by_row)


def _is_text_on_one(pair: Pair) -> bool:
    row, _ = pair
    return row.get("tp", 1) * row.get("pp", 1) == 1 and is_text(row) and not is_padded(row)


def _weights(row: Measured, guess: Prediction) -> tuple[float, float] | None:
    if row["engine"] == "llama.cpp" or row.get("no_weights_test") or not row.get("quant"):
        return None
    printed = row.get("weights_gib")
    if not printed or guess.weights is None or guess.weights.how.endswith("parameters"):
        return None
    return guess.weights.bytes / GIB, printed


def _token(row: Measured, guess: Prediction) -> tuple[float, float] | None:
    pool, tokens = row.get("kv_gib"), row.get("kv_tokens")
    if not pool or not tokens or pool < _LEAST_POOL_GIB or row.get("hybrid_pool"):
        return None
    return None if guess.token is None else (guess.token, pool * GIB / tokens)


def _has_settings(row: Measured) -> bool:
    stated = row.get("gpu_total_gib") and row.get("gpu_memory_utilization")
    barred = row.get("no_activation_test") or row.get("no_kv_test")
    return bool(stated) and row["engine"] == "vllm" and not barred


def _tokens(row: Measured, guess: Prediction) -> tuple[float, float] | None:
    printed = row.get("kv_tokens")
    if not _has_settings(row) or row.get("hybrid_pool") or (printed or 0) < _LEAST_TOKENS:
        return None
    return None if guess.tokens is None or not printed else (guess.tokens, printed)


def _request(row: Measured, guess: Prediction) -> tuple[float, float] | None:
    printed = row.get("needed_gib")
    return (guess.request / GIB, printed) if printed and guess.request else None


def _split_cache(row: Measured, guess: Prediction) -> tuple[float, float] | None:
    printed, same = row.get("kv_mib"), row.get("type_k") == row.get("type_v")
    if guess.offload is None or not printed or not same or row.get("hybrid_pool"):
        return None
    return guess.offload.cache / _MIB, printed


def _split_file(row: Measured, guess: Prediction) -> tuple[float, float] | None:
    printed = row.get("file_gib")
    if guess.offload is None or not printed:
        return None
    held = guess.offload.weights
    return (held.bytes - held.by_kind.get("rotary", 0)) / GIB, printed


def _split_scratch(row: Measured, guess: Prediction) -> tuple[float, float] | None:
    printed = row.get("compute_mib_gpu")
    stated = row.get("n_ubatch") and row.get("flash_attn") is not None
    if guess.offload is None or not printed or not stated:
        return None
    alone = row.get("fully_offloaded") and not row.get("multi_gpu")
    return (guess.offload.scratch / _MIB, printed) if alone else None


def verdicts(found: list[Pair]) -> Iterator[tuple[Measured, Prediction]]:
    """Rows that say whether the engine started, with settings enough to judge."""
    for row, guess in found:
        known = row.get("starts") is not None and row.get("max_model_len")
        if known and _has_settings(row) and guess.weights is not None:
            yield row, guess


def verdict_table(found: list[Pair]) -> dict[Fit, list[int]]:
    """For each verdict, how many started and how many did not."""
    table = {fit: [0, 0] for fit in Fit}
    for row, guess in verdicts(found):
        table[guess.verdict][0 if row["starts"] else 1] += 1
    return table


def table(found: list[Pair]) -> list[str]:
    """The lines of docs/accuracy.md."""
    lines = [f"{'quantity':<44} {'n':>3}  {'median':>8}  {'<=10%':>6}  {'worst':>8}"]
    for name, chosen in (
        ("all rows", found),
        ("half a (tuned on)", [p for p in found if half(p[0]) == "a"]),
        ("half b (not seen)", [p for p in found if half(p[0]) == "b"]),
    ):
        lines += ["", name, *_lines(chosen)]
    return lines


def _lines(found: list[Pair]) -> Iterator[str]:
    yield weights(found).line()
    yield weights(found, padded=True).line()
    yield kv_bytes(found).line()
    yield kv_tokens(found).line()
    yield kv_tokens(found, text_on_one=False).line()
    yield requests(found).line()
    yield split_cache(found).line()
    yield split_files(found).line()
    yield split_scratch(found).line()
    for fit, (started, failed) in verdict_table(found).items():
        yield f"verdict {fit.value:<36} {started + failed:>3}  started {started}, did not {failed}"


if __name__ == "__main__":
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    print("\n".join(table(pairs(source))))
