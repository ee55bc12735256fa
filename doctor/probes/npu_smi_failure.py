"""What npu-smi says instead of a table when it cannot reach the driver."""

from __future__ import annotations

from doctor.facts import AscendFacts, Facts, LogText, Missing, missing, seen

AT = "npu-smi info"
# Sentences of the tool (npu_info_print.c and the loader), in the order in which they decide.
_SENTENCES = (
    "dcmi module initialize failed",
    "dcmi model initialized failed",
    "npu get board type failed",
    "Failed to execute npu-smi",
    "npu-smi: command not found",
    "npu-smi: error while loading shared libraries",
)
_NO_CARD = "There is no NPU card on this server"
MARKS = (*_SENTENCES, _NO_CARD)


def looks_like(text: str) -> bool:
    """Tell by the tool's own sentences."""
    return any(mark in text for mark in MARKS)


def parse(text: str) -> Facts:
    """The sentence itself, as an answer and as a log: which cause it has others tell."""
    if _NO_CARD in text:
        return Facts(devices=seen((), AT))
    places = [text.find(sentence) for sentence in _SENTENCES]
    start = next((place for place in places if place >= 0), -1)
    if start < 0:
        return Facts()
    line = text[text.rfind("\n", 0, start) + 1 :][:300].split("\n", 1)[0].strip()
    if "command not found" in line:
        return Facts(ascend=AscendFacts(smi_error=missing(Missing.NOT_THERE, AT)))
    return Facts(ascend=AscendFacts(smi_error=seen(line, AT)), logs=(LogText(line),))
