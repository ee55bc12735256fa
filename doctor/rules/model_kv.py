"""Rules about the number format of the KV cache: on this card, release and attention back end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from doctor.findings import Evidence, Remedy
from doctor.matrix import ClaimMatch, Matrix
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.engine_features import refusal
from doctor.rules.model import judged, word_of
from doctor.rules.model_facts import argument, environment
from doctor.rules.serving_told import is_told
from doctor.rules.settings import BACKEND, Setting, applicable, covering, fold, judge, need
from doctor.rules.software import Software, engine

_MEANT_BY_FP8 = "fp8_e4m3"
_V_TYPES = ("cache_type_v", "type_v", "ctv", "kv_cache_dtype")
_V_VARIABLES = ("OLLAMA_KV_CACHE_TYPE", "LLAMA_ARG_CACHE_TYPE_V")
_FLASH_VARIABLES = ("OLLAMA_FLASH_ATTENTION", "LLAMA_ARG_FLASH_ATTN")
_OFF = ("off", "false", "0", "no", "f", "disabled")
_QUANTIZED = re.compile(r"i?q[2-8]_(?:\d|nl|k\w{0,2})")


@rule("MDL301", cause="kvcache-dtype-unsupported", severity=Severity.ERROR)
def kv_dtype_refused(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The KV-cache dtype does not work on this card, with this attention back end or release.

    What: the kv-cache dtype against the cards and back ends that the matrix records; where
        none was chosen, only what no back end takes.
    Why: "fp8" means e4m3 in most engines, and its conversion exists from certain cards on;
        each attention kernel knows some of the formats.
    How to fix: `auto`, or the format or back end that the finding names.
    Silent when: the dtype is `auto`, or back end and release leave it open.
    Sources: attention back ends of the releases (rows in the matrix).
    """
    dtype, at = word_of(case, "kv_cache_dtype")

    def decide(found: Software, setting: Setting) -> Iterator[Fault]:
        placed = replace(setting, backend=_backend(case))
        of_backend = applicable(matrix, found, "kv-dtypes", placed)
        outside = [_not_taken(found, m, (dtype, at)) for m in of_backend if not _takes(m, dtype)]
        if outside:
            yield from outside
            return
        result = judge(matrix, found, "kv-dtype", dtype, placed)
        if not result.is_known and dtype == _MEANT_BY_FP8:
            result = judge(matrix, found, "kv-dtype", "fp8", placed)
        if result.open == BACKEND and placed.backend == "default":
            return  # some back end takes it, and the engine chooses that
        if result.is_known or not of_backend:
            need(result, f"KV-cache dtype {dtype} of {found.name}")
        fault = refusal(matrix, found, placed, result, f"KV-cache dtype {dtype}")
        if fault is not None:
            seen = (*fault.evidence, Evidence(f"kv_cache_dtype={dtype}", at))
            yield replace(fault, evidence=seen)

    yield from judged(case, matrix, decide)


def _allowed(match: ClaimMatch) -> list[str]:
    return [str(name) for name in match.claim.data.get("allowed", ())]


def _takes(match: ClaimMatch, dtype: str) -> bool:
    return dtype in map(fold, _allowed(match))


def _not_taken(found: Software, match: ClaimMatch, asked: tuple[str, str]) -> Fault:
    """The fault of a format that is not among those of the chosen back end."""
    dtype, at = asked
    return Fault(
        f"{match.claim.key} of {found.label} does not take KV-cache dtype {dtype}, only "
        f"{', '.join(_allowed(match))}",
        evidence=(found.evidence, Evidence(f"kv_cache_dtype={dtype}", at)),
        remedies=(Remedy("leave the back end unset, or choose a format that it takes"),),
        sources=match.claim.source,
        extrapolated=match.extrapolated,
    )


def _backend(case: Case) -> str:
    """The attention back end that was chosen, else "default".

    Left to itself an engine passes over back ends that do not take the format, so that
    only what none of them takes is refused.
    """
    chosen = argument(case, "attention_backend")[0]
    return str(chosen or environment(case).get("VLLM_ATTENTION_BACKEND") or "default")


@rule("MDL302", cause="kvcache-dtype-unsupported", severity=Severity.ERROR)
def quantized_cache_needs_flash(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The V cache is to be quantized, and flash attention is switched off.

    What: the type of the V cache and the switch of flash attention, as arguments or variables,
        against engines whose kernels for such a cache are those of flash attention alone.
    Why: the engine stops, or passes the setting over and takes twice the memory.
    How to fix: turn flash attention on, or leave the cache as it is.
    Silent when: the switch is not stated, or the cache is not quantized.
    Sources: context creation of llama.cpp; FAQ of Ollama (claims in the matrix).
    """
    found = engine(case, matrix)
    claims = covering(matrix, found, "kv-needs-flash")
    if not claims:
        raise NotApplicable(f"{found.name} has no such limit")
    kind, at = _quantized_values(case)
    claim = claims[0].claim
    switch = _flash_switch(case) or ("off (as is told)" if is_told(case, "flash_off") else "")
    if kind and switch.partition(" ")[0] in _OFF:
        yield Fault(
            f"V cache {kind} without flash attention: {claim.text}",
            evidence=(Evidence(f"V cache {kind}", at), Evidence(f"flash attention: {switch}")),
            remedies=(Remedy(claim.remedy),),
            sources=claim.source,
            severity=Severity.WARNING if claim.value == "ignored" or " " in switch else None,
        )


def _quantized_values(case: Case) -> tuple[str, str]:
    """The type of the V cache where it is a quantized one, and where it was stated."""
    for name in _V_TYPES:
        value, at = argument(case, name)
        if _QUANTIZED.fullmatch(str(value or "").lower()):
            return str(value), at
    for name in _V_VARIABLES:
        value = environment(case).get(name, "")
        if _QUANTIZED.fullmatch(value.lower()):
            return value, case.scope.env.at
    return "", ""


def _flash_switch(case: Case) -> str:
    named = (argument(case, name)[0] for name in ("flash_attn", "flash_attention"))
    stated = next((str(value).lower() for value in named if value is not None), "")
    env = environment(case)
    return stated or next((env[n].lower() for n in _FLASH_VARIABLES if n in env), "")


RULES: tuple[Rule, ...] = (kv_dtype_refused, quantized_cache_needs_flash)
