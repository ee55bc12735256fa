"""A workload from a command line that somebody handed over."""

from __future__ import annotations

from doctor.facts import UNSTATED, Workload, seen
from doctor.intake.environment import SCOPE
from doctor.probes.engine_names import engine_of
from doctor.probes.launch_arguments import parse_arguments

# Words in the name of an image whose entry point is the engine itself.
_IMAGES = (
    ("vllm-ascend", "vllm-ascend"),
    ("vllm", "vllm"),
    ("sglang", "sglang"),
    ("text-generation-inference", "tgi"),
    ("tensorrt-llm", "tensorrt-llm"),
    ("lmdeploy", "lmdeploy"),
    ("llama.cpp", "llama.cpp"),
    ("ollama", "ollama"),
)


def launched(argv: tuple[str, ...], at: str) -> Workload | None:
    """The engine that a command line starts, with its arguments; None if it starts none."""
    engine = engine_of(argv)
    return _workload(engine, argv, at) if engine else None


def launched_by_image(image: str, argv: tuple[str, ...], at: str) -> Workload | None:
    """The engine that an image is named after; `argv` are then its arguments."""
    name = image.partition("@")[0].rpartition("/")[2] if "/" in image else image
    engine = next((engine for word, engine in _IMAGES if word in f"{image} {name}".lower()), "")
    return _workload(engine, (engine, *argv), at) if engine else None


def _workload(engine: str, argv: tuple[str, ...], at: str) -> Workload:
    args = parse_arguments(engine, argv)
    return Workload(
        id=engine,
        engine=engine,
        scope=SCOPE,
        args=seen(args, at) if args else UNSTATED,
    )
