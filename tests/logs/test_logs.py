"""Signatures find the first real error, and facts tell candidate causes apart."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.diagnose import HOST_SCOPE
from doctor.facts import Device, Facts, HostFacts, Workload, seen
from doctor.facts import LogText as LogFact
from doctor.logs import find_matches, suspect
from doctor.logs.conditions import CONDITIONS
from doctor.logs.text import WHOLE_LIMIT, LogText
from doctor.logs.typed import lowered
from doctor.matrix import load_matrix
from doctor.matrix.catalogue import Signature
from tests.logs.hostile import HOSTILE

MATRIX = load_matrix()
WORKLOAD = Workload("w", "vllm")
NOISE = "INFO 11-29 12:00:00 metrics.py: running 3 reqs, GPU KV cache usage 12%\n"


def _facts(log: str, **host: object) -> Facts:
    return Facts(
        host=HostFacts(**host),  # type: ignore[arg-type]
        devices=seen((Device("gpu0", "nvidia"),)),
        logs=(LogFact(log),),
    )


def _causes(log: str, **host: object) -> tuple[str, ...]:
    found = suspect(_facts(log, **host), HOST_SCOPE, WORKLOAD, MATRIX)
    return found.causes if found else ()


def test_the_first_real_error_counts_not_the_last() -> None:
    log = (
        "Traceback (most recent call last):\n"
        "ImportError: libnuma.so.1: cannot open shared object file\n"
        "RuntimeError: Engine core initialization failed\n"
        "OSError: [Errno 98] Address already in use\n"
    )
    found = suspect(_facts(log), HOST_SCOPE, WORKLOAD, MATRIX)
    assert found is not None
    assert found.causes[0] == "system-lib-missing"
    assert found.match.number == 2


def test_a_consequence_yields_to_a_later_cause() -> None:
    log = (
        "Engine core initialization failed\n"
        "Error 803: system has unsupported display driver / cuda driver combination\n"
    )
    assert _causes(log)[0] == "driver-library-mismatch"


def test_the_same_words_mean_another_cause_on_another_platform() -> None:
    words = "RuntimeError: No CUDA GPUs are available"
    assert _causes(words, platform=seen("wsl2"))[0] == "wsl-specific"
    assert _causes(words, platform=seen("bare"))[0] == "gpu-not-visible"


def test_words_that_fit_two_causes_leave_both_open() -> None:
    log = "nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1: x"
    found = suspect(_facts(log), HOST_SCOPE, WORKLOAD, MATRIX)
    assert found is not None
    assert found.causes[:2] == ("driver-not-loaded", "container-runtime")
    assert not found.certain


def test_a_healthy_log_says_nothing() -> None:
    assert _causes(NOISE * 20 + "INFO: Application startup complete.\n") == ()


def test_an_error_in_the_middle_of_a_long_log_is_found() -> None:
    log = NOISE * 5000 + "The NVIDIA driver on your system is too old\n" + NOISE * 5000
    found = suspect(_facts(log), HOST_SCOPE, WORKLOAD, MATRIX)
    assert found is not None
    assert (found.causes[0], found.match.number) == ("driver-too-old", 5001)


@pytest.mark.parametrize("signature", MATRIX.signatures, ids=lambda s: str(s.id))
def test_signature_is_sound(signature: Signature) -> None:
    assert signature.any or signature.all
    assert signature.candidates
    assert signature.meaning
    re.compile(signature.pattern)
    for candidate in signature.candidates:
        assert candidate.cause in MATRIX.causes
        assert {key.partition(":")[0] for key in candidate.when} <= set(CONDITIONS)


# What no words have: a person does not write these, a pattern does.
PATTERN = re.compile(r"\(\?|\\[bdsw]|\.\{|\.[*+]|[\])]\?|\w\?(?=\w)")


@pytest.mark.parametrize("signature", MATRIX.signatures, ids=lambda s: str(s.id))
def test_conditions_of_words_are_words(signature: Signature) -> None:
    """A pattern among them is compared letter by letter, and its bits say other things."""
    for candidate in signature.candidates:
        words = (candidate.when.get(key, "") for key in ("line", "near", "log", "log_lacks"))
        assert not [text for text in words if PATTERN.search(text)]
        re.compile(candidate.when.get("line_like", ""))


def test_ids_are_unique() -> None:
    ids = [signature.id for signature in MATRIX.signatures]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("signature", MATRIX.signatures, ids=lambda s: str(s.id))
def test_pattern_is_linear(signature: Signature) -> None:
    """Without an anchor a pattern is tried at every letter: each try must end soon."""
    conditions = [candidate.when.get("line_like", "") for candidate in signature.candidates]
    for pattern in (signature.pattern, *conditions):
        parts = re.sub(r"\\.|\[(?:\\.|[^\]])*\]", "x", pattern)
        if not parts.startswith("^(?!"):
            assert re.search(r"[*+]|\{\d+,\}", parts) is None
        widest = (int(number) for number in re.findall(r",(\d+)\}", parts))
        assert max(widest, default=0) <= 300


def test_a_warning_alone_makes_no_error() -> None:
    log = "WARNING 11-20 [x.py] FlashAttention only supports Ampere GPUs or newer.\n"
    found = suspect(_facts(log), HOST_SCOPE, WORKLOAD, MATRIX)
    assert found is not None
    assert found.remark
    later = suspect(_facts(log + "RuntimeError: Not enough memory."), HOST_SCOPE, WORKLOAD, MATRIX)
    assert later is not None
    assert later.causes == found.causes


def test_an_error_counts_before_an_earlier_warning() -> None:
    warning = "WARNING 11-20 [x.py] FlashAttention only supports Ampere GPUs or newer.\n"
    assert _causes(warning + "OSError: [Errno 98] Address already in use")[0] == "port-in-use"


def test_no_letter_changes_the_length() -> None:
    """Places in small letters are places in the text."""
    every = "".join(map(chr, range(0x110000)))
    assert len(lowered(every)) == len(every)


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_of_a_megabyte_little_is_looked_at(name: str) -> None:
    """The work that can grow with the text is bounded, whatever the text is made of."""
    text = HOSTILE[name](MATRIX.signatures)
    log = LogText(text)
    assert len(log.cut) <= 2 * WHOLE_LIMIT
    for match in find_matches(text, MATRIX.signatures):
        assert log.plain.startswith(match.line, match.place)
        assert match.number == log.plain.count("\n", 0, match.place) + 1


WORDS = st.sampled_from(["cuda", "error", "libcuda.so", "a", "not", "found", "_x", "ERROR", "9"])
LINES = st.lists(WORDS, max_size=8).map(" ".join)


@given(st.lists(LINES, max_size=8), st.lists(WORDS, min_size=1, max_size=4))
@settings(max_examples=200, deadline=None)
def test_the_index_finds_what_a_search_finds(lines: list[str], words: list[str]) -> None:
    text, literal = "\n".join(lines), " ".join(words).lower()
    found = re.search(_expected(literal), text.lower())
    assert next(LogText(text).places(literal), -1) == (found.start() if found else -1)


def _expected(literal: str) -> str:
    """A literal of a single word stands where a word begins."""
    single = re.fullmatch("[a-z0-9_]{2,}", literal)
    return (r"(?<![a-z0-9_])" if single else "") + re.escape(literal)


@given(st.text(max_size=2000))
@settings(max_examples=50, deadline=None)
def test_no_text_breaks_it(text: str) -> None:
    for match in find_matches(text, MATRIX.signatures):
        assert match.number >= 1


@given(st.lists(st.sampled_from([s.any[0] for s in MATRIX.signatures if s.any]), max_size=6))
@settings(max_examples=50, deadline=None)
def test_matches_are_sorted(literals: list[str]) -> None:
    matches = find_matches("\n".join(literals), MATRIX.signatures)
    kinds = [match.signature.consequence for match in matches]
    assert kinds == sorted(kinds)
