"""Command lines that start an engine: directly, or in a container with `docker run`."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from itertools import islice

from doctor.facts import UNSTATED, Facts, ImageRef, Scope, Workload, seen
from doctor.intake.devices import memory_of
from doctor.intake.environment import SCOPE
from doctor.intake.workload import launched, launched_by_image
from doctor.probes.environment import allowed
from doctor.probes.tool_text import reading

AT = "command line"
_START = re.compile(
    r"(?:^|[ \t`$#>])((?:sudo |nohup |exec )?(?:[A-Z][A-Z0-9_]{2,60}=\S{0,200} ){0,20}"
    r"(?:(?:docker|podman|nerdctl) (?:container )?run |vllm serve |sglang serve |lmdeploy serve "
    r"|python3? -m (?:vllm|sglang|lmdeploy|tensorrt_llm|mlx_lm|llama_cpp)\.|trtllm-serve "
    r"|text-generation-launcher |ollama (?:serve|run)\b"
    r"|(?:\S{0,200}/)?llama-(?:server|cli|bench|mtmd-cli) )[^\n]{0,4000})",
    re.MULTILINE,
)
MARKS = (
    *("docker run", "podman run", "nerdctl run", "container run", "vllm serve", "sglang serve"),
    *("lmdeploy serve", "-m vllm.", "-m sglang.", "-m lmdeploy.", "-m tensorrt_llm.", "-m mlx_lm."),
    *("-m llama_cpp.", "trtllm-serve", "text-generation-launcher", "llama-server", "llama-cli"),
    *("llama-bench", "llama-mtmd-cli", "ollama serve", "ollama run"),
)
_CONTINUED = re.compile(r"[ \t]*\\[ \t]*\n[ \t]*")
_ASSIGNMENT = re.compile(r"([A-Z][A-Z0-9_]{2,60})=(.*)", re.DOTALL)
# Options of `docker run` that take no value.
_SWITCHES = re.compile(
    r"-[ditP]{1,4}|--(?:detach|interactive|tty|rm|privileged|init|read-only|no-healthcheck"
    r"|oom-kill-disable|publish-all|sig-proxy)"
)


def looks_like(text: str) -> bool:
    """Tell by a line that starts an engine or a container."""
    return _START.search(text) is not None


def parse(text: str) -> Facts:
    """The engine with its arguments; for a container also its scope. The first that names one."""
    joined = _CONTINUED.sub(" ", text)
    found = [_facts(match[1]) for match in islice(_START.finditer(joined), 12)]
    return next((facts for facts in found if facts.workloads or facts.scopes), Facts())


def _facts(line: str) -> Facts:
    try:
        words = shlex.split(line.rstrip("`"))
    except ValueError:
        words = line.split()
    env: dict[str, str] = {}
    while words and (words[0] in ("sudo", "nohup", "exec") or _ASSIGNMENT.fullmatch(words[0])):
        assigned = _ASSIGNMENT.fullmatch(words.pop(0))
        if assigned:
            env[assigned[1]] = assigned[2]
    if words[:1] and words[0] in ("docker", "podman", "nerdctl"):
        return _container(words[words.index("run") + 1 :] if "run" in words else [])
    workload = launched(tuple(words), AT)
    return _with(workload, Scope(id=SCOPE, kind="venv"), env)


def _with(workload: Workload | None, scope: Scope, env: dict[str, str]) -> Facts:
    if workload is None and scope.kind == "venv":
        return Facts()
    known = allowed(env)
    scope = replace(scope, env=seen(known, AT, partial=True) if known else UNSTATED)
    return Facts(scopes=(scope,), workloads=(workload,) if workload else ())


def _container(words: list[str]) -> Facts:
    """Options up to the image, then the command of the container."""
    options, rest = _options(words)
    if not rest:
        return Facts()
    env = dict(
        pair.split("=", 1) for name, pair in options if name in ("-e", "--env") and "=" in pair
    )
    asked = [value for name, value in options if name in ("--gpus", "--device")]
    size = next((memory_of(value) for name, value in options if name == "--shm-size"), None)
    said = [
        f"{name} {value}".strip()
        for name, value in options
        if name in ("--runtime", "--ipc", "--privileged")
    ]
    runtime = next((value for name, value in options if name == "--runtime"), None)
    scope = Scope(
        id=SCOPE,
        kind="container",
        image=ImageRef(ref=rest[0]),
        shm_mib=reading(size, AT),
        devices_visible=seen(tuple(asked), AT, partial=True) if asked else UNSTATED,
        runtime=reading(runtime or "; ".join(said) or None, AT),
    )
    workload = launched(tuple(rest[1:]), AT) or launched_by_image(rest[0], tuple(rest[1:]), AT)
    return _with(workload, scope, env)


def _options(words: list[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """Split `docker run` into options with values, and the image with what follows it."""
    options: list[tuple[str, str]] = []
    index = 0
    while index < len(words) and words[index].startswith("-"):
        name, equals, value = words[index].partition("=")
        index += 1
        if not equals and not _SWITCHES.fullmatch(name) and index < len(words):
            value = words[index]
            index += 1
        options.append((name, value))
    return options, words[index:]
