"""Outputs that a person quotes in the notes of a report: what the kernel or a tool printed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from doctor.facts import Facts, LogText
from doctor.intake.formats import kernel_log, kernel_modules, nvidia_smi_failure
from doctor.probes import npu_smi_failure

# Formats of which one line is enough, and that nobody writes as prose.
_QUOTABLE = (kernel_log, kernel_modules, nvidia_smi_failure, npu_smi_failure)


def quoted(notes: tuple[str, ...]) -> Iterator[Facts]:
    """Facts of each quoted output; all lines stay as a log of what a person wrote."""
    lines = [line for note in notes for line in note.splitlines() if line.strip()]
    for line in lines:
        for kind in _QUOTABLE:
            if kind.looks_like(line):
                yield replace(kind.parse(line), logs=())
    if lines:
        yield Facts(logs=(LogText("\n".join(lines), prose=True),))
