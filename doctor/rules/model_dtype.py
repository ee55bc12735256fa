"""Rules about the number format of weights and activations: asked for, or the checkpoint's own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules.decide import each
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.engine_features import provider, refusal
from doctor.rules.model import is_quantized, judged, word_of
from doctor.rules.model_facts import argument, known_model, model_name
from doctor.rules.model_kinds import ModelKind
from doctor.rules.settings import Setting, judge, need, possible
from doctor.rules.software import Software, engine

_DTYPES = {"half": "float16", "fp16": "float16", "bf16": "bfloat16", "fp32": "float32",
           "float8": "fp8", "float8_e4m3fn": "fp8", "float8_e5m2": "fp8", "fp8_e4m3": "fp8",
           "fp8_e5m2": "fp8", "e4m3": "fp8"}  # fmt: skip

_NAMED = "the name of the model says it"
_BF16 = re.compile(r"(?:^|[-_.])bf16(?=$|[-_.])", re.IGNORECASE)
_SWITCHES = {"bf16": "training in bfloat16", "fp8": "training in fp8", "tf32": "tf32"}
_ON = ("true", "hybrid", "e4m3")


@rule("MDL201", cause="dtype-unsupported-on-cc", severity=Severity.ERROR)
def dtype_refused(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The number format that was asked for does not exist on this card.

    What: the dtype argument, or a trainer's switch, against the cards that the matrix records
        for it.
    Why: bfloat16, FP8 and FP4 arithmetic came with certain generations; engines that do
        not fall back refuse at start.
    How to fix: `--dtype float16`.
    Silent when: the dtype is left to the engine, which then picks one that works; an
        engine that falls back by itself gives an info only.
    Sources: platform checks of the engines (rows in the matrix).
    """
    yield from each([partial(_refused, case, matrix, *asked) for asked in _asked(case)])


def _asked(case: Case) -> list[tuple[str, str]]:
    """Number formats that were asked for, by a trainer's switches or by name, and where."""
    switches = [(dtype, *argument(case, name)) for name, dtype in _SWITCHES.items()]
    asked = [(dtype, at) for dtype, value, at in switches if str(value).lower() in _ON]
    mixed, at = argument(case, "mixed_precision")
    if str(mixed).lower() in _SWITCHES:
        asked.append((_SWITCHES[str(mixed).lower()], at))
    if asked:
        return asked
    word, at = word_of(case, "dtype")
    word = word.removeprefix("torch.")
    return [(_DTYPES.get(word, word), at)]


def _refused(case: Case, matrix: Matrix, dtype: str, at: str) -> Iterator[Fault]:
    def decide(found: Software, setting: Setting) -> Iterator[Fault]:
        result = judge(matrix, found, "dtype", dtype, setting)
        need(result, f"dtype {dtype} of {found.name}")
        fault = refusal(matrix, found, setting, result, dtype)
        if fault is not None:
            seen = (*fault.evidence, Evidence(f"dtype={dtype}", at))
            fix = fault.remedies or (Remedy("use float16: --dtype float16"),)
            yield replace(fault, evidence=seen, remedies=fix)

    yield from judged(case, matrix, decide, provider(case, matrix, "dtype", dtype))


@rule("MDL202", cause="dtype-unsupported-on-cc", severity=Severity.ERROR)
def checkpoint_dtype_refused(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The checkpoint's own number format does not exist on this card, and the engine keeps it.

    What: the dtype of the model's configuration where none was asked for, with releases that
        take it over as it is, against the cards that the matrix records for it.
    Why: most models are published in bfloat16; such a release stops with "Bfloat16 is only
        supported on GPUs with compute capability of at least 8.0".
    How to fix: `--dtype float16`, or a release that falls back by itself.
    Silent when: a dtype was asked for, the model is quantized, or its dtype is not known. A
        warning where not all arguments are known; a note where the version is not, and newer
        releases fall back.
    Sources: platform checks of the engines (rows in the matrix).
    """
    dtype, at = _of_checkpoint(case, matrix)

    def decide(found: Software, setting: Setting) -> Iterator[Fault]:
        kept = possible(matrix, found, "default-dtype", setting, "checkpoint")
        if not kept:
            raise NotApplicable(f"{found.name} falls back by itself, or that is not known")
        result = judge(matrix, found, "dtype", dtype, setting)
        fault = refusal(matrix, found, setting, result, f"{dtype} of the checkpoint")
        if fault is not None:
            seen = (*fault.evidence, Evidence(f"model in {dtype}", at))
            fix = (Remedy("use float16: --dtype float16"), *fault.remedies)
            is_sure = all(sure for _, sure in kept) or at == _NAMED
            severity = _severity(case, fault, is_sure)
            yield replace(fault, evidence=seen, remedies=fix, severity=severity)

    yield from judged(case, matrix, decide, engine(case, matrix))


def _is_named_so(case: Case) -> bool:
    return _BF16.search(model_name(case).rpartition("/")[2]) is not None


def _severity(case: Case, fault: Fault, is_sure: bool) -> Severity | None:
    """A note where it is not sure, a warning where more arguments may have been given."""
    if not is_sure:
        return Severity.INFO
    work = case.workload
    is_partial = work is None or not work.args.is_known or work.args.partial
    return Severity.WARNING if is_partial else fault.severity


def _of_checkpoint(case: Case, matrix: Matrix) -> tuple[str, str]:
    """The number format that the model's configuration states, its row, or all of its family."""
    if str(argument(case, "dtype")[0] or "auto").lower() not in ("auto", "none"):
        raise NotApplicable("a dtype was asked for")
    if is_quantized(case, matrix):
        raise NotApplicable("the model is quantized")
    work = case.workload
    config = (work.model.value or {}) if work is not None else {}
    stated = str(config.get("torch_dtype") or config.get("dtype") or "").removeprefix("torch.")
    if _is_named_so(case):
        return "bfloat16", _NAMED
    row = known_model(matrix, model_name(case))
    if stated and work is not None:
        return _DTYPES.get(stated, stated), work.model.at
    if row is not None and row.dtype:
        return _DTYPES.get(row.dtype, row.dtype), f"matrix, {row.repo}"
    kind = ModelKind(case, matrix)
    for match in matrix.claims("transformers", "published-dtype"):
        if kind.is_named(match.claim.when["model"]):
            return match.claim.key, "name of the model"
    raise NotApplicable("the dtype of the checkpoint is not known")


RULES: tuple[Rule, ...] = (dtype_refused, checkpoint_dtype_refused)
