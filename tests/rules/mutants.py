"""Wire facts as no host has them: odd values at every place, and parts of several hosts."""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from doctor.facts import to_wire
from doctor.intake.detect import read_input

TESTS = Path(__file__).parent.parent
TEXTS = (
    *("", "0", "-1", "nan", "inf", "1e999", "9" * 400, "a" * 3000, "*", "/", "..", "\xb2"),
    *("[/foo]", "\x1b[31m", "\u202eabc", "::error::x", "x\x00y", "true", "None", "1,2,3", "{0}"),
    *("sm_90", "compute_120@9.0", "8.9", "fp8", "MIG-1", "cu999", "12"),
)
VERSIONS = (
    *("99.0", "0.0.0", "550.*", ">=0.8,<0.9", "==2.*", "~=3.0", "b7474", "2.8.0+cu128", "1!2.0"),
    *("2.0rc1", "0.*", "3", "2.8.0.dev20250101+git123", "2024.1", "<1", "!=2"),
)
NUMBERS = (0, -1, 1, 2**31, 2**63, 2**200, -(2**200), 0.5, 1e308, True)
OTHERS: tuple[Any, ...] = (
    *(None, [], {}, [1], ["x"], [None], [{}]),
    *({"a": "b"}, {"value": None}, {"a": {"b": [1]}}),
)
VERSION = re.compile(r"\d+(\.\d+)+\S*")
REASONS = ("not-there", "not-permitted", "not-readable", "timed-out", "not-stated")
SECTIONS = (
    *("host", "nvidia", "ascend", "rocm", "devices", "topology", "container_engine"),
    *("scopes", "workloads", "logs"),
)
# Free tables, whose values may be anything: keys that rules look at.
KEYS = (
    *("model", "quantization", "dtype", "kv_cache_dtype", "attention_backend", "max_model_len"),
    *("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "max_num_seqs"),
    *("gpu_memory_utilization", "max_batch_size", "max_input_len", "n_gpu_layers", "port"),
    *("architectures", "model_type", "quantization_config", "text_config", "num_attention_heads"),
    *("num_key_value_heads", "num_hidden_layers", "vocab_size", "torch_dtype", "weights_gib"),
    *("missing", "gated", "files", "compute_capability", "tensorrt_version", "kv_tokens"),
)
TABLES = ("args", "model", "plan", "measured", "env")


def hosts() -> list[dict[str, Any]]:
    """The recorded hosts and the field reports, as wire facts."""
    recorded = [json.loads(p.read_text()) for p in sorted(TESTS.glob("hosts/*/facts.json"))]
    reports = sorted(TESTS.glob("field_reports/*.yaml"))
    return recorded + [to_wire(read_input(path)) for path in reports]


def mutant(bases: list[dict[str, Any]], rng: random.Random) -> dict[str, Any]:
    """One host that is none."""
    wire = copy.deepcopy(rng.choice(bases))
    if rng.random() < 0.5:
        _exchange(wire, bases, rng)
    for _ in range(rng.randint(0, 3)):
        rng.choice((_odd_value, _odd_version, _odd_argument, _unknown))(wire, rng)
    return wire


def _exchange(wire: dict[str, Any], bases: list[dict[str, Any]], rng: random.Random) -> None:
    """Take parts from other hosts, and let the workloads stand in whatever scope there is."""
    for _ in range(rng.randint(1, 4)):
        name, other = rng.choice(SECTIONS), rng.choice(bases)
        if name in other:
            wire[name] = copy.deepcopy(other[name])
    ids = [scope["id"] for scope in _listed(wire, "scopes")]
    for work in _listed(wire, "workloads"):
        work["scope"] = rng.choice([*ids, "none"])


def _odd_value(wire: dict[str, Any], rng: random.Random) -> None:
    holder, key = rng.choice(list(places(wire)))
    value = holder[key]
    if isinstance(value, str):
        holder[key] = rng.choice((*TEXTS, *VERSIONS))
    elif isinstance(value, int | float):
        holder[key] = rng.choice(NUMBERS)
    else:
        holder[key] = rng.choice((*TEXTS, *NUMBERS, *OTHERS))


def _odd_version(wire: dict[str, Any], rng: random.Random) -> None:
    """A version of another form: most texts that are one stay one, so that rules see them."""
    spots = [(h, k) for h, k in places(wire) if VERSION.fullmatch(str(h[k]))]
    if spots:
        holder, key = rng.choice(spots)
        holder[key] = rng.choice(VERSIONS)


def _odd_argument(wire: dict[str, Any], rng: random.Random) -> None:
    """An odd value in a table whose values may be anything."""
    works = [work for work in _listed(wire, "workloads") if isinstance(work, dict)]
    for work in works[:1]:
        table = work.setdefault(rng.choice(TABLES), {"value": {}})
        if isinstance(table, dict) and isinstance(table.setdefault("value", {}), dict):
            table["value"][rng.choice(KEYS)] = rng.choice((*TEXTS, *NUMBERS, *OTHERS))


def _unknown(wire: dict[str, Any], rng: random.Random) -> None:
    """A reading that failed."""
    spots = [(h, k) for h, k in places(wire) if isinstance(h[k], dict) and "value" in h[k]]
    if spots:
        holder, key = rng.choice(spots)
        holder[key] = {"missing": rng.choice(REASONS)}


def _listed(wire: dict[str, Any], name: str) -> list[Any]:
    found = wire.get(name)
    return found if isinstance(found, list) else []


def places(wire: Any) -> Iterator[tuple[Any, Any]]:
    """Every holder with a key or index of it."""
    pairs = wire.items() if isinstance(wire, dict) else enumerate(wire)
    for key, value in pairs:
        yield wire, key
        if isinstance(value, dict | list):
            yield from places(value)
