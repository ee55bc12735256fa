"""From a question about a host to a stack, and the form in which it is wanted."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from doctor.errors import UsageError
from doctor.examine import Sources, gather
from doctor.facts import Facts, Specifier, Workload
from doctor.matrix import Matrix, load_matrix
from doctor.report import Style
from doctor.stack.model import Ask, Resolution
from doctor.stack.resolve import resolve

_ENGINE = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]{0,60}?)\s*((?:[<>=!~].*)?)")
_METHOD = re.compile(r"[A-Za-z0-9][\w.-]{0,60}", re.ASCII)
_FILES = (".json", ".gguf", ".safetensors")


@dataclass(frozen=True)
class Question:
    """What a person asked: an engine with versions ("vllm>=0.10") or an aim, for which host."""

    engine: str
    sources: Sources
    goal: str = ""
    model: str = ""
    quantization: str = ""
    artifact: str = ""
    with_unlocks: bool = True


def resolve_for(question: Question) -> Resolution:
    """Answer a question; raises UsageError for what cannot be understood."""
    matrix = load_matrix()
    facts = gather(question.sources).facts
    ask = ask_of(question, facts, matrix)
    return resolve(facts, matrix, ask, question.with_unlocks)


def ask_of(question: Question, facts: Facts, matrix: Matrix) -> Ask:
    """The question in the resolver's words; what a report wants to run counts where not stated."""
    name, spec = parse_engine(question.engine)
    wanted = _wanted(facts, name, matrix)
    args: dict[str, Any] = dict(wanted.args.value or {}) if wanted else {}
    model = dict(wanted.model.value or {}) if wanted else {}
    if wanted is not None and not name and not question.goal:
        name = wanted.engine
    if question.model:
        args, model = {**args, "model": question.model}, _configuration(question.model)
        if question.model.endswith(".gguf"):
            args["quantization"] = "gguf"
    if question.quantization:
        if not _METHOD.fullmatch(question.quantization):
            named = f"--quantization {question.quantization[:60]!r} is no method"
            raise UsageError(named, "write it as the engine does: awq, gptq, fp8 ...")
        args["quantization"] = question.quantization
    return Ask(
        engine=name,
        spec=spec,
        goal=question.goal,
        artifact=question.artifact,
        args=tuple(args.items()),
        model=tuple(model.items()),
    )


def parse_engine(text: str) -> tuple[str, Specifier | None]:
    """Read "vllm", "vllm==0.20.0" or "vllm>=0.10,<0.12"; raises UsageError."""
    if not text:
        return "", None
    match = _ENGINE.fullmatch(text)
    spec = Specifier.parse(match[2]) if match and match[2] else None
    if match is None or (match[2] and spec is None):
        raise UsageError(f"{text[:60]!r} is not an engine", 'write vllm or "vllm>=0.10,<0.12"')
    return match[1].lower(), spec


def _wanted(facts: Facts, name: str, matrix: Matrix) -> Workload | None:
    """What the facts say shall run, if it is the engine that is asked about."""
    for work in facts.workloads:
        same = matrix.canonical(work.engine) == matrix.canonical(name) if name else True
        if work.pid is None and work.engine and same:
            return work
    return None


def _configuration(named: str) -> dict[str, Any]:
    """The model's config.json where a path is named; nothing for a published name."""
    path = Path(named)
    folder = path / "config.json" if path.is_dir() else path
    if not folder.is_file():
        if named.endswith(_FILES) or named.startswith(("./", "../", "/", "~")):
            raise UsageError(
                f"{named[:200]}: no such model", "name a config.json, a folder or a GGUF"
            )
        return {}
    if folder.suffix != ".json":
        return {}
    from doctor.sizing.config import parse_config
    from doctor.sizing.files import read_text

    return parse_config(read_text(folder), str(folder))


_FORMS = {
    "text": ("doctor.report.resolve", "render_text"),
    "json": ("doctor.report.resolve_json", "render_json"),
    "pip": ("doctor.report.emit", "requirements"),
    "uv": ("doctor.report.emit", "pyproject"),
    "dockerfile": ("doctor.report.emit", "dockerfile"),
    "profile": ("doctor.report.emit", "profile"),
    "compose": ("doctor.report.emit_services", "compose_file"),
    "k8s": ("doctor.report.emit_services", "kubernetes_objects"),
}


def render(found: Resolution, form: str, style: Style) -> str:
    """The answer as a report, or as input of a tool.

    Raises UsageError if there is no stack to write for the tool, or none of the kind it takes.
    """
    module, function = _FORMS[form]
    return str(getattr(import_module(module), function)(found, style))
