"""Engines that run on this host, recognised by their command lines."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Optional

from doctor.facts import Missing, Reading, missing, seen
from doctor.probes.environment import allowed
from doctor.probes.files import relay
from doctor.probes.host import Host

_COMMAND_LIMIT = 1 << 16
# What stands in a command line: a module after -m, a program, or a program and its verb.
_MODULES = {
    "vllm.entrypoints": "vllm",
    "sglang.launch_server": "sglang",
    "llama_cpp.server": "llama-cpp-python",
    "tensorrt_llm": "tensorrt-llm",
    "lmdeploy": "lmdeploy",
    "mlx_lm.server": "mlx",
}
_PROGRAMS = {
    "text-generation-launcher": "tgi",
    "llama-server": "llama.cpp",
    "trtllm-serve": "tensorrt-llm",
    "mindieservice_daemon": "mindie",
    "mlx_lm.server": "mlx",
}
_VERBS = {
    ("vllm", "serve"): "vllm",
    ("sglang", "serve"): "sglang",
    ("ollama", "serve"): "ollama",
    ("ollama", "runner"): "ollama",
    ("lmdeploy", "serve"): "lmdeploy",
}
# Distributions that bring an engine and are not called after it.
_CARRIERS = {
    "tgi": ("text-generation-server",),
    "llama.cpp": ("xllamacpp",),
    "mlx": ("mlx-lm",),
}
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*t?")
_CONTAINER = re.compile(r"(?:docker[-/]|libpod[-/]|cri-containerd-|/)([0-9a-f]{64})")


@dataclass(frozen=True)
class EngineProcess:
    """A running engine; `python` is the interpreter that its command line names, if any.

    `container` is the id of the container that it runs in, "" for none.
    """

    pid: int
    engine: str
    argv: tuple[str, ...]
    python: str = ""
    container: str = ""


def read(host: Host) -> Reading[tuple[EngineProcess, ...]]:
    """The engines' main processes; a process of an engine's own child is left out."""
    names = host.list_dir("/proc")
    if names.value is None:
        return relay(names)
    pids = sorted(int(name) for name in names.value if name.isascii() and name.isdigit())
    if not pids:
        return missing(Missing.NOT_STATED, "/proc")
    found: dict[int, EngineProcess] = {}
    for pid in pids:
        argv = parse_cmdline(host.read_text(f"/proc/{pid}/cmdline", _COMMAND_LIMIT).value or "")
        engine = engine_of(argv)
        if engine and not _is_child(host, pid, found):
            container = container_of(host.read_text(f"/proc/{pid}/cgroup", 1 << 14).value or "")
            python = "" if container else _interpreter(host, pid, argv)
            found[pid] = EngineProcess(pid, engine, argv, python, container)
    return seen(tuple(found.values()), "/proc")


def distributions_of(engine: str) -> tuple[str, ...]:
    """Names of the distributions that may bring an engine."""
    return (engine, re.sub(r"[^a-z0-9]+", "-", engine), *_CARRIERS.get(engine, ()))


def environ_of(host: Host, pid: int) -> Reading[dict[str, str]]:
    """Environment of a process, by the allow-list."""
    text = host.read_text(f"/proc/{pid}/environ", 1 << 18)
    if text.value is None:
        return relay(text)
    pairs = (entry.partition("=") for entry in text.value.split("\0"))
    return seen(allowed({name: value for name, _, value in pairs if name}), text.at)


def parse_cmdline(text: str) -> tuple[str, ...]:
    """Read /proc/PID/cmdline: arguments that end in NUL."""
    return tuple(text.rstrip("\0").split("\0")) if text.strip("\0") else ()


def engine_of(argv: tuple[str, ...]) -> str:
    """The engine that a command line starts, or ""."""
    words = argv
    if words and _PYTHON.fullmatch(_base(words[0])):
        words = _after_options(words[1:])
        if words[:1] == ("-m",) and len(words) > 1:
            return _by_module(words[1], words[2:])
    if not words:
        return ""
    program = _base(words[0])
    by_verb = _VERBS.get((program, words[1])) if len(words) > 1 else None
    return by_verb or _PROGRAMS.get(program, "")


def _by_module(module: str, rest: tuple[str, ...]) -> str:
    for prefix, engine in _MODULES.items():
        if module == prefix or module.startswith(prefix + "."):
            return engine
    return _VERBS.get((module.partition(".")[0], rest[0]), "") if rest else ""


def _after_options(words: tuple[str, ...]) -> tuple[str, ...]:
    """Pass over options of the interpreter itself, such as -u or -X dev."""
    while words and words[0].startswith("-") and words[0] != "-m":
        words = words[2:] if words[0] in ("-X", "-W") else words[1:]
    return words


def _base(path: str) -> str:
    return path.rpartition("/")[2]


def container_of(cgroup: str) -> str:
    """The container id in /proc/PID/cgroup, or ""."""
    match = _CONTAINER.search(cgroup)
    return match[1] if match else ""


def _is_child(host: Host, pid: int, found: dict[int, EngineProcess]) -> bool:
    return bool(found) and parse_parent(host.read_text(f"/proc/{pid}/stat", 4096).value) in found


def parse_parent(stat: Optional[str]) -> int:
    """Field 4 of /proc/PID/stat; 0 if it cannot be read."""
    fields = (stat or "").rpartition(") ")[2].split()
    return int(fields[1]) if len(fields) > 1 and re.fullmatch(r"[0-9]{1,10}", fields[1]) else 0


def _interpreter(host: Host, pid: int, argv: tuple[str, ...]) -> str:
    """The Python of the command line, else that of the environment that was active."""
    if not _PYTHON.fullmatch(_base(argv[0])):
        return ""
    if argv[0].startswith("/"):
        return argv[0]
    root = (environ_of(host, pid).value or {}).get("VIRTUAL_ENV", "")
    return f"{root}/bin/{_base(argv[0])}" if root else ""
