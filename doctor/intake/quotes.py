"""Outputs that a person quotes in notes, or that stand in a log: what kernel or tools printed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from doctor.facts import Facts, HostFacts, LogText, NvidiaFacts, Version, seen
from doctor.intake.formats import (
    collect_env,
    command_line,
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
from doctor.probes.tool_text import LIMIT, reading

# The head of nvidia-smi's table, of which people copy a part.
_DRIVER = re.compile(r"\bDriver Version: {1,4}(\d{3}\.\d{1,3}(?:\.\d{1,3})?)\b")
_CUDA = re.compile(r"\bCUDA Version: {1,4}(\d{2}\.\d)\b")
_TAKEN = re.compile(
    r"\bport:? (\d{2,5}) (?:is |was |has been )?(?:already |still )?"
    r"(?:taken|occupied|in use|used by|busy|bound by|held by)\b",
    re.IGNORECASE,
)
# What stands in a command names things, and says nothing of them.
_COMMAND = re.compile(
    r"\s{0,8}[$#>]?\s{0,4}(?:sudo )?(?:uv )?(?:pip3? (?!find|found|say|report|print|fail|refuse|"
    r"complain|could|can|will|does|did|is |was )|(?:conda|mamba|apt(?:-get)?|dnf|yum|zypper|"
    r"pacman|git|cmake|make|export|docker run|python3? -m) )[\w/.=:-]",
    re.IGNORECASE,
)
# A sentence whose subject is a command: "pip install x brings torch 2.5".
_OF_COMMAND = re.compile(
    r"\binstall (?:\S{1,60} ){1,4}(?:brings|brought|pulls|pulled|replaces|replaced|upgrades|"
    r"upgraded|downgrades|downgraded) ",
    re.IGNORECASE,
)
_BUILD = re.compile(
    r"\b(?:buil[dt]|builds|building|compil(?:es?|ed|ing)|install(?:ed|ing)?) (?:\S{1,30} ){0,3}"
    r"(?:from|out of) (?:the )?(?:source|checkout|git)\b|\bsource build\b|"
    r"\bpip3? install (?:-{1,2}[\w=-]{1,40} ){0,4}(?:-e )?\.(?=\s|$|\[)|"
    r"\bpip3? install [^;|]{0,200}(?:git\+|--no-build-isolation|--no-binary)|"
    r"^\s{0,8}make(?:$| (?:-[jC]|of |for |install\b|all\b))|"
    r"^\s{0,8}cmake (?:-[BDS]|--build\b|\.\.?(?:\s|$))|"
    r"\bsetup\.py (?:install|develop|build|bdist)|\bJIT[- ]?compil|"
    r"\b(?:build(?:ing)?|compil(?:e|es|ing)) (?:the )?(?:own )?(?:apex|auto-?awq|auto-?gptq|"
    r"causal[-_]conv1d|deepspeed|detectron2|exllama\w*|flash[-_ ]?att\w*|mamba[-_]ssm|mmcv|"
    r"pytorch3d|sage-?attention|sgl-kernel|vllm|xformers)\b",
    re.IGNORECASE,
)
# How a line begins that is nothing but the command which starts an engine.
_COMMANDS = (
    *("docker run", "podman run", "vllm serve", "sglang serve", "lmdeploy serve", "trtllm-serve"),
    *("python -m ", "python3 -m ", "text-generation-launcher", "CUDA_VISIBLE_DEVICES="),
    *("llama-server", "./llama-server", "llama-cli", "./llama-cli", "ollama serve", "ollama run"),
)
# Installed with no index named: what the default one carries.
_PLAIN = re.compile(
    r"\bpip3? install (?!.{0,200}(?:index|-i |-f |find-links|git\+|https?:|\.whl|--torch-backend))|"
    r"\bfrom PyPI\b"
)
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
        yield _head(line)
    ports = tuple(sorted({int(m[1]) for line in lines for m in _TAKEN.finditer(line)}))
    if ports:
        taken = seen(ports, "notes", partial=True)
        yield Facts(host=HostFacts(listening_ports=taken))
    for note in notes:
        if "\n" in note.strip():
            yield from _read(note, _BLOCKS)
    said = [line for line in lines if not _COMMAND.match(line) or _OF_COMMAND.search(line)]
    if said:
        yield Facts(logs=(LogText("\n".join(said), prose=True),))


def building(notes: tuple[str, ...]) -> str:
    """The line by which somebody says that the engine is compiled on this host, or ""."""
    lines = (line for note in notes for line in note.splitlines())
    return next((line.strip() for line in lines if _BUILD.search(line)), "")


def plainly(notes: tuple[str, ...]) -> str:
    """The line by which somebody says that things came from the default index, or ""."""
    lines = (line for note in notes for line in note.splitlines())
    return next((line.strip() for line in lines if _PLAIN.search(line)), "")


def _head(line: str) -> Facts:
    """The driver and the CUDA version that it offers, as nvidia-smi's first rows name them."""
    driver, cuda = _DRIVER.search(line), _CUDA.search(line)
    is_smi = driver is not None or "nvidia-smi" in line.lower()
    return Facts(
        nvidia=NvidiaFacts(
            driver=reading(Version.maybe(driver[1]) if driver else None, "notes"),
            cuda_driver_api=reading(Version.maybe(cuda[1]) if cuda and is_smi else None, "notes"),
        )
    )


def started(notes: tuple[str, ...], engine: str) -> Iterator[Facts]:
    """The first note that is nothing but the command which starts that engine."""
    for note in notes:
        line = note.strip().lstrip("$#>` ")
        begins = line.removeprefix("sudo ").startswith(_COMMANDS)
        read = command_line.parse(line) if begins else Facts()
        if [work.engine for work in read.workloads] == [engine]:
            yield read
            return


def in_log(text: str) -> Iterator[Facts]:
    """Facts of outputs of tools that stand in a log; of failures its signatures speak."""
    failures = (kernel_log, nvidia_smi_failure, npu_smi_failure)
    yield from _read(text[:LIMIT], tuple(kind for kind in _BLOCKS if kind not in failures))


def _read(text: str, kinds: tuple[Any, ...]) -> Iterator[Facts]:
    for kind in kinds:
        if kind.looks_like(text):
            yield replace(kind.parse(text), logs=())
