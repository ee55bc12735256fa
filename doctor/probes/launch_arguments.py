"""The arguments of a running engine, read from its command line under engine-neutral names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from doctor.facts.arguments import argument_name
from doctor.probes.environment import CUT, cut_secret

# Short options that mean another thing, or nothing, to other engines.
_SHORT = {
    "llama.cpp": {
        "m": "model",
        "hf": "model",
        "hfr": "model",
        "np": "max_num_seqs",
        "parallel": "max_num_seqs",
        "ctk": "kv_cache_dtype",
        "cache_type_k": "kv_cache_dtype",
        "hf_repo": "model",
    },
    "ollama": {"parallel": "max_num_seqs"},
    "vllm": {"q": "quantization"},
    "tgi": {
        "max_total_tokens": "max_model_len",
        "cuda_memory_fraction": "gpu_memory_utilization",
    },
    "tensorrt-llm": {"max_batch_size": "max_num_seqs"},
}
# The word after which an engine takes the model without an option.
_MODEL_AFTER = {"serve": ("vllm", "tensorrt-llm"), "api_server": ("lmdeploy",)}
_WORDS = frozenset({"quantization", "dtype", "kv_cache_dtype", "attention_backend", "load_format"})
# Variables that stand for options: each by its name, or all that begin with a word.
_VARIABLES = {
    "tgi": {
        "MODEL_ID": "model_id",
        "NUM_SHARD": "num_shard",
        "QUANTIZE": "quantize",
        "DTYPE": "dtype",
        "MAX_TOTAL_TOKENS": "max_total_tokens",
        "CUDA_MEMORY_FRACTION": "cuda_memory_fraction",
    },
    "ollama": {
        "OLLAMA_CONTEXT_LENGTH": "num_ctx",
        "OLLAMA_NUM_PARALLEL": "parallel",
        "OLLAMA_KV_CACHE_TYPE": "kv_cache_dtype",
        "OLLAMA_FLASH_ATTENTION": "flash_attn",
    },
}
_PREFIXES = {"llama.cpp": "LLAMA_ARG_"}
_NUMBER = re.compile(r"[+-]?\d{1,15}(?:\.\d{0,12})?")
# Options whose values are keys; some take several.
_HIDDEN = re.compile(
    r"(?:\w+_)?(?:api_?keys?|keys|secrets?|passwords?|passphrase|auth_?token|token|credentials?)"
    r"|hft|\w+_password\w*"
)
_MOST = 200


def parse_arguments(engine: str, argv: tuple[str, ...]) -> dict[str, Any]:
    """Options with their values; one without a value is true, one repeated keeps its last."""
    args: dict[str, Any] = {}
    model = _positional_model(engine, argv)
    if model:
        args["model"] = model
    words = argv[1:][: 4 * _MOST]
    for index, word in enumerate(words):
        if len(word) < 2 or not word.startswith("-") or _NUMBER.fullmatch(word):
            continue
        option, equals, value = word.partition("=")
        follower = words[index + 1] if index + 1 < len(words) else ""
        if not equals and follower and (follower[0] != "-" or _NUMBER.fullmatch(follower)):
            value, equals = follower, " "
        name = _neutral(engine, option)
        if name and len(args) < _MOST:
            args[name] = _value(name, value) if equals else True
    return args


def from_environment(engine: str, env: Mapping[str, str]) -> dict[str, Any]:
    """What variables state in place of options, under the same names."""
    named = _VARIABLES.get(engine, {})
    prefix = _PREFIXES.get(engine, "\0")
    pairs = ((named.get(name) or name.removeprefix(prefix), name) for name in sorted(env))
    stated = ((option, name) for option, name in pairs if option != name)
    found = {_neutral(engine, option): _value(option, env[name]) for option, name in stated}
    return {name: value for name, value in found.items() if name}


def hide_secrets(argv: tuple[str, ...]) -> tuple[str, ...]:
    """The command line with keys and tokens cut."""
    hidden = []
    is_key = False
    for word in argv:
        option, equals, value = word.partition("=")
        if is_key and not word.startswith("-"):
            hidden.append(CUT)
            continue
        is_key = not equals and _is_hidden(option)
        if is_key:
            hidden.append(word)
        elif equals and word.startswith("-"):
            hidden.append(f"{option}={CUT if _is_hidden(option) else cut_secret('', value)}")
        else:
            hidden.append(cut_secret("", word))
    return tuple(hidden)


def _is_hidden(option: str) -> bool:
    plain = re.sub(r"[-.]+", "_", option.lstrip("-").lower())
    return option.startswith("-") and _HIDDEN.fullmatch(plain) is not None


def _positional_model(engine: str, argv: tuple[str, ...]) -> str:
    for verb, engines in _MODEL_AFTER.items():
        if engine in engines and verb in argv:
            rest = argv[argv.index(verb) + 1 :]
            return rest[0] if rest and not rest[0].startswith("-") else ""
    if engine == "tensorrt-llm" and len(argv) > 1:
        # trtllm-serve took the model as its first word before it had verbs.
        program = next((i for i, word in enumerate(argv) if word.endswith("trtllm-serve")), -1)
        first = argv[program + 1] if 0 <= program < len(argv) - 1 else ""
        return "" if first.startswith("-") else first
    return ""


def _neutral(engine: str, option: str) -> str:
    plain = re.sub(r"[-.]+", "_", option.lstrip("-").lower())[:100]
    if plain in ("m", "o", "u") and plain not in _SHORT.get(engine, {}):
        return ""
    return _SHORT.get(engine, {}).get(plain) or argument_name(plain)


def _value(name: str, text: str) -> Any:
    if _HIDDEN.fullmatch(name):
        return CUT
    if name in _WORDS:
        return text.lower()
    if _NUMBER.fullmatch(text):
        return float(text) if "." in text else int(text)
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    return cut_secret(name, text)
