"""Outputs that a person quotes in notes, or that stand in a log: what kernel or tools printed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from doctor.facts import Facts, LogText
from doctor.intake.formats import (
    collect_env,
    device_files,
    docker_config,
    docker_info,
    kernel_log,
    kernel_modules,
    ldd,
    lspci,
    memory,
    nvcc,
    nvidia_files,
    nvidia_smi_failure,
    nvidia_smi_query,
    nvidia_smi_table,
    shell_environment,
    shell_limits,
    tool_versions,
    topology,
)
from doctor.probes import npu_smi, npu_smi_failure, rocm_smi
from doctor.probes.tool_text import LIMIT

# Formats of which one line is enough, and that nobody writes as prose.
_LINES = (
    kernel_log,
    kernel_modules,
    nvidia_smi_failure,
    npu_smi_failure,
    device_files,
    nvidia_files,
    docker_info,
    nvcc,
    ldd,
    lspci,
    tool_versions,
)
# Those that take several lines.
_BLOCKS: tuple[Any, ...] = (
    *_LINES,
    collect_env,
    docker_config,
    memory,
    nvidia_smi_query,
    nvidia_smi_table,
    npu_smi,
    rocm_smi,
    shell_environment,
    shell_limits,
    topology,
)


def quoted(notes: tuple[str, ...]) -> Iterator[Facts]:
    """Facts of each quoted output; all lines stay as a log of what a person wrote."""
    lines = [line for note in notes for line in note.splitlines() if line.strip()]
    for line in lines:
        yield from _read(line, _LINES)
    for note in notes:
        if "\n" in note.strip():
            yield from _read(note, _BLOCKS)
    if lines:
        yield Facts(logs=(LogText("\n".join(lines), prose=True),))


def in_log(text: str) -> Iterator[Facts]:
    """Facts of outputs of tools that stand in a log between its lines."""
    yield from _read(text[:LIMIT], _BLOCKS)


def _read(text: str, kinds: tuple[Any, ...]) -> Iterator[Facts]:
    for kind in kinds:
        if kind.looks_like(text):
            yield replace(kind.parse(text), logs=())
