"""Rules about quantization: the method on this card and release."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules.decide import each
from doctor.rules.engine import Case, Fault, NotApplicable, Severity, rule
from doctor.rules.engine_features import provider, refusal
from doctor.rules.model_blocks import block_side
from doctor.rules.model_facts import argument, known_model, model_name, quantization_of
from doctor.rules.settings import (
    Judgement,
    Setting,
    covering,
    fold,
    judge,
    need,
    settings,
)
from doctor.rules.software import Software, engine

_UNSET = ("", "none", "auto", "null", "default")
# "30B-A3B": the parameters that are active of a mixture of experts.
_ACTIVE = re.compile(r"\d+b-a\d+(?:\.\d+)?b", re.IGNORECASE)
_FP4 = re.compile(r"[-_. ](?:nv)?fp4(?:a16)?(?=$|[-_. ])", re.IGNORECASE)
_INT4 = re.compile(r"w4a16|awq|gptq|int4|4[-_]?bit", re.IGNORECASE)
_NAMED = re.compile(
    r"[-_. ](awq|gptq|fp8|nvfp4|fp4|mxfp4|gguf|w8a8|w4a16)(?=$|[-_. ])", re.IGNORECASE
)
_SVDQ = re.compile(r"\bsvdq[-_](int4|fp4)", re.IGNORECASE)  # as Nunchaku's files are called
_INT8 = re.compile(r"[-_. ]w8a8(?=$|[-_. ])", re.IGNORECASE)
# Words in names of repositories for formats that engines know by another name.
_METHOD_OF_WORD = {"fp4": "modelopt_fp4", "nvfp4": "modelopt_fp4",
                   "w8a8": "compressed_tensors", "w4a16": "compressed_tensors"}  # fmt: skip
_BLOCKS = ("fp8_block", "fp8_block_scales")  # what engines call one scale for a square block
_SERVED = ("supported", "experimental")  # chips, by the matrix
_PUBLISHED = ("mxfp4", "fp8")  # formats in which models are first published
# Scripts around torch may convert what they load; the other has its weights in a file of its own.
_CONVERTING = ("torch", "transformers", "ktransformers")
_ALLOWED = "allow_deprecated_quantization"
_METHOD = re.compile(r"[a-z][a-z0-9_.-]*", re.IGNORECASE)


def word_of(case: Case, name: str) -> tuple[str, str]:
    """An argument as one folded word and where it was read; raises if left to the engine."""
    value, at = argument(case, name)
    match = _METHOD.match(str(value or "").strip())
    word = fold(match[0]) if match else ""
    if word in _UNSET:
        raise NotApplicable(f"{name} is left to the engine")
    return word, at


def judged(
    case: Case,
    matrix: Matrix,
    decide: Callable[[Software, Setting], Iterator[Fault]],
    found: Software | None = None,
) -> Iterator[Fault]:
    """Ask once per different kind of device, of the engine or of the part that brings the thing."""
    found = found or engine(case, matrix)
    checks = [(lambda s=setting: decide(found, s)) for setting in settings(case, matrix)]
    yield from each(checks)


@rule("MDL101", cause="quant-unsupported-on-cc", severity=Severity.ERROR)
def quantization_refused(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The quantization method does not run on this card, or the engine release has dropped it.

    What: the method that was asked for, or that the checkpoint declares, against the cards
        and versions that the matrix records for it; for compressed-tensors also the scheme
        (4-bit weights need kernels of their own), for FP8 whether there are experts, or scales of
        blocks.
    Why: each method has kernels for certain cards only; methods leave the engines with
        time, and the name of a repository does not say which method it uses.
    How to fix: another quantization of the same model that the finding names, another
        card, or the last release that has the method.
    Silent when: no method is stated. A warning where only the model's name tells the method,
        or where the card is merely not among those that are listed for it.
    Sources: get_min_capability and method registries of the releases (rows in the matrix).
    """
    method, at, is_sure = _loaded(case) or _method(case, matrix)
    names = [method, *_schemes(case, matrix, method)]

    def decide(found: Software, setting: Setting) -> Iterator[Fault]:
        results = [(n, judge(matrix, found, "quantization", n, setting)) for n in names]
        for name, result in [(n, _by_most_chips(matrix, found, n, setting, r)) for n, r in results]:
            fault = refusal(matrix, found, setting, result, f"quantization {name}")
            if not is_sure and result.refused and result.refused.claim.value == "removed":
                continue  # a word in a name is not the engine's name of a method
            if not is_sure and method in _METHOD_OF_WORD.values() and not result.refused:
                continue
            if fault is not None and not _has_plugin(case, result):
                seen = (*fault.evidence, Evidence(f"quantization {name}", at))
                is_chip_known = setting.vendor != "ascend" or bool(setting.soc)
                keep = (is_sure and is_chip_known) or fault.severity is Severity.INFO
                severity = fault.severity if keep else Severity.WARNING
                yield replace(fault, evidence=seen, severity=severity)
                return
        need(results[0][1], f"quantization {method} of {found.name}")

    yield from judged(case, matrix, decide, provider(case, matrix, "quantization", method))


def _by_most_chips(
    matrix: Matrix, found: Software, name: str, setting: Setting, result: Judgement
) -> Judgement:
    """Of an Ascend chip that is not named: what most chips that the engine serves say."""
    if not result.open or setting.vendor != "ascend" or setting.soc:
        return result
    served = {row.generation for row in matrix.npus if row.engines.get(found.name) in _SERVED}
    chips = [replace(setting, soc=frozenset({generation})) for generation in sorted(served)]
    answers = [judge(matrix, found, "quantization", name, chip) for chip in chips]
    refusing = [answer for answer in answers if answer.refused is not None]
    return refusing[0] if 2 * len(refusing) > len(answers) else result


def _loaded(case: Case) -> tuple[str, str, bool] | None:
    """The method by which bitsandbytes shrinks weights while they are loaded."""
    value, at = argument(case, "load_in_8bit")
    return ("int8", at, True) if str(value).lower() == "true" else None


def _is_script(case: Case) -> bool:
    return case.workload is None or case.workload.engine in _CONVERTING


def _is_taken_as_it_is(case: Case, repo: str) -> bool:
    """A script around torch may convert what it loads, unless it names the checkpoint itself."""
    by_name = repo == model_name(case) and case.scope.package("transformers") is not None
    return by_name or not _is_script(case)


def _method(case: Case, matrix: Matrix) -> tuple[str, str, bool]:
    """The method asked for or declared by the checkpoint; else, not for sure, its name's."""
    try:
        word, at = word_of(case, "quantization")
    except NotApplicable:
        work = case.workload
        declared = quantization_of(work.model.value or {}) if work else ""
        if work is not None and declared:
            return fold(declared), work.model.at, True
        diffused = _SVDQ.search(model_name(case))
        if diffused is not None:
            return diffused[1].lower(), "name of the model", False
        named = _NAMED.search(model_name(case))
        if named is not None:
            return _called(case, matrix, named[1].lower()), "name of the model", False
        row = known_model(matrix, model_name(case))
        is_same = row is not None and _base(row.repo) == _base(model_name(case))
        is_same = is_same and _is_taken_as_it_is(case, row.repo if row else "")
        if row is None or row.quantization not in _PUBLISHED[: 2 if is_same else 1]:
            raise
        is_sure = row.repo == model_name(case) and not _is_script(case)
        return row.quantization, f"matrix, {row.repo}", is_sure
    if _is_format(case, word):
        return _called(case, matrix, word), at, False
    return word, at, True


def _called(case: Case, matrix: Matrix, word: str) -> str:
    """The method that a word in a name stands for, as this engine calls it."""
    method = _METHOD_OF_WORD.get(word, word)
    claims = matrix.claims(engine(case, matrix).name, "quantization")
    return method if any(fold(match.claim.key) == method for match in claims) else word


def _is_format(case: Case, word: str) -> bool:
    """Tell whether a report gives the format of the checkpoint where a method was asked for.

    Engines take the method from such a checkpoint, and have other names for it.
    """
    work = case.workload
    is_told = work is not None and work.pid is None and work.args.partial
    return is_told and word in _METHOD_OF_WORD and word in model_name(case).lower()


def _base(repository: str) -> str:
    """The name without its owner or folder: copies of a checkpoint keep it."""
    return repository.rpartition("/")[2].lower()


def is_quantized(case: Case, matrix: Matrix) -> bool:
    """Tell whether a method was asked for, or is told by the checkpoint or its name."""
    try:
        _method(case, matrix)
    except NotApplicable:
        return False
    return True


def _schemes(case: Case, matrix: Matrix, method: str) -> list[str]:
    """Narrower names of the method that have rows of their own."""
    if method == "fp8":
        row = known_model(matrix, model_name(case))
        has_experts = row.experts is not None if row else bool(_ACTIVE.search(model_name(case)))
        has_blocks = bool(row is not None and row.quant_block) or block_side(case, matrix) > 0
        return [*(["fp8_experts"] * has_experts), *(_BLOCKS if has_blocks else ())]
    if method != "compressed_tensors":
        return []
    config = (case.workload.model.value or {}) if case.workload else {}
    text = f"{model_name(case)} {config.get('quantization_config', '')}"
    bits = re.search(r"'num_bits': '?4\b", text)
    if _FP4.search(model_name(case)):
        return ["compressed_tensors_nvfp4"]
    if _INT8.search(model_name(case)) and "fp8" not in model_name(case).lower():
        return ["compressed_tensors_w8a8"]
    return ["compressed_tensors_w4a16"] if bits or _INT4.search(text) else []


def _has_plugin(case: Case, result: Judgement) -> bool:
    """Tell whether an installed plug-in brings a removed method back."""
    plugin = result.refused.claim.data.get("plugin", "") if result.refused else ""
    return bool(plugin) and case.scope.package(str(plugin)) is not None


@rule("MDL102", cause="quant-unsupported-on-cc", severity=Severity.ERROR)
def quantization_is_another(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The method that was asked for is not the one that the checkpoint declares.

    What: the quantization argument against quantization_config.quant_method of the model.
    Why: a repository named "...-AWQ" may hold compressed-tensors; the engine refuses a
        method that contradicts the checkpoint, and the other method has other minimums.
    How to fix: leave the argument out, so that the checkpoint decides.
    Silent when: one of the two is not known; the engine converts between them (awq and
        awq_marlin, gptq and gptq_marlin are one checkpoint format).
    Sources: vLLM config verification of quantization; vllm-project/vllm issue 29707.
    """
    asked, at = word_of(case, "quantization")
    work = case.workload
    if work is None:
        raise NotApplicable("no workload")
    declared = fold(quantization_of(work.model.known("model configuration")))
    if not declared or _family(asked) == _family(declared):
        return
    found = engine(case, matrix)
    yield Fault(
        f"{found.label} is told quantization {asked}; the checkpoint is {declared}",
        evidence=(Evidence(f"quantization={asked}", at), Evidence(declared, work.model.at)),
        remedies=(Remedy("leave --quantization out: the checkpoint names its method"),),
    )


@rule("MDL103", cause="quant-unsupported-on-cc", severity=Severity.ERROR)
def quantization_deprecated(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The quantization method is on its way out, and this release takes it only on request.

    What: the method that was asked for, or that the checkpoint declares, against those that
        the release marks as deprecated, unless the flag that allows them is set.
    Why: the engine stops at start and names the flag; a later release has no such method.
    How to fix: the flag that the finding names, or another quantization of the model.
    Silent when: the flag is set, or the release does not mark the method.
    Sources: method registries of the releases (rows in the matrix).
    """
    method, at, is_sure = _method(case, matrix)
    if not is_sure or str(argument(case, _ALLOWED)[0]).lower() in ("true", "1"):
        raise NotApplicable("it is allowed, or only the model's name tells the method")
    found = engine(case, matrix)
    for match in covering(matrix, found, "quantization-deprecated"):
        if fold(match.claim.key) == method:
            yield Fault(
                f"quantization {method} of {found.label} is {match.claim.text}",
                evidence=(found.evidence, Evidence(f"quantization {method}", at)),
                remedies=(Remedy(match.claim.remedy),),
                sources=match.claim.source,
                extrapolated=match.extrapolated,
            )


def _family(method: str) -> str:
    for base in ("awq", "gptq", "modelopt", "fp8"):
        if method.startswith(base):
            return base
    return method


RULES = (
    quantization_refused,
    quantization_is_another,
    quantization_deprecated,
)
