"""The resolver's answer for programs."""

from __future__ import annotations

import json
from typing import Any

from doctor.findings import Finding
from doctor.report import Style
from doctor.stack.model import Judged, Resolution, Stack, Unlock


def render_json(found: Resolution, style: Style | None = None) -> str:
    """doctor/resolve/v1: `stack` is the best offer, null if there is none."""
    offers = [_offer(offer) for offer in found.offers]
    wire = {
        "schema": "doctor/resolve/v1",
        "verdict": found.verdict,
        "engine": found.engine,
        "goal": found.choice.goal if found.choice else None,
        "why": found.choice.why if found.choice else None,
        "stack": offers[0] if offers else None,
        "alternatives": offers[1:],
        "refused": [_refused(judged) for judged in found.refused],
        "host": [_finding(finding) for finding in found.host],
        "unlocks": [_unlock(unlock) for unlock in found.unlocks],
        "notes": list(found.notes),
        "matrix": {"as_of": found.matrix_as_of},
    }
    return json.dumps(wire, indent=2, ensure_ascii=False) + "\n"


def _offer(judged: Judged) -> dict[str, Any]:
    return {
        **_stack(judged.stack),
        "state": judged.state,
        "lacks": list(judged.lacks),
        "warnings": [_finding(finding) for finding in judged.warnings],
        "sources": list(judged.candidate.sources),
    }


def _stack(stack: Stack | None) -> dict[str, Any]:
    if stack is None:
        return {}
    return {
        "engine": stack.engine,
        "version": stack.version,
        "torch": stack.torch or None,
        "cuda": stack.cuda or None,
        "python": stack.python or None,
        "artifact": f"{stack.kind} {stack.artifact}",
        "index": stack.index,
        "kind": stack.kind,
        "torch_build": stack.torch_build or None,
        "python_range": stack.pythons or None,
        "extra_index": stack.extra_index,
        "env": dict(stack.env),
        "flags": list(stack.flags),
        "devices": list(stack.devices),
        "driver_floor": stack.driver_floor or None,
        "driver_ceiling": stack.driver_ceiling or None,
        "parts": dict(stack.parts),
    }


def _refused(judged: Judged) -> dict[str, Any]:
    candidate = judged.candidate
    return {
        "version": str(candidate.version or ""),
        "artifact": f"{candidate.kind} {candidate.artifact}",
        "torch": str(candidate.torch.version) if candidate.torch else None,
        "findings": [_finding(finding) for finding in judged.findings],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "cause": finding.cause,
        "severity": finding.severity.value,
        "message": finding.message,
        "sources": list(finding.sources),
    }


def _unlock(unlock: Unlock) -> dict[str, Any]:
    return {
        "change": unlock.change,
        "kind": unlock.kind,
        "commands": list(unlock.commands),
        "reboot": unlock.reboot,
        "stack": _stack(unlock.gains.stack),
    }
