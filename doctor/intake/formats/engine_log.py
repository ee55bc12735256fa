"""The log of an engine: kept whole for the signatures, and read for what it says of itself."""

from __future__ import annotations

import re
from typing import Any

from doctor.facts import UNSTATED, Facts, LogText, Reading, Version, Workload, seen
from doctor.facts.arguments import argument_name
from doctor.facts.model import LOG_LIMIT
from doctor.intake.environment import SCOPE
from doctor.probes.tool_text import reading

AT = "log"
_LEVEL = re.compile(
    r"\b(?:INFO|WARNING|WARN|ERROR|CRITICAL|FATAL|DEBUG)\b|\blevel=(?:info|warn|error)"
    r"|Traceback \(most recent call last\)|^\S{0,60}(?:Error|Exception): |\berror:|CUDA error"
    r"|^\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d|^(?:llama|ggml|llm)_\w{2,40}: |core dumped",
    re.MULTILINE,
)
# A log shows what it is at either end.
_ENDS = 16 << 10
_FAILURES = ("Traceback (most recent call last)", "Error: ", "CUDA error", " ERROR ", "core dumped")
# Where engines print their version: a literal, the engine, and the version after it.
_BANNERS = (
    ("vLLM API server version", "vllm", re.compile(r"vLLM API server version v?(\S{1,60})")),
    ("LLM engine (v", "vllm", re.compile(r"LLM engine \(v([^)\s]{1,60})\)")),
    ("ServerArgs(", "sglang", None),
    (
        "[TensorRT-LLM] TensorRT-LLM version",
        "tensorrt-llm",
        re.compile(r"TensorRT-LLM version: (\S{1,60})"),
    ),
    ("text_generation_launcher", "tgi", None),
    (
        'msg="Listening on',
        "ollama",
        re.compile(r"Listening on \S{1,80} \(version ([^)\s]{1,40})\)"),
    ),
    ("system_info: n_threads", "llama.cpp", re.compile(r"\bbuild: (\d{1,9}) \(")),
)
_CONFIG = re.compile(r"(?:with config: |ServerArgs\()([^\n]{1,16000})")
_PAIR = re.compile(r"\b([a-z][a-z_]{1,60})=('[^'\n]{0,300}'|\"[^\"\n]{0,300}\"|[^,\s()']{1,200})")


def looks_like(text: str) -> bool:
    """Tell by levels, times of day or the beginning of a traceback."""
    return _LEVEL.search(text[:_ENDS]) is not None or (
        len(text) > _ENDS and _LEVEL.search(text[-_ENDS:]) is not None
    )


def shows_failure(text: str) -> bool:
    """Tell whether something failed in it, by the words that programs end with."""
    return any(word in text for word in _FAILURES)


def parse(text: str) -> Facts:
    """The log, and the engine that it names itself as."""
    for literal, engine, pattern in _BANNERS:
        if literal in text:
            workload = _workload(text, engine, pattern)
            return Facts(workloads=(workload,), logs=(LogText(text[:LOG_LIMIT], workload.id),))
    return Facts(logs=(LogText(text[:LOG_LIMIT]),))


def _workload(text: str, engine: str, pattern: re.Pattern[str] | None) -> Workload:
    match = pattern.search(text) if pattern else None
    stated = match[1].rstrip(",.") if match else ""
    if engine == "llama.cpp" and stated:
        stated = f"b{stated}"
    args = _arguments(text)
    return Workload(
        id=engine,
        engine=engine,
        scope=SCOPE,
        version=reading(Version.maybe(stated), AT),
        args=args,
    )


def _arguments(text: str) -> Reading[dict[str, Any]]:
    """What an engine says that it was started with, under engine-neutral names."""
    config = _CONFIG.search(text)
    if config is None:
        return UNSTATED
    args: dict[str, Any] = {}
    for match in list(_PAIR.finditer(config[1]))[:300]:
        value = _value(match[2].strip("'\""))
        if value not in (None, ""):
            args.setdefault(argument_name(match[1]), value)
    return seen(args, AT) if args else UNSTATED


def _value(text: str) -> Any:
    if text in ("None", "[]", "{}"):
        return None
    if text in ("True", "False"):
        return text == "True"
    if re.fullmatch(r"-?\d{1,15}", text):
        return int(text)
    if re.fullmatch(r"-?\d{1,15}\.\d{1,12}", text):
        return float(text)
    return text.removeprefix("torch.")
