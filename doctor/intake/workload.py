"""A workload from a command line that somebody handed over."""

from __future__ import annotations

from doctor.facts import UNSTATED, Workload, seen
from doctor.intake.environment import SCOPE
from doctor.probes.engine_names import base, engine_of
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
# Programs that load a model for one conversation or measurement: no servers, and as a report's
# command they say as much. A program and the word after it, "" for any.
_TOOLS = {
    ("ollama", "run"): "ollama",
    **{(name, ""): "llama.cpp" for name in ("llama-cli", "llama-bench", "llama-mtmd-cli")},
}


def launched(argv: tuple[str, ...], at: str) -> Workload | None:
    """The engine that a command line starts, with its arguments; None if it starts none."""
    engine = engine_of(argv) or _tool(argv)
    return _workload(engine, argv, at) if engine else None


def _tool(argv: tuple[str, ...]) -> str:
    name, verb = (*map(base, argv[:1]), *argv[1:2], "", "")[:2]
    return _TOOLS.get((name, verb)) or _TOOLS.get((name, ""), "")


def launched_by_image(image: str, argv: tuple[str, ...], at: str) -> Workload | None:
    """The engine that an image is named after; `argv` are then its arguments."""
    name = image.partition("@")[0].rpartition("/")[2] if "/" in image else image
    engine = next((engine for word, engine in _IMAGES if word in f"{image} {name}".lower()), "")
    return _workload(engine, (engine, *argv), at) if engine else None


def _workload(engine: str, argv: tuple[str, ...], at: str) -> Workload:
    args = parse_arguments(engine, argv)
    if argv[1:2] == ("run",):
        args["model"] = next((word for word in argv[2:] if not word.startswith("-")), "")
    return Workload(
        id=engine,
        engine=engine,
        scope=SCOPE,
        args=seen(args, at) if args else UNSTATED,
    )
