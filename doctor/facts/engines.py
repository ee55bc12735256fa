"""Names of engines and of the distributions that carry them; no knowledge of their versions."""

from __future__ import annotations

# Later ones are parts of earlier ones: the first found is the engine of an environment.
ENGINE_ORDER = (
    "vllm-ascend",
    "vllm",
    "sglang",
    "tensorrt-llm",
    "mindie",
    "tgi",
    "lmdeploy",
    "llama-cpp-python",
    "xllamacpp",
    "llama.cpp",
    "ollama",
    "onnxruntime",
    "mlx",
    "tensorrt",
    "torch-npu",
    "torch",
)
# Distributions that carry an engine, best first, where the names differ.
_CARRIERS: dict[str, tuple[str, ...]] = {
    "onnxruntime": ("onnxruntime-gpu", "onnxruntime"),
    "tgi": ("tgi", "text-generation-server"),
    "mlx": ("mlx", "mlx-lm"),
    "sglang": ("sglang",),
}


def carriers(engine: str) -> tuple[str, ...]:
    """The distributions whose version is that of `engine`, best first."""
    return _CARRIERS.get(engine, (engine,))
