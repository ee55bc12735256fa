"""Rules about the number format of the KV cache: on this card, release and attention back end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from doctor.findings import Evidence, Remedy
from doctor.matrix import ClaimMatch, Matrix
from doctor.rules.engine import Case, Fault, Rule, Severity, rule
from doctor.rules.engine_features import refusal
from doctor.rules.model import judged, word_of
from doctor.rules.model_facts import argument, environment
from doctor.rules.settings import BACKEND, Setting, applicable, fold, judge, need
from doctor.rules.software import Software

_MEANT_BY_FP8 = "fp8_e4m3"


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


RULES: tuple[Rule, ...] = (kv_dtype_refused,)
