"""A model from what a person names: a folder, a file of a model, or a published name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from doctor.errors import UsageError
from doctor.matrix import Matrix
from doctor.sizing.config import model_of_config, parse_config
from doctor.sizing.files import opened, read_text
from doctor.sizing.gguf import MAGIC, read_gguf
from doctor.sizing.gguf_model import model_of_gguf
from doctor.sizing.known import known_model
from doctor.sizing.model import Model
from doctor.sizing.safetensors import folder_files, read_safetensors, stored

_FILES = (".json", ".gguf", ".safetensors")
_CONFIG = "config.json"
_QUANTIZATION = "hf_quant_config.json"
_HINT = "name a config.json, a folder, a .gguf or .safetensors file, or a published model"


def find_model(matrix: Matrix, named: str) -> Model:
    """The model that a path or a name means.

    Raises UsageError for a file that cannot be read or lies, and for an unknown name.
    """
    path = Path(named)
    if _exists(path):
        return _from_folder(matrix, path) if path.is_dir() else _from_file(matrix, path)
    if named.endswith(_FILES) or named.startswith(("./", "../", "/", "~")):
        raise UsageError(f"{named}: no such file", _HINT)
    found = known_model(matrix, named)
    if found is None:
        raise UsageError(f"model {named[:80]!r} is not known", _nearest(matrix, named))
    return found


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _nearest(matrix: Matrix, named: str) -> str:
    tails = {row.repo.rpartition("/")[2].lower(): row.repo for row in matrix.models}
    wanted = named.rpartition("/")[2].lower()
    near = difflib.get_close_matches(wanted, tails, n=3, cutoff=0.6)
    names = ", ".join(tails[name] for name in near)
    return f"near it: {names}; or {_HINT}" if names else _HINT


def _from_file(matrix: Matrix, path: Path) -> Model:
    with opened(path) as header:
        magic = header.take(4, "the magic") if header.size >= 4 else b""
    if magic == MAGIC or path.suffix == ".gguf":
        return model_of_gguf(read_gguf(path, matrix.memory), matrix.memory)
    if path.suffix == ".safetensors":
        return _with_weights(_configured(matrix, path.parent), (path,))
    config = parse_config(read_text(path), str(path))
    return model_of_config(config, matrix.memory, str(path))


def _from_folder(matrix: Matrix, folder: Path) -> Model:
    if not (folder / _CONFIG).exists():
        ggufs = sorted(folder.glob("*.gguf"))
        if len(ggufs) == 1 or (ggufs and "-00001-of-" in ggufs[0].name):
            return model_of_gguf(read_gguf(ggufs[0], matrix.memory), matrix.memory)
        what = "several GGUF files" if ggufs else f"no {_CONFIG}"
        raise UsageError(f"{folder}: {what}", _HINT)
    return _with_weights(_configured(matrix, folder), folder_files(folder))


def _configured(matrix: Matrix, folder: Path) -> Model:
    """The model of a folder's config.json; ModelOpt keeps its number formats beside it."""
    path = folder / _CONFIG
    if not path.exists():
        raise UsageError(f"{folder}: no {_CONFIG} beside the weights", _HINT)
    config = parse_config(read_text(path), str(path))
    beside = folder / _QUANTIZATION
    if "quantization_config" not in config and beside.exists():
        other = parse_config(read_text(beside), str(beside)).get("quantization")
        config = {**config, "quantization_config": other if isinstance(other, dict) else {}}
    return model_of_config(config, matrix.memory, str(path), folder.name)


def _with_weights(model: Model, files: tuple[Path, ...]) -> Model:
    """The model with the bytes that its weight files hold, if there are any."""
    if not files:
        return model
    tensors = [tensor for path in files for tensor in read_safetensors(path)]
    is_quantized = model.quantization is not None or bool(model.unclear)
    found = stored(tensors, model.layers, is_quantized)
    return replace(model, stored=found, unclear="", at=f"{model.at} and its weights")


def model_for(matrix: Matrix, name: str, config: Mapping[str, Any] | None = None) -> Model | None:
    """The model of a workload: from its config if that is complete, else by name; else None.

    For rules: nothing is raised, and no file is read.
    """
    if config:
        try:
            return model_of_config(config, matrix.memory, "config.json", name)
        except UsageError:
            pass
    return known_model(matrix, name) if name else None
