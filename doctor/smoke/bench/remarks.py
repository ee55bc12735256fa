"""What a reader must know to trust the figures. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from doctor.smoke.bench.figures import Level
from doctor.smoke.bench.lengths import Lengths
from doctor.smoke.bench.terms import Terms

# Below these this program's own lateness does not matter.
_LAG_S, _LAG_SHARE, _CPU = 0.005, 0.2, 0.9
_LATE_S, _LATE_SHARE = 0.02, 0.1
_CACHED, _OTHERS, _FEW = 0.1, 0.02, 20


def remarks(asked: Lengths, terms: Terms, levels: Sequence[Level]) -> tuple[str, ...]:
    """Notes on the whole test and on single loads."""
    found = list(_on_terms(asked, terms))
    for level in levels:
        found += [f"{level.load}: {text}" for text in _on_level(level)]
    return tuple(found)


def _on_terms(asked: Lengths, terms: Terms) -> Iterator[str]:
    if terms.context is not None:
        cut = sum(1 for pair in asked.pairs if sum(pair) > terms.context)
        share = cut / len(asked.pairs)
        yield (
            f"the server takes no more than about {terms.context} tokens: "
            f"{share:.0%} of the requests were cut to that"
        )
    if not terms.forced:
        yield "answers end where the model ends them: this server does not force their length"


def _on_level(level: Level) -> Iterator[str]:
    yield from _on_trust(level)
    yield from _on_engine(level)
    if level.unfinished:
        yield f"{level.unfinished} requests were still under way at the end and do not count"
    if 0 < level.succeeded < _FEW:
        yield f"{level.succeeded} requests are few: high percentiles are single values"


def _on_trust(level: Level) -> Iterator[str]:
    own, tpot = level.own, level.tpot
    if own is None:
        return
    if level.late > _LATE_S and level.ttft and level.late > _LATE_SHARE * level.ttft.p50:
        yield (
            f"requests left up to {level.late:.2g} s after they were due: "
            "doctor could not send as fast, and their times are too long"
        )
    limit = max(_LAG_S, _LAG_SHARE * tpot.p50) if tpot else _LAG_S
    if own.cpu > _CPU or own.lag_s > limit:
        yield (
            f"doctor itself was late by up to {own.lag_s * 1000:.0f} ms (CPU {own.cpu:.0%}): "
            "times are too long; run it on another machine, or with less load"
        )


def _on_engine(level: Level) -> Iterator[str]:
    counted = level.gauges.counted if level.gauges else {}
    cached, prompts = counted.get("cached_tokens", 0.0), counted.get("prompt_tokens", 0.0)
    if cached > _CACHED * (cached + prompts):
        yield f"{cached / (cached + prompts):.0%} of the prompts' tokens came from a cache"
    if counted.get("preemptions", 0.0) > 0:
        yield (
            f"the engine put {counted['preemptions']:.0f} requests off for want of KV cache: "
            "fewer at once, shorter ones, or a larger cache"
        )
    generated, clean = counted.get("generated_tokens"), not (level.errors or level.unfinished)
    if clean and generated is not None and generated > (1 + _OTHERS) * level.output_tokens:
        others = generated - level.output_tokens
        yield f"the engine gave {others:.0f} tokens to somebody else meanwhile"
