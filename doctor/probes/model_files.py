"""The files of a model: its configuration, the shards that its index names, pointers of Git LFS.

Nothing is fetched; a name of the hub is looked for in the caches of this machine.
Sources: Hugging Face Hub documentation on the cache; safetensors index; Git LFS specification.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Optional

from doctor.facts import UNSTATED, Missing, Reading, seen
from doctor.probes.files import relay
from doctor.probes.host import Host

_KEYS = frozenset(
    """
    architectures dtype head_dim hidden_size kv_lora_rank max_position_embeddings model_type
    num_attention_heads num_experts num_hidden_layers num_key_value_heads num_local_experts
    n_routed_experts quantization_config sliding_window text_config torch_dtype vocab_size
    """.split()  # noqa: SIM905 - a list of twenty quoted names reads worse
)
_INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
_WEIGHTS = (
    *(".safetensors", ".bin", ".gguf", ".pt", ".pth", ".onnx", ".engine", ".plan", ".npz"),
    *(".msgpack", ".h5", ".tflite", ".mar", ".om"),
)
_PART = re.compile(r"(.*-)(\d{5})(-of-)(\d{5})(\.gguf)")
_POINTER = "version https://git-lfs.github.com/spec/"
_POINTER_BYTES = 1024
_CONFIG_LIMIT, _INDEX_LIMIT = 1 << 20, 16 << 20
_MOST_SHARDS, _MOST_NAMED = 2000, 100
# Engines that look a name up on the hub, and keep what they fetch in its cache.
_OF_THE_HUB = frozenset({"vllm", "vllm-ascend", "sglang", "tgi", "lmdeploy", "tensorrt-llm"})
_REPOSITORY = re.compile(r"[\w.-]{1,96}(?:/[\w.-]{1,96})?")
_CACHES = (
    ("HF_HUB_CACHE", ""),
    ("HUGGINGFACE_HUB_CACHE", ""),
    ("HF_HOME", "/hub"),
    ("XDG_CACHE_HOME", "/huggingface/hub"),
    ("HOME", "/.cache/huggingface/hub"),
)


def read(
    host: Host, engine: str, args: Mapping[str, Any], env: Mapping[str, str], folder: str = ""
) -> Reading[dict[str, Any]]:
    """What is there of the model that the arguments name; `folder` is where the engine stands."""
    name = args.get("model")
    if not isinstance(name, str) or not name or "://" in name:
        return UNSTATED
    path = _path_of(name, env, folder)
    if path.startswith("/") and (name[0] in "/.~" or host.real_path(path).is_known):
        return _at_path(host, path)
    if engine not in _OF_THE_HUB or not _REPOSITORY.fullmatch(name):
        return UNSTATED
    return _in_cache(host, name, args, env)


def _path_of(name: str, env: Mapping[str, str], folder: str) -> str:
    if name.startswith("~/"):
        return env.get("HOME", "~") + name[1:]
    return name if name.startswith("/") or not folder else f"{folder}/{name}"


def _at_path(host: Host, path: str) -> Reading[dict[str, Any]]:
    real = host.real_path(path)
    if real.is_absent:
        return seen({"missing_files": [path]}, path)
    if real.value is None:
        return relay(real)
    names = host.list_dir(path)
    if names.value is not None:
        return seen(_folder(host, path, names.value), path)
    if names.missing is Missing.NOT_PERMITTED:
        return relay(names)
    parts = _parts(path)
    return seen(_states(host, "", parts), path)


def _parts(path: str) -> list[str]:
    """All parts of a model that is split over files."""
    match = _PART.fullmatch(path)
    if match is None or int(match[4]) > _MOST_SHARDS:
        return [path]
    return [f"{match[1]}{n:05d}{match[3]}{match[4]}{match[5]}" for n in range(1, int(match[4]) + 1)]


def _folder(host: Host, path: str, names: tuple[str, ...]) -> dict[str, Any]:
    config = parse_config(host.read_text(f"{path}/config.json", _CONFIG_LIMIT).value or "")
    for name in _INDEXES:
        if name in names:
            index = parse_index(host.read_text(f"{path}/{name}", _INDEX_LIMIT).value or "")
            found = {**config, **_states(host, path, index[0])}
            return {**found, **_still_to_come(host, path, index, found)}
    weights = [name for name in names if name.endswith(_WEIGHTS)]
    if not weights and "config.json" in names:
        return {**config, "missing_files": ["model.safetensors"]}
    return {**config, **_states(host, path, weights)}


def _still_to_come(
    host: Host, path: str, index: tuple[list[str], int], found: dict[str, Any]
) -> dict[str, int]:
    """How many bytes of the model are not there yet, where some are not."""
    files, total = index
    if not (found["missing_files"] or found["lfs_pointers"]) or not total:
        return {}
    stats = (host.stat(f"{path}/{name}").value for name in files)
    return {"total_size": max(total - sum(stat.size for stat in stats if stat is not None), 0)}


def _states(host: Host, path: str, files: Iterable[str]) -> dict[str, list[str]]:
    """Which of the files are not there, are pointers, or cannot be read."""
    kinds: dict[str, list[str]] = {"missing_files": [], "lfs_pointers": [], "unreadable_files": []}
    for name in list(files)[:_MOST_SHARDS]:
        kind = _state(host, f"{path}/{name}" if path else name)
        if kind and len(kinds[kind]) < _MOST_NAMED:
            kinds[kind].append(name)
    return kinds


def _state(host: Host, path: str) -> str:
    stat = host.stat(path)
    if stat.value is None:
        return "missing_files" if stat.is_absent else "unreadable_files"
    if stat.value.size > _POINTER_BYTES:
        return ""
    text = host.read_text(path, _POINTER_BYTES)
    if (text.value or "").startswith(_POINTER):
        return "lfs_pointers"
    # A file of nothing, or one that this user may not open.
    return "" if text.value and stat.value.size else "unreadable_files"


def _in_cache(
    host: Host, name: str, args: Mapping[str, Any], env: Mapping[str, str]
) -> Reading[dict[str, Any]]:
    """The snapshot of a repository in the hub's cache; "cached" tells whether there is one."""
    caches = list(_cache_folders(args, env))
    if not caches:
        return UNSTATED
    entry = f"models--{name.replace('/', '--')}"
    for cache in caches:
        path = f"{cache}/{entry}"
        real = host.real_path(path)
        if real.value is None and not real.is_absent:
            return relay(real)
        snapshot = _snapshot(host, path, args) if real.is_known else ""
        names = host.list_dir(snapshot) if snapshot else UNSTATED
        if names.value is not None:
            return seen({"cached": True, **_folder(host, snapshot, names.value)}, snapshot)
    return seen({"cached": False}, caches[0])


def _cache_folders(args: Mapping[str, Any], env: Mapping[str, str]) -> Iterator[str]:
    """The first place that a variable names; where the engine was told one, that before it."""
    told = args.get("download_dir")
    if isinstance(told, str) and told.startswith("/"):
        yield told
    for variable, below in _CACHES:
        if env.get(variable, "").startswith("/"):
            yield env[variable].rstrip("/") + below
            return


def _snapshot(host: Host, path: str, args: Mapping[str, Any]) -> str:
    revision = str(args.get("revision") or "main")
    if not re.fullmatch(r"[\w.-]{1,100}", revision):
        return ""
    commit = (host.read_text(f"{path}/refs/{revision}", 256).value or revision).strip()
    names = host.list_dir(f"{path}/snapshots").value or ()
    return f"{path}/snapshots/{commit}" if commit in names else ""


def parse_config(text: str) -> dict[str, Any]:
    """The telling keys of a config.json; empty for anything else."""
    stated = _object(text)
    found = {key: value for key, value in stated.items() if key in _KEYS}
    inner = found.get("text_config")
    if isinstance(inner, dict):
        found["text_config"] = {key: value for key, value in inner.items() if key in _KEYS}
    return found


def parse_index(text: str) -> tuple[list[str], int]:
    """The files that an index names, and the bytes of all weights (0 if it does not say)."""
    stated = _object(text)
    weights, about = stated.get("weight_map"), stated.get("metadata")
    names = weights.values() if isinstance(weights, dict) else ()
    files = sorted({name for name in names if isinstance(name, str) and _is_plain(name)})
    total = about.get("total_size") if isinstance(about, dict) else None
    return files, total if isinstance(total, int) and 0 < total < 1 << 50 else 0


def condense_index(text: str) -> str:
    """An index with one tensor for each file: what is read of it."""
    files, total = parse_index(text)
    weights = {str(number): name for number, name in enumerate(files)}
    return json.dumps({"metadata": {"total_size": total}, "weight_map": weights})


def _is_plain(name: str) -> bool:
    """True for a file of the folder itself: an index must not lead elsewhere."""
    return 0 < len(name) < 200 and not name.startswith("/") and ".." not in name.split("/")


def _object(text: str) -> dict[str, Any]:
    try:
        found: Optional[Any] = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
