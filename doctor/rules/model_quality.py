"""Rules about what quantization costs: perplexity, few bits, answers that are told to be worse."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules.engine import Case, Fault, NotApplicable, Severity, rule
from doctor.rules.model_facts import argument, count, environment, model_name
from doctor.rules.serving_told import is_told, told
from doctor.rules.settings import applicable, settings
from doctor.rules.software import engine

# Names of formats of four bits a weight or fewer that a model was converted to after training.
_FOUR_BITS = re.compile(
    r"(?<![a-z])(?:i?q[1-4](?:[_-]\w{1,5}){1,2}|gptq|awq|int-?[234]|[234]-?bits?|w[234]a(?:8|16)|"
    r"nf4|bnb|[1-4]\.\d{1,2}[ -]?bpw|exl[23]|hqq|aqlm|nvfp4|squeezellm)(?![a-z])",
    re.IGNORECASE,
)
# Formats of a KV cache below 16 bits, and what a policy of so many bits means.
_SMALL_CACHE = re.compile(r"(?:fp|int|q|iq)[2-8]\w{0,6}|[48]", re.IGNORECASE)
# Arguments by which libraries are told how many bits to keep.
_BIT_KEYS, _FOUR = ("nbits", "bits", "w_bit", "wbits", "quantization_bit", "quant_bits"), 4
_CACHES = ("kv_cache_dtype", "quant_policy", "cache_type_k", "cache_type_v", "kv_cache_quant")


@rule("MDL601", cause="quantization-quality", severity=Severity.INFO)
def quality_lost_to_quantization(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The model or its KV cache is quantized to few bits; answers may be worse.

    What: a measured perplexity against the one of the model at 16 bit, where both are
        known; else quantization of weights below 4 bit.
    Why: below 4 bit the loss is no longer small; KV-cache quantization is felt sooner
        than that of weights.
    How to fix: start quality-sensitive work at 8 bit; calibrate with text like yours.
    Silent when: neither was measured nor is the format that small.
    Sources: llama.cpp quantize documentation (perplexity per type).
    """
    measured = case.workload.measured.value or {} if case.workload else {}
    here, base = measured.get("perplexity"), measured.get("perplexity_16bit")
    found = engine(case, matrix)
    if here and base:
        claims = applicable(matrix, found, "parameter", settings(case, matrix)[0], "perplexity")
        limit = float(claims[0].claim.value) if claims else 1.0
        loss = here / base - 1
        if loss > limit:
            yield Fault(
                f"perplexity is {loss:.0%} above that of 16 bit",
                evidence=(Evidence(f"perplexity {here}, 16 bit {base}"),),
                remedies=(Remedy("use a quantization of more bits"),),
                severity=Severity.WARNING,
            )
        return
    name = f"{argument(case, 'quantization')[0] or ''} {model_name(case)}".lower()
    low = [word for word in _LOW_BITS if word in name]
    if not name.strip():
        raise NotApplicable("no model is named")
    if low:
        yield Fault(
            f"{low[0]} keeps fewer than 4 bits a weight: expect worse answers",
            evidence=(Evidence(name.strip()),),
            remedies=(Remedy("use a 4-bit or 8-bit quantization if it fits"),),
        )


_LOW_BITS = ("q2_k", "q3_k", "iq1_", "iq2_", "iq3_", "2bit", "3bit", "int2", "int3", "2-bit")


@rule("MDL602", cause="quantization-quality", severity=Severity.WARNING)
def answers_are_told_worse(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Answers are told to be poor, and the weights or the KV cache keep few bits.

    What: what is told of answers, scores or language, with the format of the weights and of
        the KV cache.
    Why: at four bits and below some models lose much, small ones and those trained on many
        tokens most; a quantized KV cache is felt on long prompts first.
    How to fix: compare with the unquantized model or cache; take a format of more bits.
    Silent when: nobody tells of it; eight bits are kept; text is garbled, which a fault of a
        kernel makes as well, unless the cache or fewer than four bits may be the reason.
    Sources: llama.cpp quantize documentation; vLLM documentation on quantized KV caches.
    """
    words = told(case, "poor_output", "garbled_output")
    cache = _small_cache(case)
    few = _few_bits(case)
    is_garbled = is_told(case, "garbled_output") and not is_told(case, "poor_output")
    if not cache and is_garbled and not any(w in few for w in _LOW_BITS):
        return
    for what, kept in (("the KV cache is", cache), ("the weights are", few)):
        if kept:
            yield Fault(
                f"{what} {kept}, and answers are told to be worse",
                evidence=(words, Evidence(kept, "engine_args")),
                remedies=(Remedy("compare with the unquantized one; use a format of more bits"),),
            )
            return


def _few_bits(case: Case) -> str:
    """The name of a format of four bits or fewer, as the arguments or the model's name have it."""
    name = f"{argument(case, 'quantization')[0] or ''} {model_name(case)}".lower()
    match = _FOUR_BITS.search(name)
    stated = next((bits for key in _BIT_KEYS if (bits := count(case, key)) and bits <= _FOUR), 0)
    return f"{stated}bit" if stated else match[0] if match else ""


def _small_cache(case: Case) -> str:
    """The format of a KV cache below 16 bits that was asked for."""
    asked = [str(argument(case, name)[0] or "") for name in _CACHES]
    asked.append(environment(case).get("OLLAMA_KV_CACHE_TYPE", ""))
    return next((word for word in asked if _SMALL_CACHE.fullmatch(word)), "")


RULES = (
    quality_lost_to_quantization,
    answers_are_told_worse,
)
