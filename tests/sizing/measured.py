"""Rows of measured.yaml, and what sizing predicts for each of them."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from doctor.facts import Version
from doctor.matrix import Matrix, load_matrix
from doctor.sizing.cards import GIB, Card
from doctor.sizing.fit import predict
from doctor.sizing.known import known_model
from doctor.sizing.model import Model
from doctor.sizing.prediction import Prediction
from doctor.sizing.settings import Deployment

Measured = dict[str, Any]
ROWS = Path(__file__).parent / "measured.yaml"
_VERSION = re.compile(r"\d+\.\d+(?:\.\d+)*(?:\.?(?:post|dev|rc)\d*)?")
_VISION = re.compile(r"[-_/ ]vl[-_ ]|vision|gemma-?3|omni|audio|ocr", re.I)
_ARGUMENTS = (
    "max_model_len",
    "max_num_seqs",
    "max_num_batched_tokens",
    "gpu_memory_utilization",
    "kv_cache_dtype",
    "enforce_eager",
)


# From this day on llama.cpp kept no more than the window of sliding layers.
_WINDOWS = "2025-05-20"
# For what does not depend on the card.
_ANY = 4096


def rows(path: Path = ROWS) -> list[Measured]:
    """All measured rows."""
    found: list[Measured] = yaml.safe_load(path.read_text())["rows"]
    return found


def half(row: Measured) -> str:
    """Half a was in view when constants were tuned, half b was not."""
    return "ab"[hashlib.sha256(str(row["id"]).encode()).digest()[0] % 2]


def is_text(row: Measured) -> bool:
    """True unless parts of the model see or hear."""
    return not _VISION.search(f" {row['id']} {row.get('model', '')} ") and "extra_gib" not in row


def is_padded(row: Measured) -> bool:
    """True for the format whose kernels pad matrices."""
    return row.get("quant") == "mxfp4"


@cache
def matrix() -> Matrix:
    """The shipped matrix."""
    return load_matrix()


def model_of_row(row: Measured) -> Model | None:
    """The model that ran; a tower of stated size is added to the text model."""
    model = known_model(matrix(), row.get("model_config", ""))
    if model is None:
        return None
    tower = round(row.get("extra_gib", 0) * GIB / 2 * row.get("tp", 1))
    latent = model.latent
    if latent is not None and latent.nope and row.get("n_head_kv", 1) > 1:
        # Older builds of llama.cpp kept keys and values of all heads.
        width = latent.nope + latent.rope
        own = replace(model, kv_heads=model.heads, head_dim=width, value_dim=latent.value)
        model = replace(own, expands_latent=True)
    return replace(model, tower=tower, is_multimodal=not is_text(row))


def version_of(row: Measured) -> Version | None:
    """The version, or what is known of it: "0.16 class" is 0.16.*."""
    if str(row.get("date", _WINDOWS)) < _WINDOWS:
        return Version("b5000")
    text = str(row.get("version", ""))
    match = _VERSION.match(text)
    if match is None:
        return None
    loose = match[0].count(".") == 1 or text[match.end() : match.end() + 2] == ".x"
    return Version.maybe(f"{match[0]}.*" if loose else match[0].rstrip("."))


def _llama_cpp(row: Measured) -> dict[str, Any]:
    return {
        "max_model_len": row.get("n_ctx"),
        "kv_cache_dtype": row.get("type_k", "f16"),
        "flash_attn": "on" if row.get("flash_attn") else "off",
        "n_ubatch": row.get("n_ubatch"),
    }


def predicted(row: Measured) -> Prediction | None:
    """What sizing says of the row; None if its model is not known."""
    model = model_of_row(row)
    if model is None:
        return None
    args = {name: row[name] for name in _ARGUMENTS if name in row}
    args.setdefault("max_num_batched_tokens", row.get("default_batched"))
    args |= {
        "quantization": row.get("quant", ""),
        "tensor_parallel_size": row.get("tp", 1),
        "pipeline_parallel_size": row.get("pp", 1),
        "engine_core": row.get("era", ""),
        "offline": bool(row.get("offline_llm_class")),
    }
    if row["engine"] == "llama.cpp":
        args |= _llama_cpp(row)
    ranks = row.get("tp", 1) * row.get("pp", 1)
    total = row.get("gpu_total_gib") or (_ANY if row["engine"] == "llama.cpp" else None)
    name = str(row.get("gpu", ""))
    cards = (Card(name, int(total * GIB), is_read=True),) * ranks if total else ()
    return predict(matrix(), model, Deployment(row["engine"], version_of(row), cards, args))
