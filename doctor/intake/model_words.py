"""What notes tell of a model: figures under their names in config.json, weights on the host."""

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
_OFFLOADS = ("cpu_offload_gb", "cpu_offload", "offload_folder", "device_map")


def with_told(workload: Workload, notes: tuple[str, ...]) -> Workload:
    """The workload with what notes tell beside its arguments and its model's configuration."""
    config = workload.model.value or {}
    told: dict[str, Any] = {m[1]: int(m[2]) for note in notes for m in _FIGURE.finditer(note)}
    told = {key: value for key, value in told.items() if key not in config}
    if told:
        workload = replace(workload, model=seen({**told, **config}, "notes", partial=True))
    args = workload.args.value or {}
    words = next((match[0] for note in notes if (match := _OFFLOAD.search(note))), "")
    if words and not any(name in args for name in _OFFLOADS):
        args = {**args, "cpu_offload": words}
        workload = replace(workload, args=seen(args, workload.args.at or "notes", partial=True))
    return workload
