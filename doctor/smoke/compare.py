"""An answer against the known one: the text, then the numbers. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from doctor.smoke.calls import Completion
from doctor.smoke.known import KnownAnswer, KnownCase
from doctor.smoke.steps import Failed, Skipped


def check_text(answer: Completion, known: KnownAnswer) -> str:
    """What was seen; raises Failed with the name of what is wrong."""
    said, wanted = answer.text.strip(), known.sentence
    if any(not math.isfinite(value) for value in answer.logprobs):
        raise Failed("nan", f"a log-probability is no number; the text is {shown(said)}")
    if said == wanted:
        if answer.finish and answer.finish != "stop":
            raise Failed("no-eos", f"it ended by {answer.finish!r} and not by its end mark")
        return f"all {len(wanted.split())} words"
    if said and wanted.startswith(said) and answer.finish == "stop":
        count = len(said.split())
        raise Failed("early-eos", f"it stopped after {count} of {len(wanted.split())} words")
    if said.startswith(wanted):
        raise Failed("no-eos", f"it went on after the sentence: {shown(said[len(wanted) :])}")
    raise Failed("wrong-text", f"{_difference(said, wanted)}")


def _difference(said: str, wanted: str) -> str:
    if not said:
        return "no text at all"
    pairs = zip(said.split(), wanted.split(), strict=False)
    place = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
    if place is None:
        return f"it says {shown(said)}"
    words = said.split()[place : place + 4]
    return f"from word {place + 1} on it says {shown(' '.join(words))}"


def shown(text: str) -> str:
    """A short quotation."""
    return repr(text if len(text) <= 60 else f"{text[:57]}...")


def check_logprobs(
    answer: Completion, case: KnownCase, tolerance: float, is_exact: bool = True
) -> str:
    """What was seen; raises Failed, or Skipped if the server gives no log-probabilities.

    `is_exact` tells that the tokens of the prompt are those of the case, because they were
    sent as ids; else the server may have begun them in another way.
    """
    if not answer.logprobs:
        raise Skipped("this server gives no log-probabilities")
    # The end of text is counted as a token by some servers and not by others.
    least = len(case.logprobs) - 1
    if len(answer.logprobs) < least:
        raise Failed("wrong-logprobs", f"{len(answer.logprobs)} values for {least} tokens")
    count = min(len(answer.logprobs), len(case.logprobs))
    worst, place = _worst(answer.logprobs, case.logprobs)
    if worst <= tolerance:
        return f"{count} tokens, off by at most {worst:.4f} of {tolerance:g}"
    for name, logprobs in () if is_exact else case.other_beginnings.items():
        other = largest_error(answer.logprobs, logprobs)
        if other <= tolerance:
            words = f"{name} beginning-of-text token{'s' if name == 'two' else ''}"
            return f"{count} tokens, off by at most {other:.4f} of {tolerance:g} ({words})"
    raise Failed(
        "wrong-logprobs",
        f"off by up to {worst:.3f} (token {place + 1}: {answer.logprobs[place]:.3f} in place "
        f"of {case.logprobs[place]:.3f}); a right engine stays within {tolerance:g}",
    )


def largest_error(found: Sequence[float], wanted: Sequence[float]) -> float:
    """The largest difference of log-probabilities, over the tokens that both have."""
    return _worst(found, wanted)[0]


def _worst(found: Sequence[float], wanted: Sequence[float]) -> tuple[float, int]:
    errors = [abs(a - b) for a, b in zip(found, wanted, strict=False)]
    place = max(range(len(errors)), key=errors.__getitem__)
    return errors[place], place
