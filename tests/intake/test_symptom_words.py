"""What notes tell of a service that runs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.intake.field_report import read_field_report


def symptoms(note: str) -> set[str]:
    report = {"engine": "vllm", "notes": [note]}
    return set(read_field_report(report).workloads[0].symptoms.value or {})


@pytest.mark.parametrize(
    ("note", "name"),
    [
        ("the first 10 requests take 20 seconds each", "slow_at_first"),
        ("it takes 6 minutes until ready", "slow_at_first"),
        ("the full prompt is evaluated again on every request", "computed_again"),
        ("prefix cache hit rate is 0.0 %", "computed_again"),
        ("nvidia-smi shows the GPU at 20-30 %", "device_idle"),
        ("40 requests wait in the queue", "requests_wait"),
        ("one CPU core at 100 %", "processor_busy"),
        ("scores fall against the bf16 model", "poor_output"),
        ("output becomes gibberish after 8k tokens", "garbled_output"),
        ("two containers with --network host", "second_server"),
        ("12 GiB reserved but unallocated", "unused_reserve"),
        ("fails to allocate although 10 GiB are free", "free_yet_refused"),
        ("token usage stays at 0.4 with nothing running", "memory_held"),
        ("TP 4 is slower than TP 1", "slower_split"),
    ],
)
def test_what_is_told(note: str, name: str) -> None:
    assert name in symptoms(note)


@pytest.mark.parametrize(
    "note",
    [
        "time to first token is 0.2 s",
        "the first start downloads the model",
        "prefix cache hit rate 70 %",
        "cached tokens: 0.8 of all",
        "GPU memory at 40 %",
        "GPU at 95 %",
        "answers are as good as before",
        "another vllm server runs on the same host on another port",
        "20 GiB are free before the start",
        "memory is at 90 % from the start",
        "faster than with two cards",
    ],
)
def test_what_tells_of_nothing(note: str) -> None:
    assert symptoms(note) == set()


@given(st.text(max_size=300))
def test_no_text_stops_it(note: str) -> None:
    symptoms(note)
