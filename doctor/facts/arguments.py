"""Engine-neutral names of engine arguments: one vocabulary for reports and command lines."""

from __future__ import annotations

import re

_NEUTRAL = {
    "tp": "tensor_parallel_size",
    "tp_size": "tensor_parallel_size",
    "tensor_parallel": "tensor_parallel_size",
    "model_parallel_size": "tensor_parallel_size",
    "mp_size": "tensor_parallel_size",
    "num_shard": "tensor_parallel_size",
    "pp": "pipeline_parallel_size",
    "pp_size": "pipeline_parallel_size",
    "pipeline_parallel": "pipeline_parallel_size",
    "dp": "data_parallel_size",
    "dp_size": "data_parallel_size",
    "ep": "expert_parallel_size",
    "ep_size": "expert_parallel_size",
    "model_path": "model",
    "model_id": "model",
    "c": "max_model_len",
    "ctx": "max_model_len",
    "n_ctx": "max_model_len",
    "ctx_size": "max_model_len",
    "num_ctx": "max_model_len",
    "context_length": "max_model_len",
    "max_seq_len": "max_model_len",
    "session_len": "max_model_len",
    "quant": "quantization",
    "quantize": "quantization",
    "quant_algo": "quantization",
    "qformat": "quantization",
    "attn_implementation": "attention_backend",
    "attn_backend": "attention_backend",
    "attention_config.backend": "attention_backend",
    "torch_dtype": "dtype",
    "compute_type": "dtype",
    "quantisation": "quantization",
    "kv_dtype": "kv_cache_dtype",
    "mem_fraction_static": "gpu_memory_utilization",
    "cache_max_entry_count": "gpu_memory_utilization",
    "ngl": "n_gpu_layers",
    "gpu_layers": "n_gpu_layers",
    "num_gpu_layers": "n_gpu_layers",
    "gpulayers": "n_gpu_layers",
    "num_gpu": "n_gpu_layers",
    "use_mlock": "mlock",
    "use_mmap": "mmap",
    "fa": "flash_attn",
    "max_running_requests": "max_num_seqs",
}


def argument_name(name: str) -> str:
    """The engine-neutral name of an argument: "--tp" and "tp_size" are tensor_parallel_size."""
    lowered = re.sub(r"[-\s]+", "_", name.strip().lstrip("-").lower())[:100]
    return _NEUTRAL.get(lowered, lowered)
