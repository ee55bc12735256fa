"""What notes tell of a model: figures of its config.json, what its weights take, and where."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from doctor.facts import Workload, seen

# Names of config.json that nobody uses for anything else, and the figure behind them.
_FIGURE = re.compile(
    r"\b(num_attention_heads|num_key_value_heads|num_hidden_layers|num_experts|hidden_size|"
    r"head_dim|moe_intermediate_size|shared_expert_intermediate_size|intermediate_size|"
    r"vocab_size)\b(?: of (?:the|this|its) model| of it| is|\s?[=:])?\s{0,2}(\d{1,7})\b"
)
_OFFLOAD = re.compile(
    r"\boffload(?:ed|ing|s)?\b|\bdevice_map\b|"
    r"\b(?:on|to|in|into) (?:the )?(?:cpu|host memory|main memory|ram)\b",
    re.IGNORECASE,
)
# Parts beside the model that a person may put on the host: nothing is said of its weights.
_BESIDE = re.compile(r"\b(?:clip|t5\w{0,6}|vae|(?:text |image )?encoders?)\b", re.IGNORECASE)
_WEIGHTS = re.compile(
    r"\bweights?(?: alone)? (?:take|need|use|are)s?(?: of| about)? (\d{1,4}(?:\.\d{1,3})?) ?Gi?B\b"
    r"(?P<each>(?: of| on| per| for)?(?: each| every| a| one)? (?:GPU|card|rank|device)\b)?",
    re.IGNORECASE,
)
# What one request needs of the KV cache and what there is of it, as vLLM prints and people tell it.
_CACHE = r"(?:of )?(?:the )?(?:KV|key[- ]value)[- ]?cache"
_GIB = r"(\d{1,4}(?:\.\d{1,3})?) ?Gi?B"
_NEEDED = re.compile(
    rf"\b{_GIB} {_CACHE}(?: memory)? (?:is|are|was|were|would be) (?:needed|required)\b|"
    rf"\b(?:needs?|requires?) {_GIB} {_CACHE}\b",
    re.IGNORECASE,
)
_LEFT = re.compile(
    rf"\b{_GIB} (?:is|are|was|were) (?:left|available|free) for (?:the )?{_CACHE}\b|"
    rf"\bavailable {_CACHE}(?: memory)?(?: is| of| was|:)? ?\(?{_GIB}\b",
    re.IGNORECASE,
)
_FIGURES = {"kv_needed_gib": _NEEDED, "kv_gib": _LEFT}
_GB_IN_GIB = 1e9 / 2**30
_RANKS = ("tensor_parallel_size", "pipeline_parallel_size")
_OFFLOADS = ("cpu_offload_gb", "cpu_offload", "offload_folder", "device_map")


def with_told(workload: Workload, notes: tuple[str, ...]) -> Workload:
    """The workload with what notes tell beside its arguments and its model's configuration."""
    config = workload.model.value or {}
    told: dict[str, Any] = {m[1]: int(m[2]) for note in notes for m in _FIGURE.finditer(note)}
    told = {key: value for key, value in told.items() if key not in config}
    if told:
        workload = replace(workload, model=seen({**told, **config}, "notes", partial=True))
    args = workload.args.value or {}
    plain = (note for note in notes if not _BESIDE.search(note))
    words = next((match[0] for note in plain if (match := _OFFLOAD.search(note))), "")
    if words and not any(name in args for name in _OFFLOADS):
        args = {**args, "cpu_offload": words}
        workload = replace(workload, args=seen(args, workload.args.at or "notes", partial=True))
    return _with_cache(_with_weights(workload, notes), notes)


def _with_cache(workload: Workload, notes: tuple[str, ...]) -> Workload:
    """The workload with the GiB of KV cache that one request needs, and that there are."""
    measured = workload.measured.value or {}
    told: dict[str, float] = {}
    for name, pattern in _FIGURES.items():
        match = next((m for note in notes if (m := pattern.search(note))), None)
        if match is not None and name not in measured:
            told[name] = float(match[1] or match[2])
    if not told:
        return workload
    return replace(workload, measured=seen({**told, **measured}, "notes", partial=True))


def _with_weights(workload: Workload, notes: tuple[str, ...]) -> Workload:
    """The workload with the weights of a device that a note tells, in GiB.

    A figure for all devices together is left out. Engines print two decimals and call GiB GB;
    a round number of GB is one of people, who count in 10^9.
    """
    args, measured = workload.args.value or {}, workload.measured.value or {}
    match = next((m for note in notes if (m := _WEIGHTS.search(note))), None)
    is_split = any(str(args.get(name, "1")) != "1" for name in _RANKS)
    if match is None or "weights_gib" in measured or (is_split and not match["each"]):
        return workload
    is_round = "." not in match[1] and "gib" not in match[0].lower()
    figure = float(match[1]) * (_GB_IN_GIB if is_round else 1.0)
    return replace(
        workload, measured=seen({**measured, "weights_gib": figure}, "notes", partial=True)
    )
