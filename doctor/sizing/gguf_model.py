"""What a GGUF file says of the model that it holds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from doctor.errors import UsageError
from doctor.matrix.architectures import Experts, Latent
from doctor.matrix.memory import MemoryDomain
from doctor.sizing.formats import gguf_format
from doctor.sizing.gguf import Gguf, Length, Tensor
from doctor.sizing.model import Model, Quantization, Stored
from doctor.sizing.params import traits_of
from doctor.sizing.values import MOST_HEADS, MOST_LAYERS, MOST_TOKENS, MOST_VOCAB, checked

_LAYER = re.compile(r"blk\.(\d{1,5})\.")
_KINDS = (
    ("embedding", re.compile(r"token_embd|position_embd|per_layer_token_embd")),
    ("head", re.compile(r"^output\.weight")),
    ("norms", re.compile(r"norm|rope_freqs|_scale")),
    ("router", re.compile(r"ffn_gate_inp")),
    ("experts", re.compile(r"_exps")),
    ("shared", re.compile(r"_shexp")),
    ("latent", re.compile(r"attn_kv_a|attn_q_a")),
    ("kv", re.compile(r"attn_[kv]\.")),
    ("attention", re.compile(r"attn")),
    ("state-space", re.compile(r"ssm")),
    ("dense", re.compile(r"ffn")),
)


def model_of_gguf(file: Gguf, memory: MemoryDomain) -> Model:
    """The model; raises UsageError where metadata that every model has is missing or absurd."""
    return _Reader(file, memory).model()


def kind_of(name: str) -> str:
    """The kind of weights that a tensor holds, by its name."""
    return next((kind for kind, pattern in _KINDS if pattern.search(name)), "other")


def stored(tensors: Sequence[Tensor]) -> Stored:
    """Bytes of tensors by kind and by layer."""
    by_kind: dict[str, int] = {}
    by_layer: dict[int, int] = {}
    for tensor in tensors:
        kind = kind_of(tensor.name)
        by_kind[kind] = by_kind.get(kind, 0) + tensor.size
        layer = _LAYER.match(tensor.name)
        if layer:
            number = int(layer[1])
            by_layer[number] = by_layer.get(number, 0) + tensor.size
    return Stored(by_kind, by_layer, sum(by_kind.values()))


class _Reader:
    """Reads the keys of one architecture."""

    def __init__(self, file: Gguf, memory: MemoryDomain) -> None:
        self.file = file
        self.memory = memory
        self.at = str(file.path)
        self.architecture = str(file.metadata.get("general.architecture") or "")[:100]
        if not self.architecture:
            raise UsageError(f"{self.at}: no general.architecture", "name the file of a model")

    def raw(self, key: str) -> Any:
        return self.file.metadata.get(f"{self.architecture}.{key}")

    def number(self, key: str, most: int, least: int = 1) -> int | None:
        value = self.raw(key)
        what = f"{self.at}: {self.architecture}.{key}"
        return None if value is None else checked(value, what, most, least)

    def numbers(self, key: str, layers: int) -> list[int] | None:
        """One number a layer, whether the file has one for all or one for each."""
        value = self.raw(key)
        if not isinstance(value, list):
            lone = self.number(key, MOST_HEADS * 1024, least=0)
            return None if lone is None else [lone] * layers
        what = f"{self.at}: {self.architecture}.{key}"
        return [checked(each, what, MOST_HEADS * 1024, least=0) for each in value[:layers]]

    def needed(self, key: str, most: int) -> int:
        value = self.number(key, most)
        if value is None:
            raise UsageError(f"{self.at}: no {self.architecture}.{key}", "name a model's file")
        return value

    def model(self) -> Model:
        layers = self.needed("block_count", MOST_LAYERS)
        hidden = self.needed("embedding_length", 1 << 22)
        heads = max(self.numbers("attention.head_count", layers) or [1]) or 1
        kv = self.numbers("attention.head_count_kv", layers) or [heads] * layers
        key_width = self.number("attention.key_length", 1 << 20) or hidden // heads
        latent, expands = self._latent(max(kv, default=1))
        elements = sum(tensor.elements for tensor in self.file.tensors)
        width = self.numbers("feed_forward_length", layers)
        return Model(
            name=str(self.file.metadata.get("general.name") or self.file.path.name)[:200],
            architecture=self.architecture,
            layers=layers,
            hidden=hidden,
            heads=heads,
            kv_heads=max(kv, default=heads) or heads,
            head_dim=key_width,
            value_dim=self.number("attention.value_length", 1 << 20) or key_width,
            vocab=self._vocab(),
            intermediate=max(width) if width else None,
            positions=self.number("context_length", MOST_TOKENS),
            tied=not any(tensor.name == "output.weight" for tensor in self.file.tensors),
            kinds=self._kinds(layers, kv),
            window=self.number("attention.sliding_window", MOST_TOKENS, least=0) or None,
            experts=self._experts(),
            latent=latent,
            params=elements,
            quantization=self._quantization(elements),
            stored=stored(self.file.tensors),
            expands_latent=expands,
            at=self.at,
        )

    def _vocab(self) -> int | None:
        tokens = self.file.metadata.get("tokenizer.ggml.tokens")
        if isinstance(tokens, Length):
            return checked(tokens.elements, f"{self.at}: tokens", MOST_VOCAB)
        embedding = next((t for t in self.file.tensors if t.name == "token_embd.weight"), None)
        stated = self.number("vocab_size", MOST_VOCAB)
        return stated or (embedding.shape[-1] if embedding else None)

    def _kinds(self, layers: int, kv: Sequence[int]) -> dict[str, int]:
        keeping = sum(1 for heads in kv if heads)
        kinds = {"other": layers - keeping} if keeping < layers else {}
        full = self._full_layers(keeping)
        counts = {"full": full, "sliding": keeping - full}
        return {**kinds, **{kind: count for kind, count in counts.items() if count}}

    def _full_layers(self, keeping: int) -> int:
        """Layers that keep all tokens: by the file's pattern, else by its architecture's."""
        pattern = self.raw("attention.sliding_window_pattern")
        if not self.raw("attention.sliding_window"):
            return keeping
        if isinstance(pattern, list) and pattern:
            slides = sum(bool(pattern[n % len(pattern)]) for n in range(keeping))
            return keeping - slides
        traits = traits_of(self.memory, self.architecture)
        period = pattern if isinstance(pattern, int) else (traits and traits.sliding_period)
        return keeping // period if period and period > 0 else keeping

    def _experts(self) -> Experts | None:
        count = self.number("expert_count", MOST_HEADS, least=0)
        if not count:
            return None
        return Experts(
            count=count,
            active=self.number("expert_used_count", MOST_HEADS),
            width=self.number("expert_feed_forward_length", 1 << 22),
            shared=self.number("expert_shared_feed_forward_length", 1 << 22, least=0) or 0,
        )

    def _latent(self, kv_heads: int) -> tuple[Latent | None, bool]:
        """Latent attention, and whether the engine expands it to keys and values of heads."""
        rank = self.number("attention.kv_lora_rank", 1 << 20, least=0)
        rope = self.number("rope.dimension_count", 1 << 20)
        if not rank or not rope:
            return None, False
        value = self.number("attention.value_length_mla", 1 << 20)
        return Latent(kv_rank=rank, rope=rope, value=value), kv_heads > 1

    def _quantization(self, elements: int) -> Quantization | None:
        if not elements:
            return None
        return Quantization(gguf_format(self.memory, self.file.size * 8 / elements))
