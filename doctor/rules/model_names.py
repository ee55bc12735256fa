"""Models by a family and a size alone, as people name them: "Llama 70B", "Qwen 72B"."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import msgspec

from doctor.matrix.architectures import ModelRow

_PART = re.compile(r"\d+x\d+(?:\.\d+)?b|\d+(?:\.\d+)?b|[a-z]+|\d+(?:\.\d+)*")
_SIZED = re.compile(r"(?:\d+x)?\d+(?:\.\d+)?b")
# Words that tell a model's training or form and not its shape.
_IDLE = frozenset(
    ("a", "an", "the", "model", "meta", "hf", "instruct", "chat", "base", "it", "awq", "gptq",
     "gguf", "fp", "bf", "int", "bit", "v", "q", "k", "m", "s")
)  # fmt: skip
_SHORTEST = 3
_MOST_WORDS = 12
# Words of models that share a part with the model they name, and not its shape.
_OTHER_SHAPE = re.compile(
    r"(?<![a-z])(?:vl|vision|llava|omni|audio|voice|video|ocr|tts|embed\w*|gte|rerank\w*|moe|draft|"
    r"distill\w*|eagle\d?|mtp|merged?|upscaled|expanded|pruned|minitron|nemotron|siglip)(?![a-z])"
)
# What tells the rows apart and not the shape.
_OWN = ("repo", "source", "confidence", "checked", "note", "override", "reason", "checkpoint_gib")


@lru_cache(maxsize=1024)
def parts(name: str) -> frozenset[str]:
    """The words and numbers of a name that tell its family, its generation and its size."""
    plain = name.rpartition("/")[2].lower()
    return frozenset(_PART.findall(plain)) - _IDLE


@lru_cache(maxsize=1024)
def _first_word(repo: str) -> tuple[str, ...]:
    """The family that a repository's name begins with."""
    words = re.findall(r"[a-z]+", repo.rpartition("/")[2].lower())
    return tuple(word for word in words if word not in _IDLE and len(word) >= _SHORTEST)[:1]


def _begin(repo: str) -> tuple[str, ...]:
    return _first_word(repo) or ("",)


def loosely_named(rows: Iterable[ModelRow], name: str) -> ModelRow | None:
    """A row of what all models agree on whose names hold all parts of this one, or None.

    A family and a size must be named: less fits too many models, and nothing would be left.
    A model of two families (a distillation) is meant only where both are named.
    """
    wanted = parts(name)
    rows = tuple(rows)
    families = [part for part in wanted if part.isalpha() and len(part) >= _SHORTEST]
    if not families or not any(_SIZED.fullmatch(part) for part in wanted):
        return None
    others = {family for row in rows for family in _first_word(row.repo)} - wanted
    named = [row for row in rows if wanted <= parts(row.repo)]
    # What its maker calls by its own name and another's may be meant by the first alone.
    found = [r for r in named if not others & parts(r.repo) or wanted.issuperset(_begin(r.repo))]
    if not found or len({row.architecture for row in found}) > 1:
        return None
    shared: dict[str, Any] = {
        field: getattr(found[0], field)
        for field in ModelRow.__struct_fields__
        if field not in _OWN and all(getattr(r, field) == getattr(found[0], field) for r in found)
    }
    sources = tuple(dict.fromkeys(source for row in found for source in row.source))[:2]
    first = found[0]
    return ModelRow(**{**shared, "repo": name, "source": sources, "confidence": first.confidence})


def run_together(
    rows: Iterable[ModelRow], plain: str, plain_name: Callable[[str], str]
) -> list[ModelRow]:
    """Rows whose names differ by dashes alone, or stand behind their owner's name.

    Ollama's library writes gemma2:27b for Gemma-2-27B, folders are called Qwen_Qwen3-14B or, in
    the hub's cache, models--Qwen--Qwen3-14B.
    """
    squeezed = plain.removeprefix("models--").replace("-", "")
    found = []
    for row in rows:
        own = plain_name(row.repo).replace("-", "")
        owner = row.repo.lower().partition("/")[0].replace("-", "")
        if squeezed in (own, owner + own):
            found.append(row)
    return found


def tuned_from(
    rows: Iterable[ModelRow], plain: str, plain_name: Callable[[str], str]
) -> ModelRow | None:
    """What another model was made from: "omost-llama-3-8b" holds the name of one of its size.

    The longest run of words counts. Another size beside it, or a word that stands for another
    shape, rules it out. How long its requests may be is its own.
    """
    words = plain.split("-")
    if len(words) > _MOST_WORDS or _OTHER_SHAPE.search(plain):
        return None
    named: dict[str, list[ModelRow]] = {}
    for row in rows:
        named.setdefault(plain_name(row.repo).replace("-", ""), []).append(row)
    for size in range(len(words) - 1, 1, -1):
        for start in range(len(words) - size + 1):
            inside, around = words[start : start + size], words[:start] + words[start + size :]
            found = named.get("".join(inside), [])
            if found and _is_sized(inside) and not _is_sized(around):
                return _base(found)
    return None


def _is_sized(words: list[str]) -> bool:
    return any(_SIZED.fullmatch(word) for word in words)


def _base(rows: list[ModelRow]) -> ModelRow | None:
    """The fullest of rows of one shape, as the base of others; None if they differ in shape."""
    if len({(row.architecture, row.heads, row.kv_heads, row.layers) for row in rows}) > 1:
        return None
    best = max(rows, key=lambda row: (not row.quantization, row.params_b is not None))
    return msgspec.structs.replace(
        best, max_positions=None, checkpoint_gib=None, quantization="", quant_block=None
    )
