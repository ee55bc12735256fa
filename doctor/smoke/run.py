"""One smoke test from what was asked to its outcome: start, climb, stop, look at the log."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

from doctor.errors import UsageError
from doctor.matrix import Matrix
from doctor.matrix.launching import Launch
from doctor.smoke.ask import Ask
from doctor.smoke.client import Client, http_library
from doctor.smoke.known import tolerance_for
from doctor.smoke.ladder import Climb, climb
from doctor.smoke.launch import launch_row
from doctor.smoke.outcome import SmokeOutcome, SmokeVerdict
from doctor.smoke.process import ended_by_signals
from doctor.smoke.reach import reach
from doctor.smoke.secret import Secret
from doctor.smoke.serve import Served, serving
from doctor.smoke.target import Target

URL_WAIT_S, ANSWER_S, FIRST_S = 10.0, 60.0, 180.0
# A fault in one of these means that the server never became ready.
_START_STEPS = frozenset({"process", "port", "health"})


def smoke(ask: Ask, matrix: Matrix, say: Callable[[str], None] = lambda _: None) -> SmokeOutcome:
    """Prove a server. Raises UsageError, LaunchError, or DoctorError for a missing extra."""
    http_library()
    began = time.monotonic()
    if ask.url:
        outcome = _running(ask, matrix)
    else:
        with ended_by_signals():
            outcome = _launched(ask, matrix, say)
    return replace(outcome, seconds=round(time.monotonic() - began, 2))


def _running(ask: Ask, matrix: Matrix) -> SmokeOutcome:
    if not ask.url.startswith(("http://", "https://")):
        raise UsageError(f"{ask.url[:200]!r} is no URL", "write http://HOST:PORT")
    row = launch_row(ask.engine, ask.version, matrix) if ask.engine else None
    done = _climb(completed(Target(ask.url, ask.model), ask, row, matrix), ask.key)
    proves, open_ = reach(done.known, "", done.steps, "")
    return SmokeOutcome(
        verdict=SmokeVerdict.PROVEN if done.is_proven else SmokeVerdict.NOT_PROVEN,
        steps=done.steps,
        url=ask.url,
        engine=ask.engine,
        version=str(ask.version or ""),
        model=done.model,
        proves=proves,
        leaves_open=open_,
        fault=done.first_fault,
        record=done.record,
    )


def _launched(ask: Ask, matrix: Matrix, say: Callable[[str], None]) -> SmokeOutcome:
    with serving(ask, matrix, say) as served:
        done = _climb(completed(served.target, ask, served.prepared.plan.row, matrix), ask.key)
    fault = done.first_fault
    verdict = SmokeVerdict.PROVEN if done.is_proven else SmokeVerdict.NOT_PROVEN
    if fault is not None and fault.name in _START_STEPS:
        verdict = SmokeVerdict.NOT_LAUNCHED
    return _outcome_of(served, done, verdict, matrix, ask)


def _outcome_of(
    served: Served, done: Climb, verdict: SmokeVerdict, matrix: Matrix, ask: Ask
) -> SmokeOutcome:
    prepared, fault = served.prepared, done.first_fault
    proves, open_ = reach(done.known, prepared.model.form, done.steps, served.device)
    return SmokeOutcome(
        verdict=verdict,
        steps=done.steps,
        url=served.target.url,
        engine=prepared.plan.row.engine,
        version=str(prepared.place.version or ""),
        model=done.model,
        command=served.command,
        proves=proves,
        leaves_open=open_,
        notes=prepared.plan.notes,
        fault=fault,
        log_cause=served.log_cause(matrix, ask.key) if fault else None,
        log_path=served.kept_log(keep=fault is not None),
        stopped=served.stopped,
        record=done.record,
    )


def completed(target: Target, ask: Ask, row: Launch | None, matrix: Matrix) -> Target:
    """A target with what is known of its engine, and how long things may take."""
    listed = (row,) if row else matrix.launches
    names = dict.fromkeys(n for r in listed for n in r.counters.get("generated_tokens", ()))
    wait_s = row.start_s if row and target.process else URL_WAIT_S
    return replace(
        target,
        health=row.health if row else "/health",
        metrics=row.metrics if row else "/metrics",
        counters={"generated_tokens": tuple(names)},
        wait_s=wait_s if ask.timeout_s is None else ask.timeout_s,
        answer_s=min(ANSWER_S, ask.timeout_s or ANSWER_S),
        first_s=FIRST_S if ask.timeout_s is None else ask.timeout_s,
        tolerance=tolerance_for(str(ask.args.get("kv_cache_dtype", ""))),
        record=ask.record,
    )


def _climb(target: Target, key: Secret) -> Climb:
    async def take() -> Climb:
        async with Client(target.url, key.value, target.answer_s) as client:
            return await climb(target, client)

    done = asyncio.run(take())
    # A server may repeat the key in an error.
    return replace(done, steps=tuple(replace(s, text=key.hide(s.text)) for s in done.steps))
