"""Which environment variables may be read, and how secrets in their values are cut."""

from __future__ import annotations

import re
from collections.abc import Mapping

CUT = "[cut]"

_PREFIXES = tuple(
    """
    ACL_ ACLNN_ ASCEND_ ATB_ CUBLAS_ CUDA_ CUDNN_ FLASHINFER_ GGML_ GLOO_ GPU_ HCCL_ HF_ HIP_
    HSA_ KMP_ LLAMA_ LMDEPLOY_ MIES_ MINDIE_ MKL_ NCCL_ NVIDIA_ NVTE_ NVSHMEM_ OLLAMA_ OMP_
    OPENBLAS_ PYTORCH_ RCCL_ ROCM_ ROCR_ SAFETENSORS_ SGLANG_ SGL_ TGI_ TLLM_ TORCHINDUCTOR_ TORCH_
    TRANSFORMERS_ TRITON_ TRTLLM_ UCX_ VLLM_ XFORMERS_ XLA_
    """.split()  # noqa: SIM905 - a list of forty quoted names reads worse
)
_NAMES = frozenset(
    """
    CONDA_DEFAULT_ENV CONDA_PREFIX CONTAINER_HOST DOCKER_CONTEXT DOCKER_HOST DTYPE HOME
    HUGGINGFACE_HUB_CACHE LC_ALL
    LD_LIBRARY_PATH LD_PRELOAD MASTER_ADDR MASTER_PORT MAX_TOTAL_TOKENS MODEL_ID NUM_SHARD PATH
    PWD PYTHONHOME PYTHONNOUSERSITE PYTHONPATH QUANTIZE TOKENIZERS_PARALLELISM VIRTUAL_ENV
    WORLD_SIZE XDG_CACHE_HOME XDG_RUNTIME_DIR
    container
    """.split()  # noqa: SIM905
)
_SECRET_NAME = re.compile(
    r"TOKEN(?!IZER)|SECRET|PASSWORD|PASSWD|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|AUTH(?!OR)",
    re.IGNORECASE,
)
_SECRET_VALUE = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{8,}|sk-[A-Za-z0-9_-]{8,}|nvapi-[\w-]{8,}|gh[pousr]_[A-Za-z0-9]{8,}"
    r"|github_pat_\w{8,}|glpat-[\w-]{8,}|xox[abprs]-[\w-]{8,}|AKIA[A-Z0-9]{12,}"
    r"|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)"
)
_URL_LOGIN = re.compile(r"(?<!\w)(\w{1,30}://)[^/@\s]{1,500}@")
_LONGEST = 8192


def allowed(environ: Mapping[str, str]) -> dict[str, str]:
    """Keep the variables that matter here; cut secrets."""
    kept = {name: value for name, value in environ.items() if _is_allowed(name)}
    return {name: cut_secret(name, kept[name]) for name in sorted(kept)}


def _is_allowed(name: str) -> bool:
    return name in _NAMES or name.startswith(_PREFIXES)


def cut_secret(name: str, value: str) -> str:
    """The value without what looks like a token; all of it is cut if the name says so."""
    if _SECRET_NAME.search(name) and value not in ("", "0", "1"):
        return CUT
    return cut_tokens(value[:_LONGEST])


def cut_tokens(text: str) -> str:
    """The text without API tokens and without logins in URLs."""
    return _URL_LOGIN.sub(rf"\1{CUT}@", _SECRET_VALUE.sub(CUT, text))
