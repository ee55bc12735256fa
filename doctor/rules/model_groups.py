"""Quantized weights that tensor parallelism would cut inside of a group of one scale."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from doctor.facts import Missing, MissingFact
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.matrix.architectures import ModelRow
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.model_facts import (
    argument,
    count,
    known_model,
    language_config,
    model_name,
    quantization_of,
    width_of,
)
from doctor.rules.placement import placement

_GROUPED = re.compile(
    r"(?<![a-z0-9])(?:awq|gptq|auto[-_]?round|w4a16|w8a16|int4|4[-_]?bit)(?![0-9])", re.I
)
_OTHERS = re.compile(r"gguf|bnb|bitsandbytes|nf4|mlx|exl2|fp8|fp4|eetq|hqq", re.I)
_GROUP = re.compile(r"(?:[-_](?:gs?|group[-_]?)(\d{2,4})|[-_](\d{2,4})g)(?![a-z0-9])", re.I)
_SIZES = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class _Widths:
    """Inputs of the layers whose rows are split, and how well they are known."""

    mlp: int | None
    attention: int | None
    group: int
    is_sure: bool
    at: str


@rule("MDL404", cause="parallelism-invalid", severity=Severity.ERROR)
def groups_cut_by_ranks(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The tensor-parallel size would cut quantized weights inside of a group.

    What: for AWQ, GPTQ and their kin, the width of the dense part and of the attention
        output, divided by the ranks, against whole groups of one scale (128, if not said).
    Why: each rank holds whole groups; the engine stops with "The input size is not aligned
        with the quantized weight shape" or "is not divisible by min_thread_k".
    How to fix: one of the sizes that the finding names, a checkpoint whose width was padded
        before it was quantized, or a pipeline.
    Silent when: the widths are not known, the maker's own checkpoint is padded, or the model
        is a mixture of experts, whose kernels take smaller groups. A warning where the widths
        are those of the model that was quantized, which somebody may have padded.
    Sources: vllm-project/vllm issues 5675, 13640 and 21695; Qwen documentation on quantization.
    """
    size = count(case, "tensor_parallel_size")
    if not placement(case, matrix).whole_groups or size is None or size == 1:
        raise NotApplicable("no engine that splits weights over ranks")
    widths = _widths(case, matrix)
    if widths.mlp is None:
        raise MissingFact("intermediate_size of the model", Missing.NOT_STATED)
    cut = _cut(widths, size)
    if not cut:
        return
    fitting = [str(n) for n in _SIZES if not _cut(widths, n)]
    yield Fault(
        f"tensor_parallel_size {size} cuts groups of {widths.group} weights: {' and '.join(cut)}",
        evidence=(
            Evidence(f"tensor_parallel_size={size}", argument(case, "tensor_parallel_size")[1]),
            Evidence(f"intermediate size {widths.mlp}", widths.at),
        ),
        remedies=(
            Remedy(f"use tensor_parallel_size {', '.join(fitting)}") if fitting else Remedy("pad"),
            Remedy("or a checkpoint that was padded to whole groups before it was quantized"),
        ),
        severity=None if widths.is_sure else Severity.WARNING,
    )


def _cut(widths: _Widths, size: int) -> list[str]:
    named = (("dense part", widths.mlp), ("attention output", widths.attention))
    return [
        f"{width} columns of the {part} are not {size} times whole groups"
        for part, width in named
        if width is not None and width % (size * widths.group)
    ]


def _widths(case: Case, matrix: Matrix) -> _Widths:
    config = (case.workload.model.value or {}) if case.workload else {}
    merged = language_config(case)
    row = known_model(matrix, _GROUP.sub("", model_name(case)))
    declared = config.get("quantization_config")
    group = _group(case, matrix, declared if isinstance(declared, dict) else {})
    if merged.get("num_experts") or (row is not None and row.experts is not None):
        raise NotApplicable("experts have kernels of their own")
    stated = width_of(merged.get("intermediate_size"))
    if stated is not None:
        return _Widths(stated, _attention(merged), group, True, "model configuration")
    if row is None:
        return _Widths(None, None, group, False, "")
    if _is_padded(row, model_name(case)):
        raise NotApplicable("the maker's own checkpoint is padded to whole groups")
    attention = row.heads * row.head_dim if row.heads and row.head_dim else None
    is_exact = row.repo.lower() == model_name(case).lower() and bool(row.quantization)
    return _Widths(row.intermediate, attention, group, is_exact, f"matrix, {row.repo}")


def _group(case: Case, matrix: Matrix, declared: dict[str, Any]) -> int:
    """The weights of one scale; `NotApplicable` for methods without groups."""
    name = model_name(case)
    stated = str(argument(case, "quantization")[0] or "")
    method = stated or quantization_of({"quantization_config": declared})
    text = f"{method} {name}"
    if _OTHERS.search(text) or not _GROUPED.search(text):
        raise NotApplicable("no quantization by groups")
    told = width_of(declared.get("group_size"))
    if told is not None:
        return told
    if str(declared.get("group_size", "")).startswith("-"):
        raise NotApplicable("one scale for a whole row")
    match = _GROUP.search(name)
    if match is not None:
        return int(match[1] or match[2])
    # What the tools take by themselves.
    return max(form.group for form in matrix.memory.weight_formats)


def _attention(config: dict[str, Any]) -> int | None:
    heads, width = width_of(config.get("num_attention_heads")), width_of(config.get("head_dim"))
    return heads * width if heads and width else width_of(config.get("hidden_size"))


def _is_padded(row: ModelRow, name: str) -> bool:
    """Tell whether the maker pads what it quantizes, and this may be the maker's own.

    A folder or a library may hold it under the maker's name; what was tuned has another.
    """
    owner, _, base = name.lower().rpartition("/")
    maker, _, published = row.repo.lower().partition("/")
    if not row.padded or owner.rpartition("/")[2] == maker:
        return row.padded
    is_here = not owner or name.startswith(("/", ".", "~"))
    named = re.fullmatch(re.escape(published) + r"-(?:awq|gptq-int[48])", base)
    return is_here and named is not None


RULES: tuple[Rule, ...] = (groups_cut_by_ranks,)
