"""Switches that notes tell of: Flash or SageAttention is used, torch.compile or pinning is on."""

from __future__ import annotations

import re
from dataclasses import replace

from doctor.facts import Workload, seen

_ON = r"(?:is|are|was|gets) (?:used|on|enabled|active|chosen|switched on|turned on|required|needed)"
_FLASH = r"flash[-_ ]?att(?:entio)?n(?:[-_ ]?v?2)?"
_SAGE = r"sage[-_ ]?att(?:entio)?n(?:[-_ ]?v?[23])?"
# Only what says that it is in use: to install it, or to name its version, is something else.
_SWITCHES = {
    "flash_attention": re.compile(
        rf"\b{_FLASH} {_ON}\b|\b(?:uses|using|runs with|loaded with) {_FLASH}\b", re.IGNORECASE
    ),
    "sage_attention": re.compile(
        rf"\b{_SAGE} {_ON}\b|\b(?:uses|using|runs with) {_SAGE}\b", re.IGNORECASE
    ),
    "torch_compile": re.compile(
        rf"\btorch[._]compile\b(?=\(| {_ON}|$)|\b(?:uses|using|with) torch[._]compile\b",
        re.IGNORECASE,
    ),
    "pin_memory": re.compile(
        r"\bpin[-_ ]?memory\b[\"']?(?:\s?[:=]| is| set to)?\s?[\"']?(?:true|on|yes|1|enabled)\b|"
        rf"\b(?:pin[-_ ]memory|pinned memory) {_ON}\b|\b(?:with|uses|using) (?:pin_memory|"
        rf"pinned memory)\b",
        re.IGNORECASE,
    ),
    "convert_checkpoint": re.compile(
        r"\bconvert(?:ing|s)? (?:(?:a|an|the|its|hf|this) )*(?:checkpoint|weights|model)\b|"
        r"\bconvert_(?:checkpoint|hf_to_gguf|hf-to-gguf)\b|\bcheckpoint conversion\b",
        re.IGNORECASE,
    ),
}
# Processes that hand over batches through shared memory.
_LOADERS = re.compile(
    r"\b(?:dataloader_)?num_workers ?[=: ] ?([1-9]\d{0,2})\b|\bdata ?loader (?:with )?("
    r"[1-9]\d{0,2})? ?workers?\b",
    re.IGNORECASE,
)
_NOT = re.compile(r"\b(?:not|no|without|never|instead of|or|off|disabled?)\b", re.IGNORECASE)


def with_switches(workload: Workload, notes: tuple[str, ...]) -> Workload:
    """The workload with the switches that a note says are on, where no argument names them."""
    args = workload.args.value or {}
    told = {
        name: "true"
        for name, words in _SWITCHES.items()
        if name not in args and any(words.search(n) and not _NOT.search(n) for n in notes)
    }
    found = next((m for m in map(_LOADERS.search, notes) if m), None)
    if found and "dataloader_num_workers" not in args:
        told["dataloader_num_workers"] = found[1] or found[2] or "2"
    if not told:
        return workload
    at = workload.args.at or "notes"
    return replace(workload, args=seen({**args, **told}, at, partial=True))
