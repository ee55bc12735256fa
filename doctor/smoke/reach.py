"""How far a proof reaches: what a right answer shows, and what it leaves open. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from doctor.smoke.known import KnownAnswer
from doctor.smoke.steps import State, Step

_FORMS = {
    "f16": "16-bit floats (GGUF)",
    "q8_0": "Q8_0 (GGUF)",
    "q4_0": "Q4_0 (GGUF)",
    "hf": "bfloat16 (safetensors)",
}


def reach(
    known: KnownAnswer | None, form: str, steps: Sequence[Step], device: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What the passed steps prove, and what they leave open.

    `form` is the file's number format ("" if it is not known), `device` where it ran, in
    words. An all-reduce among the steps means that the model was split.
    """
    passed = {step.name for step in steps if step.state is State.PASSED}
    if known is None:
        return _own_model(passed)
    return _known_model(known, form, passed, device)


def _known_model(
    known: KnownAnswer, form: str, passed: set[str], device: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    words = _FORMS.get(form, "the number format that is served")
    proves = []
    if "logprobs" in passed:
        proves.append(
            f"the engine computes a Llama (grouped-query attention, rotary positions, gated MLP) "
            f"right in {words}{f' on {device}' if device else ''}: text and numbers are known"
        )
    elif "text" in passed:
        proves.append("the engine loads a model and says what it should")
    if {"all-reduce", "logprobs"} <= passed:
        proves.append("the model is right when it is split over several devices")
    if "stream" in passed:
        proves.append("it streams, and counts its tokens")
    if "two at once" in passed:
        proves.append("it batches two requests without mixing them")
    open_ = [
        "other models: their architecture, size, weights and tokenizer",
        f"other number formats and quantizations than {words}",
        f"prompts of more than {known.context} tokens, load and speed (doctor bench)",
    ]
    return tuple(proves), tuple(open_)


def _own_model(passed: set[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    proves = []
    if "finite" in passed:
        proves.append("this model's numbers are numbers")
    if "record" in passed:
        proves.append("its figures are those that were recorded")
    if {"stream", "two at once"} <= passed:
        proves.append("it answers, streams and takes two requests at once")
    open_ = ["whether the answers are right: only the known-answer model shows that"]
    return tuple(proves), tuple(open_)
