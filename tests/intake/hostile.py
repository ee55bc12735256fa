"""Texts of a megabyte that are made to be slow for those who recognise what was pasted."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

import yaml

HERE = Path(__file__).parent
MEGABYTE = 1 << 20
# Pieces that patterns begin with, and marks of formats, to be repeated without end.
PIECES = (
    *("\n", " \n", "a", "1.", "|\n", "- ", "[", "{", '"', "\x1b[", "```\n", "$ x\n"),
    *("a: b\n", "a=b\n", "engine: x\n", "NPU ID : 1\n", "GPU 0: a\n", "GPU0 ", "GPU0\t"),
    *("a==1\n", "a 1.1\n", "Linux a 1.1 #", "docker run -", "vllm serve a ", "[[package]]\n"),
    *("| 0  A100 On | ", "ID=1\nNAME=\n", "x@y:", "NVRM: ", "NVRM: Xid (PCI:0000): 79\n"),
    *("CUDA used to build PyTorch", "NVIDIA-SMI ", "\nii  a 1\n", "]: ", "ServerArgs(", "a=1, "),
    *("LLM engine (v", "Server Version:\n", '{"HostConfig": ', "<nvidia_smi_log>", "Version: "),
)


def _filled(piece: str) -> str:
    return (piece * (MEGABYTE // len(piece) + 1))[:MEGABYTE]


def _shuffled(lines: list[str]) -> str:
    rnd, parts, size = random.Random(11), [], 0  # noqa: S311 - repeatable, not secret
    while size < MEGABYTE:
        parts.append(rnd.choice(lines))
        size += len(parts[-1]) + 1
    return "\n".join(parts)[:MEGABYTE]


def _samples() -> dict[str, str]:
    rows = yaml.safe_load((HERE / "samples.yaml").read_text())
    return {row["file"]: (HERE / "samples" / row["file"]).read_text() for row in rows}


def _hostile() -> dict[str, Callable[[], str]]:
    samples = _samples()
    lines = [line for text in samples.values() for line in text.split("\n")]
    one_line = [line.replace("\n", " ") for line in lines]
    return {
        **{f"{piece!r} repeated": partial(_filled, piece) for piece in PIECES},
        **{f"{name} repeated": partial(_filled, text) for name, text in samples.items()},
        "lines of all samples": lambda: _shuffled(lines),
        "all samples after another": lambda: _filled("\n".join(samples.values())),
        "all samples, fenced": lambda: _filled("\n```\n".join(samples.values()) + "\n```\n"),
        "all samples in one line": lambda: _filled(" ".join(one_line)),
    }


HOSTILE = _hostile()
