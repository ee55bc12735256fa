"""The workload that a field report speaks of: an engine with its arguments."""

from __future__ import annotations

import re
from typing import Any

from doctor.facts import UNSTATED, Package, Reading, Version, Workload, seen
from doctor.facts.arguments import argument_name
from doctor.facts.engines import ENGINE_ORDER, carriers
from doctor.intake.engine_words import named_engine, named_front_end
from doctor.intake.environment import SCOPE
from doctor.intake.stated import Stated, number, plain_text, truth
from doctor.intake.typed_arguments import typed
from doctor.intake.workload import launched_by_image

_MAX_ITEMS = 200
_WORDS = frozenset({"quantization", "dtype", "kv_cache_dtype", "attention_backend", "load_format"})
# Plug-ins of TensorRT-LLM's builder take the number format as their value.
_MODEL_VARIABLES = ("MODEL_ID", "MODEL_NAME", "MODEL")
_REPOSITORY = re.compile(r"[\w-][\w.-]{0,95}/[\w-][\w.-]{0,95}")
_PLUGINS = ("gpt_attention_plugin", "gemm_plugin", "bert_attention_plugin")
_PLUGIN_TYPES = ("float16", "bfloat16", "float32")
_CONFIG_KEYS = frozenset(
    {
        "architectures",
        "head_dim",
        "hidden_size",
        "intermediate_size",
        "moe_intermediate_size",
        "num_experts",
        "model_type",
        "num_attention_heads",
        "num_hidden_layers",
        "num_key_value_heads",
        "quantization_config",
        "text_config",
        "vocab_size",
    }
)


def stated_workload(report: Stated, packages: tuple[Package, ...]) -> Workload | None:
    """The engine that a report names, or else the one among its packages; last what starts it."""
    named, stated = named_engine(report.text("engine"))
    engine = named or _engine_among(packages) or _engine_of_image(report)
    engine = engine or named_front_end(report.text("engine"))
    if not engine:
        return None
    given = report.raw("engine_args")
    told = typed(engine, given)
    table = (
        report.table("engine_args") if isinstance(given, dict) or not told else Stated({}, "", [])
    )
    args = {**_served(report.table("env")), **told, **_arguments(table)}
    model = {key: value for key, value in args.items() if key in _CONFIG_KEYS}
    plan = {k: plain_text(v) for k, v in report.table("engine_plan").data.items()}
    return Workload(
        id=engine,
        engine=engine,
        scope=SCOPE,
        version=_version(engine, packages, stated),
        args=seen(args, "engine_args", partial=True) if args else UNSTATED,
        model=seen(model, "engine_args", partial=True) if model else UNSTATED,
        measured=_measured(report.table("measured")),
        plan=seen(plan, "engine_plan", partial=True) if plan else UNSTATED,
    )


def _served(env: Stated) -> dict[str, Any]:
    """The model that an image takes from its environment, as MODEL_ID of TGI and others."""
    named = (plain_text(env.data.get(name)) for name in _MODEL_VARIABLES)
    return next(({"model": name} for name in named if _REPOSITORY.fullmatch(name)), {})


def _engine_among(packages: tuple[Package, ...]) -> str:
    names = {package.name for package in packages}
    found = (engine for engine in ENGINE_ORDER if names.intersection(carriers(engine)))
    return next(found, "")


def _engine_of_image(report: Stated) -> str:
    """The engine that an image is named after, where nothing else names one."""
    image = plain_text(report.table("container").data.get("image")).partition(" ")[0]
    work = launched_by_image(image, (), "container.image") if image else None
    return work.engine if work is not None else ""


def _version(
    engine: str, packages: tuple[Package, ...], stated: Version | None
) -> Reading[Version]:
    for name in carriers(engine):
        for package in packages:
            if package.name == name and package.version:
                return seen(package.version, f"packages.{name}")
    return seen(stated, "engine") if stated else UNSTATED


def _arguments(table: Stated) -> dict[str, Any]:
    """Arguments under engine-neutral names, with JSON values."""
    args: dict[str, Any] = {}
    for key, value in list(table.data.items())[:_MAX_ITEMS]:
        name = argument_name(str(key))
        args[name] = _word(plain_text(value)) if name in _WORDS else _value(value)
    plugin = next((args[name] for name in _PLUGINS if args.get(name) in _PLUGIN_TYPES), None)
    if plugin is not None:
        args.setdefault("dtype", plugin)
    if isinstance(args.get("model"), str):
        args["model"] = args["model"].rstrip("/") or args["model"]
    return {name: value for name, value in args.items() if value not in ("", None)}


def _value(value: Any, depth: int = 0) -> Any:
    """Numbers and truth values out of text; lists and tables three levels deep."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, dict) and depth < 3:
        return {str(k): _value(v, depth + 1) for k, v in list(value.items())[:_MAX_ITEMS]}
    if isinstance(value, list) and depth < 3:
        return [_value(item, depth + 1) for item in value[:_MAX_ITEMS]]
    return _scalar(plain_text(value))


def _scalar(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return truth(text)
    if re.fullmatch(r"-?\d{1,15}", text):
        return int(text)
    if re.fullmatch(r"-?\d{1,15}\.\d{1,12}", text):
        return float(text)
    return text


def _word(text: str) -> str:
    """A name as engines spell it: "AWQ" is awq, "fp8 (e4m3)" is fp8_e4m3."""
    lowered = text.lower()
    return re.sub(r"\s*\(\s*([\w-]{1,40})\s*\)$", r"_\1", lowered)


def _measured(table: Stated) -> Reading[dict[str, float]]:
    figures: dict[str, float] = {}
    for key, value in table.data.items():
        figure = number(plain_text(value))
        if figure is None:
            table.note(table.at(str(key)), value)
        else:
            figures[str(key)] = figure
    return seen(figures, "measured", partial=True) if figures else UNSTATED
