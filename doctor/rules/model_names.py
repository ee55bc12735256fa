"""Models by a family and a size alone, as people name them: "Llama 70B", "Qwen 72B"."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from doctor.matrix.architectures import ModelRow

_PART = re.compile(r"\d+x\d+(?:\.\d+)?b|\d+(?:\.\d+)?b|[a-z]+|\d+(?:\.\d+)*")
_SIZED = re.compile(r"(?:\d+x)?\d+(?:\.\d+)?b")
# Words that tell a model's training or form and not its shape.
_IDLE = frozenset(
    ("a", "an", "the", "model", "meta", "hf", "instruct", "chat", "base", "it", "awq", "gptq",
     "gguf", "fp", "bf", "int", "bit", "v", "q", "k", "m", "s")
)  # fmt: skip
_SHORTEST = 3
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
