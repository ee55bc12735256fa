"""One smoke test from what was asked to its outcome: start, climb, stop, look at the log."""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Callable
from dataclasses import replace

from doctor.matrix import Matrix
from doctor.matrix.launching import Launch
from doctor.probes import pci
from doctor.probes.local import LocalHost
from doctor.smoke import allreduce
from doctor.smoke.ask import Ask
from doctor.smoke.client import Client, http_library
from doctor.smoke.known import tolerance_for
from doctor.smoke.ladder import Climb, climb
from doctor.smoke.launch import launch_row
from doctor.smoke.outcome import SmokeOutcome, SmokeVerdict
from doctor.smoke.prepare import HOST, Prepared, prepare
from doctor.smoke.process import ended_by_signals
from doctor.smoke.reach import reach
from doctor.smoke.secret import Secret
from doctor.smoke.serve import serving
from doctor.smoke.steps import State, Step
from doctor.smoke.target import Target, server_url

URL_WAIT_S, ANSWER_S, FIRST_S = 10.0, 60.0, 180.0
# A fault in one of these means that the server never became ready.
_START_STEPS = frozenset({"process", "port", "health"})
# Their devices are not reached by torch alone.
_OTHER_VENDORS = frozenset({"vllm-ascend", "mindie"})


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
    server_url(ask.url)
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
    prepared = prepare(ask, matrix)
    plain = _planned(prepared)
    checks = _device_checks(prepared, ask, say)
    fault = next((step for step in checks if step.state is State.FAILED), None)
    if fault is not None:
        # An engine whose devices cannot add up would hang without a word.
        return replace(plain, steps=checks, fault=fault)
    with serving(prepared, ask, say) as served:
        target = completed(served.target, ask, prepared.plan.row, matrix)
        done = _climb(replace(target, say=served.teller(say, ask.key)), ask.key)
    fault = done.first_fault
    proves, open_ = reach(done.known, prepared.model.form, (*checks, *done.steps), served.device)
    return replace(
        plain,
        verdict=_verdict(done),
        steps=(*checks, *done.steps),
        model=done.model,
        proves=proves,
        leaves_open=(*open_, *_unused_devices(served.device)),
        fault=fault,
        log_cause=served.log_cause(matrix, ask.key) if fault else None,
        log_path=served.kept_log(keep=fault is not None),
        stopped=served.stopped,
        record=done.record,
    )


def _planned(prepared: Prepared) -> SmokeOutcome:
    """The outcome of a server that was planned and not started."""
    return SmokeOutcome(
        verdict=SmokeVerdict.NOT_LAUNCHED,
        steps=(),
        url=f"http://{HOST}:{prepared.port}",
        engine=prepared.plan.row.engine,
        version=str(prepared.place.version or ""),
        model=prepared.model.name or prepared.model.path,
        command=prepared.plan.argv,
        notes=prepared.plan.notes,
    )


def _verdict(done: Climb) -> SmokeVerdict:
    if done.is_proven:
        return SmokeVerdict.PROVEN
    at = done.first_fault.name if done.first_fault else ""
    return SmokeVerdict.NOT_LAUNCHED if at in _START_STEPS else SmokeVerdict.NOT_PROVEN


def _device_checks(prepared: Prepared, ask: Ask, say: Callable[[str], None]) -> tuple[Step, ...]:
    """The all-reduce check, where an engine with torch shares its work among devices."""
    shares = [ask.args.get(f"{kind}_parallel_size", 1) for kind in ("tensor", "pipeline")]
    ranks = math.prod(share for share in shares if isinstance(share, int))
    engine = prepared.plan.row.engine
    if ranks < 2:
        return ()
    if not prepared.place.has_torch or engine in _OTHER_VENDORS:
        return (Step(allreduce.NAME, State.SKIPPED, "there is no torch here that could try it"),)
    say(f"letting {ranks} ranks add up")
    kind = "cpu" if engine.endswith("-cpu") else "cuda"
    env = dict(os.environ)
    return (allreduce.all_reduce(prepared.place.python, kind, ranks, env),)


def _unused_devices(device: str) -> tuple[str, ...]:
    """A machine with accelerators of which none was used leaves them open."""
    if "CPU" not in device:
        return ()
    functions = pci.read(LocalHost()).value or ()
    makers = dict.fromkeys(f.vendor for f in functions if f.vendor)
    if not makers:
        return ()
    return (f"the accelerators of this machine ({', '.join(makers)}): name an engine for them",)


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
        tolerance=tolerance_for(
            *(str(ask.args.get(name) or "") for name in ("kv_cache_dtype", "quantization"))
        ),
        record=ask.record,
        known=ask.known,
    )


def _climb(target: Target, key: Secret) -> Climb:
    async def take() -> Climb:
        async with Client(target.url, key.value, target.answer_s) as client:
            return await climb(target, client)

    done = asyncio.run(take())
    # A server may repeat the key in an error.
    return replace(done, steps=tuple(replace(s, text=key.hide(s.text)) for s in done.steps))
