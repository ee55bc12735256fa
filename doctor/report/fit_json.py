"""What `doctor fit --format json` prints: `doctor/fit/v1`."""

from __future__ import annotations

import json
from typing import Any

from doctor.fitting import FitReport
from doctor.sizing.ladder import Step
from doctor.sizing.offload import Offload
from doctor.sizing.prediction import Prediction

SCHEMA = "doctor/fit/v1"


def render_json(report: FitReport) -> str:
    """One JSON document; sizes are whole bytes of one device unless they say otherwise."""
    return json.dumps(to_data(report), indent=1) + "\n"


def to_data(report: FitReport) -> dict[str, Any]:
    """The report as plain JSON values."""
    found = report.prediction
    return {
        "schema": SCHEMA,
        "source": report.source,
        "engine": report.asked.engine,
        "version": str(report.asked.version) if report.asked.version else None,
        **(_prediction(found) if found else {"verdict": None}),
        "precision": [_step_data(step) for step in report.steps],
        "changes": [
            {"text": c.text, "arguments": dict(c.args), "cards": c.cards, **_short(c.prediction)}
            for c in report.changes
        ],
        "refused": [
            {"method": a.method, "why": a.text, "sources": list(a.sources)} for a in report.refused
        ],
        "parallel": vars(report.parallel) if report.parallel else None,
        "rule_of_thumb": {"bytes_of_all": report.thumb, "bytes_here": report.ours},
        "what_if": [
            {"tokens": c.length, "kv": c.kv, **_short(c.prediction)} for c in report.cells
        ],
        "fits_here": [
            {"size": r.size, "model": r.model.name, "tensor_parallel_size": r.tp,
             "pipeline_parallel_size": r.pp, "precision": [_step_data(s) for s in r.steps]}
            for r in report.rows
        ],
        "matrix": {"version": report.matrix_version, "as_of": report.matrix_as_of},
    }  # fmt: skip


def _short(found: Prediction) -> dict[str, Any]:
    return {
        "verdict": found.verdict.value,
        "longest": found.longest,
        "concurrency": found.concurrency,
    }


def _step_data(step: Step) -> dict[str, Any]:
    short = _short(step.prediction) if step.prediction else {"verdict": None}
    form = step.format.key if step.format else None
    support = {"support": step.support.value, "why": step.why}
    return {"bits": step.bits, "format": form, "method": step.method, **support, **short}


def _prediction(found: Prediction) -> dict[str, Any]:
    settings, weights = found.serving, found.weights
    form = settings.quantization
    return {
        "verdict": found.verdict.value,
        "why": found.why,
        "model": {"name": found.model.name, "architecture": found.model.architecture,
                  "parameters": weights.params if weights else None, "at": found.model.at},
        "devices": {"count": found.cards, "name": found.card.name if found.card else None,
                    "total": found.card.total if found.card else None,
                    "free": found.card.free if found.card else None,
                    "read": found.card.is_read if found.card else None},
        "settings": {
            "tensor_parallel_size": settings.tp, "pipeline_parallel_size": settings.pp,
            "max_model_len": settings.length, "max_num_seqs": settings.seqs,
            "max_num_batched_tokens": settings.batched, "concurrency": settings.requests,
            "gpu_memory_utilization": settings.utilization, "kv_cache_dtype": settings.kv.key,
            "weights": form.format.key if form else "16bit", "enforce_eager": settings.eager,
            "block_size": settings.block},
        "bytes": _bytes(found),
        "tokens": found.tokens,
        "concurrency": found.concurrency,
        "longest": found.longest,
        "offload": _offload_data(found.offload) if found.offload else None,
        "pool_model": found.has_pool_model,
        "missing": list(found.missing),
        "assumed": list(found.assumed),
        "sources": list(found.sources),
    }  # fmt: skip


def _bytes(found: Prediction) -> dict[str, Any]:
    weights = found.weights
    return {
        "weights": weights.bytes if weights else None,
        "weights_by_kind": dict(weights.by_kind) if weights else {},
        "weights_known": weights.how if weights else None,
        "activation": found.activation, "non_torch": found.non_torch,
        "graphs": found.graphs, "graphs_charged": found.graphs_charged,
        "budget": found.budget, "kv_pool": found.pool, "kv_pool_low": found.pool_low,
        "kv_pool_high": found.pool_high, "kv_token": found.token, "kv_request": found.request,
    }  # fmt: skip


def _offload_data(shared: Offload) -> dict[str, Any]:
    return {
        "context": shared.context, "layers": shared.layers, "wanted": shared.wanted,
        "held": shared.held, "layer": shared.layer, "cache": shared.cache,
        "scratch": shared.scratch, "cpu": shared.cpu,
        "devices": [
            {"name": s.card.name, "layers": s.layers, "bytes": s.bytes} for s in shared.shares
        ],
    }  # fmt: skip
