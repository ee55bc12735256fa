"""What notes tell of switches."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.intake.field_report import read_field_report


def arguments(note: str, **given_args: Any) -> dict[str, Any]:
    report = {"engine": "pytorch", "engine_args": given_args, "notes": [note]}
    return read_field_report(report).workloads[0].args.value or {}


@pytest.mark.parametrize(
    ("note", "name"),
    [
        ("flash-attention is used", "flash_attention"),
        ("Flash Attention 2 is enabled by the script", "flash_attention"),
        ("the model is loaded with flash_attn", "flash_attention"),
        ("SageAttention 2 is turned on", "sage_attention"),
        ("sage attention is enabled in the settings", "sage_attention"),
        ("torch.compile is on", "torch_compile"),
        ("the trainer uses torch.compile", "torch_compile"),
        ("torch.compile(model) in train.py", "torch_compile"),
    ],
)
def test_a_switch_that_is_on(note: str, name: str) -> None:
    assert arguments(note) == {name: "true"}


@pytest.mark.parametrize(
    "note",
    [
        "flash-attention is not used",
        "pip install flash-attn",
        "pip install sageattention",
        "sageattention 2.2 does not help",
        "flash-attn 2.7.2 needs torch 2.4",
        "it works without torch.compile",
        "torch.compile is off",
        "torch.compile or another back end is on",
        "",
    ],
)
def test_what_is_off_or_only_named(note: str) -> None:
    assert arguments(note) == {}


def test_an_argument_counts_before_a_note() -> None:
    assert arguments("torch.compile is on", torch_compile=False) == {"torch_compile": False}


@given(st.text(max_size=300))
def test_any_note_is_read(note: str) -> None:
    arguments(note)
