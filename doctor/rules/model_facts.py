"""What is known of a workload's arguments and of the model it serves."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from doctor.facts import Missing, MissingFact
from doctor.matrix import Matrix
from doctor.matrix.architectures import ModelRow
from doctor.rules.engine import Case, NotApplicable
from doctor.rules.model_names import loosely_named, run_together, tuned_from

# Parts of a repository's name that do not change its architecture.
_VARIANT = re.compile(
    r"[-_. ](awq|gptq|gguf|fp8|fp16|bf16|f32|fp4|nvfp4a16|nvfp4|mxfp4|mxfp8|int4|int8|4bit|8bit|"
    r"w4a16|w8a8|bnb|autoround|unsloth|dynamic|quantized|marlin|hf|instruct|it|chat|base|"
    r"i?q\d_k(_[a-z]+)?|i?q\d_(\d|[a-z]+)|ud|i1|qat|\d+bits?)(?=$|[-_. (])",
    re.IGNORECASE,
)
_DATED = re.compile(r"-(?:v0\.\d|2[0-9]{3}|0[0-9]{3})$")
_SIZE = re.compile(
    r"(?:(?<![\w.])|(?<=[a-z]{4}))(\d{1,4}(?:\.\d{1,3})?)\s?b(?![a-z0-9])", re.IGNORECASE
)
# Tokens, bytes and heads stay below this; what is above was not meant as a figure.
_LARGEST = 10**15
_EXPERTS = re.compile(r"(?<![\w.])(\d{1,3})x(\d{1,3}(?:\.\d{1,3})?)b(?![a-z0-9])", re.IGNORECASE)
# Experts share attention and embeddings: Mixtral 8x7B has 46.7 of 56, 8x22B 141 of 176.
_OF_EXPERTS = 0.8


@dataclass(frozen=True)
class ModelFacts:
    """Figures of the model; None where unknown. `at` says where they come from."""

    name: str
    heads: int | None = None
    kv_heads: int | None = None
    layers: int | None = None
    vocab: int | None = None
    params_b: float | None = None
    kv_bytes_per_token: int | None = None
    architecture: str = ""
    quantization: str = ""
    at: str = ""


def argument(case: Case, name: str) -> tuple[Any, str]:
    """An argument of the workload and where it was read; (None, "") if it is not stated."""
    work = case.workload
    if work is None or work.args.value is None:
        return None, ""
    return work.args.value.get(name), work.args.at


def number(case: Case, name: str) -> float | None:
    """An argument as a number, or None if it is not stated as one that anything could have."""
    try:
        value = float(str(argument(case, name)[0]))
    except ValueError:
        return None
    return value if abs(value) <= _LARGEST else None  # never for "nan"


def count(case: Case, name: str) -> int | None:
    """An argument as a positive whole number, or None."""
    value = number(case, name)
    return int(value) if value is not None and value == int(value) and value > 0 else None


def environment(case: Case, needed: bool = False) -> dict[str, str]:
    """Environment of the workload over that of its scope; `needed` raises if neither is known."""
    work = case.workload
    own = work.env if work is not None else None
    if needed and not case.scope.env.is_known and not (own and own.is_known):
        raise MissingFact("environment", case.scope.env.missing or Missing.NOT_STATED)
    return {**(case.scope.env.value or {}), **((own.value if own else None) or {})}


def model_name(case: Case) -> str:
    """The model that the workload serves, as it was named; "" if not stated."""
    return str(argument(case, "model")[0] or "")


def language_config(case: Case) -> dict[str, Any]:
    """The model's configuration, what it says of its language part before the rest; {} without."""
    config = (case.workload.model.value or {}) if case.workload else {}
    inner = config.get("text_config")
    return {**config, **inner} if isinstance(inner, dict) else config


def width_of(value: object) -> int | None:
    """A positive whole number, as a number or as text; None for anything else."""
    return int(str(value)) if re.fullmatch(r"[1-9]\d{0,8}", str(value)) else None


def model_facts(case: Case, matrix: Matrix) -> ModelFacts:
    """Figures from the model's config, else from the arguments, else from the matrix by name.

    Raises `NotApplicable` without a workload, `MissingFact` if no model is named.
    """
    if case.workload is None:
        raise NotApplicable("no workload")
    config = case.workload.model.value or {}
    text = config.get("text_config") if isinstance(config.get("text_config"), dict) else {}
    merged = {**(case.workload.args.value or {}), **(text or {}), **config}
    row = known_model(matrix, model_name(case))
    same = row is not None and row.repo.lower() == model_name(case).lower()
    if not config and row is None and "num_attention_heads" not in merged:
        raise MissingFact("model configuration", Missing.NOT_STATED)
    return ModelFacts(
        name=model_name(case) or (row.repo if row else ""),
        heads=_whole(merged, "num_attention_heads", row.heads if row else None),
        kv_heads=_whole(merged, "num_key_value_heads", row.kv_heads if row else None),
        layers=_whole(merged, "num_hidden_layers", row.layers if row else None),
        vocab=_whole(merged, "vocab_size", row.vocab if row else None),
        params_b=row.params_b if row else None,
        kv_bytes_per_token=row.kv_bytes_per_token if row else None,
        architecture=row.architecture if row else "",
        quantization=quantization_of(config) or (row.quantization if row and same else ""),
        at=case.workload.model.at or (f"matrix, {row.repo}" if row else "arguments"),
    )


def _whole(config: dict[str, Any], key: str, otherwise: int | None) -> int | None:
    try:
        value = int(str(config[key]))
    except (KeyError, ValueError):
        return otherwise
    return value if abs(value) <= _LARGEST else otherwise


def quantization_of(config: dict[str, Any]) -> str:
    """The quantization method that a config.json names, or ""."""
    stated = config.get("quantization_config") or config.get("quantization") or {}
    return str(stated.get("quant_method", "")) if isinstance(stated, dict) else ""


def known_model(matrix: Matrix, name: str) -> ModelRow | None:
    """The row of a model by repository or name; quantized variants share their base's figures.

    A name that fits several rows gives one only if they agree on heads and size; one that
    gives family and size alone, what all such models share.
    """
    if not name:
        return None
    wanted = name.partition(" (")[0].strip().lower()
    exact = next((row for row in matrix.models if row.repo.lower() == wanted), None)
    if exact is not None:
        return exact
    plain = plain_name(name)
    rows = [row for row in matrix.models if plain_name(row.repo) == plain]
    rows = rows or run_together(matrix.models, plain, plain_name)
    figures = {(row.heads, row.kv_heads, row.layers) for row in rows}
    if not rows:
        return loosely_named(matrix.models, wanted) or tuned_from(matrix.models, plain, plain_name)
    return rows[0] if len(figures) == 1 else None


@lru_cache(maxsize=2048)
def plain_name(name: str) -> str:
    """A model's name without owner, quantization and tuning: what fixes its shape."""
    base = name.rpartition("/")[2].partition(" (")[0].lower().strip().removesuffix(".gguf")
    # Ollama's library writes a size or a format behind a colon.
    previous, base = "", base.replace(":", "-").removesuffix("-latest")
    while base != previous:
        previous, base = base, _VARIANT.sub("", _DATED.sub("", base))
    for maker in ("meta-", "c4ai-"):
        base = base.removeprefix(maker)
    return base.replace(" ", "-").replace("_", "-")


def stated_size(name: str) -> float | None:
    """Parameters in 10^9 that a model's name states ("Qwen3-32B"), all experts; None if none."""
    experts = _EXPERTS.search(name.replace("-", " ").replace("_", " "))
    if experts is not None:
        return int(experts[1]) * float(experts[2]) * _OF_EXPERTS
    sizes = [float(text) for text in _SIZE.findall(name.replace("-", " ").replace("_", " "))]
    return max(sizes) if sizes else None


# From the size in a name on: "qwen3-vl-4b" and "qwen3-30b-a3b" are of the families before it.
_SIZED = re.compile(r"-e?\d+(?:\.\d+)?[bm](?:-.*)?$")
_CLASS_ENDS = ("ForCausalLM", "ForConditionalGeneration", "LMHeadModel", "Model")


def model_type(architecture: str) -> str:
    """The model_type that goes with a class name: Qwen3MoeForCausalLM is qwen3_moe."""
    base = re.sub(r"(For[A-Z]\w*|LMHeadModel|Model)$", "", architecture)
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", base).lower()


def architecture_names(case: Case, matrix: Matrix) -> list[str]:
    """Names by which the model's architecture may be listed: from config, matrix, arguments."""
    names = stated_architectures(case)
    row = known_model(matrix, model_name(case))
    names += [row.architecture] if row is not None else _listed(matrix, model_name(case))
    types = [model_type(name) for name in names if name.endswith(_CLASS_ENDS)]
    names += [*types, *(name.replace("_", "") for name in types)]  # GGUF writes qwen3_vl as qwen3vl
    named = model_name(case)
    typed = re.fullmatch(r"([\w-]+) (?:type|architecture)|([a-z0-9]+_\w+) model", named.strip())
    # Ollama's library names a model and, behind a colon, its size or format.
    library = named.partition(":")[0]
    plain = [plain_name(text) for text in dict.fromkeys((named, library)) if text]
    families = [_SIZED.sub("", text) for text in plain if _SIZED.search(text)]
    families += [text.replace("-", "") for text in families]
    return [*names, *([typed[1] or typed[2]] if typed else []), *plain, *families]


def _listed(matrix: Matrix, name: str) -> list[str]:
    """The architecture of a model of which the matrix knows no more than that."""
    found = matrix.listed_models.get(plain_name(name)) if name else None
    return [found] if found else []


def stated_architectures(case: Case) -> list[str]:
    """Class names and types that the model's configuration, or the arguments, give."""
    work = case.workload
    tables = ((work.model.value or {}), (work.args.value or {})) if work is not None else ()
    names: list[str] = []
    for table in tables:
        listed = table.get("architectures")
        names += [str(name) for name in listed] if isinstance(listed, list) else []
        names += [str(table[key]) for key in ("model_type", "architecture") if table.get(key)]
    return names
