"""Libraries that a script of one's own runs through, against the cards that they are made for."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules import cards
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.engine_parts import cards_below
from doctor.rules.software import engine_name, installed

# Programs that are the person's own, so that what is stated beside them is what they use.
_SCRIPTS = ("torch", "transformers", "diffusers", "peft", "")
_TRAINERS = ("unsloth", "deepspeed-mii", "exllamav2")
_QUANTIZERS = ("autoawq", "auto-gptq")
# What is installed into a program only to be used by it, as nodes of ComfyUI are.
_NODES = ("tensorrt",)
_QUANTIZED_NODES = ("nunchaku",)


@rule("ENG104", cause="cc-below-engine-minimum", severity=Severity.WARNING)
def card_below_library(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The GPU's compute capability is below what a library beside a script supports.

    What: the capability of every NVIDIA device against the lowest one of the libraries that
        trainers and servers are written with, where no engine of its own is run; beside a
        program that is not listed, those that are only installed for it to use.
    Why: their kernels are compiled for newer cards only, and the first call fails.
    How to fix: a newer card, or the way without that library.
    Silent when: an engine is run, which is judged by itself, or the library has no such limit.
    Sources: documentation of the libraries (claims in the matrix).
    """
    yield from _below(case, matrix, _TRAINERS, _NODES)


@rule("MDL104", cause="quant-unsupported-on-cc", severity=Severity.WARNING)
def card_below_quantizer(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The GPU's compute capability is below what a library for quantized weights supports.

    What: the capability of every NVIDIA device against the lowest one of the libraries whose
        kernels compute with quantized weights, beside a script.
    Why: those kernels need instructions of newer cards; the first product fails.
    How to fix: another format, such as GGUF or bitsandbytes, or a newer card.
    Silent when: an engine is run, which has kernels of its own, or there is no such limit.
    Sources: documentation of the libraries (claims in the matrix).
    """
    yield from _below(case, matrix, _QUANTIZERS, _QUANTIZED_NODES)


def _below(
    case: Case, matrix: Matrix, names: tuple[str, ...], nodes: tuple[str, ...]
) -> Iterator[Fault]:
    case.need_vendor("nvidia")
    own = _own_name(case, matrix)
    if own not in _SCRIPTS:
        if matrix.engine(own) is not None:
            raise NotApplicable("an engine is run")
        names = nodes
    found = [part for name in names if (part := installed(case, matrix, name)) is not None]
    if not found:
        raise NotApplicable("no such library is stated")
    for part in found:
        for device, capability, floor in cards_below(case, matrix, part):
            yield Fault(
                f"{part.label} needs compute capability {floor.capability}; "
                f"{cards.label(device, matrix)} has {capability}",
                evidence=(cards.evidence(device, matrix), Evidence(part.label, part.at)),
                remedies=(Remedy(floor.remedy or "take another library, or a newer card"),),
                sources=floor.sources,
                subject=device.id,
            )


def _own_name(case: Case, matrix: Matrix) -> str:
    try:
        return engine_name(case, matrix)
    except NotApplicable:
        return ""


RULES: tuple[Rule, ...] = (card_below_library, card_below_quantizer)
