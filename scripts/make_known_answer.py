"""Make the files of the known-answer model: GGUF, Hugging Face folder, reference.

    python scripts/make_known_answer.py doctor/smoke/data
    python scripts/make_known_answer.py /tmp/broken --fault no-rope

The second form writes one GGUF with a fault, to see whether smoke names it. The same
files come out on every machine: see known_answer_model.py.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from known_answer_model import (
    BLOCK,
    BOS,
    CONTEXT,
    EOS,
    EPSILON,
    FAULTS,
    FIRST_CHAR,
    HEAD,
    HEADS,
    INNER,
    KV_HEADS,
    LAYERS,
    PROMPTS,
    SENTENCE,
    TEMPLATE,
    THETA,
    TOKENS,
    UNK,
    VOCAB,
    WANTED,
    WIDTH,
    Array,
    Tensor,
    build,
    encode,
    reference,
)

# -- GGUF ----------------------------------------------------------------------------------

_U32, _F32, _BOOL, _TEXT, _ARRAY, _I32 = 4, 6, 7, 8, 9, 5
_GGUF_NAMES = {
    "model.embed_tokens": "token_embd",
    "lm_head": "output",
    "model.norm": "output_norm",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def _f16(tensor: Tensor) -> bytes:
    return tensor.values.astype("<f2").tobytes()


def _q8_0(tensor: Tensor) -> bytes:
    blocks = tensor.codes.reshape(-1, BLOCK).astype(np.int8)
    return _with_scales(tensor, blocks.view(np.uint8))


def _q4_0(tensor: Tensor) -> bytes:
    blocks = (tensor.codes.reshape(-1, BLOCK) + 8).astype(np.uint8)
    return _with_scales(tensor, blocks[:, :16] | blocks[:, 16:] << 4)


def _with_scales(tensor: Tensor, blocks: Array) -> bytes:
    scales = tensor.scales.reshape(-1, 1).astype("<f2").view(np.uint8)
    return np.hstack([scales, blocks]).tobytes()


# Name → GGML type, number of the file type, encoder.
GGUF_TYPES: dict[str, tuple[int, int, Callable[[Tensor], bytes]]] = {
    "f16": (1, 1, _f16),
    "q8_0": (8, 7, _q8_0),
    "q4_0": (2, 2, _q4_0),
}


def _text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def _pair(key: str, kind: int, value: Any) -> bytes:
    """One entry of the metadata; a list is an array of `kind`."""
    forms = {_U32: "<I", _I32: "<i", _F32: "<f", _BOOL: "<?"}
    items = value if isinstance(value, list) else [value]
    body = b"".join(_text(i) if kind == _TEXT else struct.pack(forms[kind], i) for i in items)
    if isinstance(value, list):
        return _text(key) + struct.pack("<IIQ", _ARRAY, kind, len(value)) + body
    return _text(key) + struct.pack("<I", kind) + body


def _metadata(file_type: int, fault: str) -> list[bytes]:
    normal, unknown, control, unused, byte = 1, 2, 3, 5, 6
    kinds = [unknown, control, control, *[byte] * 256, *[normal] * (VOCAB - FIRST_CHAR)]
    kinds = [unused if t.startswith("<pad_") else k for t, k in zip(TOKENS, kinds, strict=True)]
    pairs: list[tuple[str, int, Any]] = [
        ("general.architecture", _TEXT, "llama"),
        ("general.name", _TEXT, "known-answer"),
        ("general.file_type", _U32, file_type),
        ("llama.vocab_size", _U32, VOCAB),
        ("llama.context_length", _U32, CONTEXT),
        ("llama.embedding_length", _U32, WIDTH),
        ("llama.block_count", _U32, LAYERS),
        ("llama.feed_forward_length", _U32, INNER),
        ("llama.attention.head_count", _U32, HEADS),
        ("llama.attention.head_count_kv", _U32, KV_HEADS),
        ("llama.attention.layer_norm_rms_epsilon", _F32, EPSILON),
        ("llama.rope.dimension_count", _U32, HEAD),
        ("llama.rope.freq_base", _F32, THETA),
        ("tokenizer.ggml.model", _TEXT, "llama"),
        ("tokenizer.ggml.tokens", _TEXT, TOKENS),
        ("tokenizer.ggml.scores", _F32, [-1 - i / 1000 for i in range(VOCAB)]),
        ("tokenizer.ggml.token_type", _I32, kinds),
        ("tokenizer.ggml.bos_token_id", _U32, BOS),
        ("tokenizer.ggml.eos_token_id", _U32, EOS),
        ("tokenizer.ggml.unknown_token_id", _U32, UNK),
        ("tokenizer.ggml.add_bos_token", _BOOL, True),
        ("tokenizer.ggml.add_space_prefix", _BOOL, False),
        ("tokenizer.chat_template", _TEXT, TEMPLATE),
    ]
    if fault == "no-rope":  # so long a scale that all positions are one
        pairs.append(("llama.rope.scaling.type", _TEXT, "linear"))
        pairs.append(("llama.rope.scaling.factor", _F32, 1e9))
    return [_pair(*pair) for pair in pairs]


def _gguf_name(name: str) -> str:
    prefix, _, rest = name.removeprefix("model.layers.").partition(".")
    if name.startswith("model.layers."):
        return f"blk.{prefix}.{_GGUF_NAMES[rest]}.weight"
    return f"{_GGUF_NAMES[name]}.weight"


def _gguf_order(heads: int) -> Array:
    """GGUF turns neighbouring rows of a head, Hugging Face those of its two halves."""
    return np.arange(heads * HEAD).reshape(heads, 2, HEAD // 2).swapaxes(1, 2).ravel()


def gguf(tensors: dict[str, Any], form: str, fault: str = "") -> bytes:
    """The model as one GGUF file."""
    ggml_type, file_type, encode_tensor = GGUF_TYPES[form]
    infos, blobs, offset = [], [], 0
    for name, tensor in tensors.items():
        if name.endswith(("q_proj", "k_proj")):
            heads = HEADS if name.endswith("q_proj") else KV_HEADS
            tensor = tensor.rows(_gguf_order(heads))  # noqa: PLW2901
        plain = not isinstance(tensor, Tensor)
        blob = tensor.astype("<f4").tobytes() if plain else encode_tensor(tensor)
        shape = tensor.shape if plain else tensor.codes.shape[::-1]
        info = _text(_gguf_name(name)) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
        infos.append(info + struct.pack("<IQ", 0 if plain else ggml_type, offset))
        blobs.append(blob + bytes(-len(blob) % 32))
        offset += len(blobs[-1])
    if fault == "nan":
        blobs[-1] = b"\x00\x00\xc0\x7f" * (len(blobs[-1]) // 4)
    pairs = _metadata(file_type, fault)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(infos), len(pairs)) + b"".join(pairs + infos)
    return head + bytes(-len(head) % 32) + b"".join(blobs)


# -- Hugging Face --------------------------------------------------------------------------


def _bf16(values: Array) -> bytes:
    """The upper half of each number; the lower is empty, since all of them fit."""
    wide = np.ascontiguousarray(values, "<f4").view("<u4")
    if (wide & 0xFFFF).any():
        raise ValueError("a weight does not fit bf16")
    return (wide >> 16).astype("<u2").tobytes()


def safetensors(tensors: dict[str, Any]) -> bytes:
    """The weights as one safetensors file in bf16."""
    head: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    blobs, offset = [], 0
    for name, tensor in tensors.items():
        values = tensor.values if isinstance(tensor, Tensor) else tensor
        blobs.append(_bf16(values))
        end = offset + len(blobs[-1])
        entry = {"dtype": "BF16", "shape": list(values.shape), "data_offsets": [offset, end]}
        head[f"{name}.weight"] = entry
        offset = end
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(blobs)


def _config() -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": WIDTH,
        "intermediate_size": INNER,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD,
        "hidden_act": "silu",
        "max_position_embeddings": CONTEXT,
        "rms_norm_eps": EPSILON,
        "rope_theta": THETA,
        "vocab_size": VOCAB,
        "tie_word_embeddings": False,
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "torch_dtype": "bfloat16",
    }


def _tokenizer() -> dict[str, Any]:
    """A tokenizer.json of single characters and bytes: words of the sentence are never read."""
    special = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    bos = {"SpecialToken": {"id": "<s>", "type_id": 0}}
    pair = [bos, *({"Sequence": {"id": name, "type_id": 0}} for name in "AB")]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": i, "content": TOKENS[i], **special, "special": True} for i in (UNK, BOS, EOS)
        ],
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
        "pre_tokenizer": None,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": pair[:2],
            "pair": pair,
            "special_tokens": {"<s>": {"id": "<s>", "ids": [BOS], "tokens": ["<s>"]}},
        },
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
            ],
        },
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": "<unk>",
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": True,
            "byte_fallback": True,
            "ignore_merges": False,
            "vocab": {token: i for i, token in enumerate(TOKENS)},
            "merges": [],
        },
    }


def _tokenizer_config() -> dict[str, Any]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "chat_template": TEMPLATE,
        "model_max_length": CONTEXT,
        "clean_up_tokenization_spaces": False,
    }


# -- files ---------------------------------------------------------------------------------


def _json(data: Any) -> bytes:
    return (json.dumps(data, ensure_ascii=False, indent=1) + "\n").encode()


def files(tensors: dict[str, Any]) -> dict[str, bytes]:
    """All files of the model by their names."""
    made = {f"known-answer-{form}.gguf": gguf(tensors, form) for form in GGUF_TYPES}
    folder = "known-answer-hf/"
    made[folder + "model.safetensors"] = safetensors(tensors)
    made[folder + "config.json"] = _json(_config())
    made[folder + "generation_config.json"] = _json({"bos_token_id": BOS, "eos_token_id": EOS})
    made[folder + "tokenizer.json"] = _json(_tokenizer())
    made[folder + "tokenizer_config.json"] = _json(_tokenizer_config())
    return made


def description(tensors: dict[str, Any], made: dict[str, bytes]) -> dict[str, Any]:
    """The sentence, its reference log-probabilities by prompt, and the files' sha256."""
    cases = {}
    for name, text in PROMPTS.items():
        ids = encode(text)
        # An engine that takes no ids may add another number of beginnings of text.
        others = {"none": ids[1:], "two": [BOS, *ids]}
        cases[name] = {
            "text": text,
            "ids": ids,
            "logprobs": reference(tensors, ids),
            "other_beginnings": {n: reference(tensors, i) for n, i in others.items()},
        }
    return {
        "sentence": SENTENCE,
        "tokens": WANTED,
        "context": CONTEXT,
        "cases": cases,
        "files": {name: hashlib.sha256(data).hexdigest() for name, data in made.items()},
    }


def write(folder: Path, made: dict[str, bytes]) -> None:
    """Write files into a folder, which is made if it is not there."""
    for name, data in made.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def main() -> None:
    """Make the files, or a broken GGUF."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--fault", choices=FAULTS, default="")
    asked = parser.parse_args()
    tensors = build(asked.fault)
    if asked.fault:
        write(asked.folder, {f"{asked.fault}.gguf": gguf(tensors, "f16", asked.fault)})
        return
    made = files(tensors)
    made["known-answer.json"] = _json(description(tensors, made))
    write(asked.folder, made)


if __name__ == "__main__":
    main()
