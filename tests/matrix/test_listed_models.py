"""Models of which only the architecture is known, and configurations that vLLM borrows."""

from __future__ import annotations

import re

from doctor.matrix import load_matrix
from doctor.matrix.architectures import ModelDomain
from doctor.rules.model_facts import model_type, plain_name, stated_size

MATRIX = load_matrix()
ROWS = MATRIX.models


def test_names_are_plain_and_new() -> None:
    """A name is written as rules write it, once, and no row says more of it."""
    domain: ModelDomain = MATRIX.domain("models")
    names = [n for g in domain.listed for listed in g.architectures.values() for n in listed]
    assert len(names) == len(set(names)) > 500
    assert [name for name in names if plain_name(name) != name] == []
    assert set(names).isdisjoint(plain_name(row.repo) for row in domain.models)


def test_architectures_are_classes() -> None:
    odd = [a for a in set(MATRIX.listed_models.values()) if not re.fullmatch(r"[A-Z]\w+", a)]
    assert odd == []


def test_most_architectures_are_in_a_registry() -> None:
    """They are spelt as the registries of the engines spell them."""
    known = {m.claim.key for name in ("vllm", "sglang") for m in MATRIX.claims(name, "model")}
    listed = list(MATRIX.listed_models.values())
    assert sum(name in known for name in listed) > 0.9 * len(listed)


def test_borrowed_configurations_are_of_transformers() -> None:
    """What vLLM takes from Transformers is a type that some release of it brought."""
    types = {m.claim.key.replace("_", "") for m in MATRIX.claims("transformers", "model")}
    borrowed = [m.claim.key for m in MATRIX.claims("vllm", "model-config")]
    missing = [n for n in borrowed if model_type(n).strip("_").replace("_", "") not in types]
    assert missing == []


def test_parameters_are_near_the_size_in_the_name() -> None:
    """Counted from the widths, they come near what the maker calls the model."""
    plain = [row for row in ROWS if row.experts is None and not row.quantization]
    sized = [(row.params_b, stated_size(row.repo.partition("/")[2]), row.repo) for row in plain]
    pairs = [(count, size, repo) for count, size, repo in sized if count and size]
    assert len(pairs) > 100
    far = [repo for count, size, repo in pairs if abs(count - size) > 0.25 * size + 0.6]
    assert far == []
