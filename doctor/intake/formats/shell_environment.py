"""Environment variables as `env`, `export` or `echo $NAME` show them, those that matter here."""

from __future__ import annotations

import re
from itertools import islice

from doctor.facts import Facts, Scope, seen
from doctor.intake.environment import SCOPE
from doctor.probes.environment import allowed

AT = "env"
_SHOWN = re.compile(
    r"^(?:declare -x |export |set )?((?:CUDA|NVIDIA|NCCL|VLLM|SGLANG|OLLAMA|GGML|HSA|HIP|ROCR|"
    r"ASCEND|HCCL|PYTORCH|TORCH|HF|LD|TRITON|GLOO|FLASHINFER)_[A-Z0-9_]{1,60})="
    r"(?:\"([^\n\"]{0,400})\"|'([^\n']{0,400})'|([^\s\"'`;&]{0,400}))[ \t]*$",
    re.MULTILINE,
)
_ASKED = re.compile(
    r"\b(?:echo|printenv) \"?\$?\{?((?:CUDA|NVIDIA|LD|HSA|ROCR|HIP|ASCEND)_[A-Z0-9_]{1,60})\}?\"?"
    r"[ \t]*\n([^\n$#]{0,400})$",
    re.MULTILINE,
)
MARKS = ("CUDA_", "NVIDIA_", "NCCL_", "VLLM_", "SGLANG_", "OLLAMA_", "GGML_", "HSA_", "HIP_",
         "ROCR_", "ASCEND_", "HCCL_", "PYTORCH_", "LD_", "TRITON_", "GLOO_", "HF_")  # fmt: skip


def looks_like(text: str) -> bool:
    """Tell by a line that is a variable with its value and nothing else."""
    return _SHOWN.search(text) is not None or _ASKED.search(text) is not None


def parse(text: str) -> Facts:
    """The variables, in the one environment of a paste."""
    rows = islice(_SHOWN.finditer(text), 200)
    found = {row[1]: (row[2] or row[3] or row[4] or "").strip() for row in rows}
    found |= {row[1]: row[2].strip() for row in islice(_ASKED.finditer(text), 40)}
    known = allowed(found)
    if not known:
        return Facts()
    return Facts(scopes=(Scope(id=SCOPE, kind="venv", env=seen(known, AT, partial=True)),))
