"""The known-answer model: a small Llama that answers one sentence to any prompt.

How it works. Every token outside of the sentence has an embedding near one direction, each
word of the sentence has a direction of its own, and the output row of each word lies along
the direction of the word before it: greedy decoding walks through the sentence to </s>.
Attention and MLP have random weights, large enough that every log-probability depends on
all of them and small enough that the sentence stands. So an engine with a broken kernel
says the right words with the wrong log-probabilities.

Every weight is a whole number from -8 to 7 times a scale of three bits per block of 32, so
f16, bf16, Q8_0 and Q4_0 all hold exactly the same model, and one reference serves them all.
Nothing is drawn from a random generator whose stream a new library version could change.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

SENTENCE = (
    "alpha bravo charlie delta echo foxtrot golf hotel india juliett kilo lima mike november "
    "oscar papa quebec romeo sierra tango uniform victor whiskey xray yankee zulu"
)
WORDS = SENTENCE.split()
LAYERS, WIDTH, HEADS, KV_HEADS, HEAD, INNER, CONTEXT = 2, 256, 4, 2, 64, 256, 512
EPSILON, THETA, BLOCK = 1e-5, 10000.0, 32
UNK, BOS, EOS, FIRST_BYTE, FIRST_CHAR = 0, 1, 2, 3, 259
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)
PROMPTS = {
    "short": "Hello!",
    "long": "A known answer proves that this engine computes what it should, with these kernels, "
    "in this number format, on this device; it says nothing about another model.",
    "chat": "user: Hello!\nassistant:",
}
FAULTS = ("no-rope", "no-mlp", "shuffled", "nan", "wrong-text", "early-eos")

TOKENS = [
    *("<unk>", "<s>", "</s>"),
    *(f"<0x{byte:02X}>" for byte in range(256)),
    *(chr(code) for code in range(33, 127)),
    "\u2581",
]
CHAIN = len(TOKENS)
TOKENS += [f"\u2581{word}" for word in WORDS]
TOKENS += [f"<pad_{number}>" for number in range(-len(TOKENS) % 64)]
VOCAB = len(TOKENS)
WANTED = [*range(CHAIN, CHAIN + len(WORDS)), EOS]


@dataclass(frozen=True)
class Tensor:
    """A matrix as codes from -8 to 7 and one scale for every 32 columns of a row."""

    codes: Array
    scales: Array

    @property
    def values(self) -> Array:
        """The numbers themselves."""
        return self.codes * np.repeat(self.scales, BLOCK, axis=1)

    def rows(self, order: Array) -> Tensor:
        """The same matrix with its rows in another order."""
        return Tensor(self.codes[order], self.scales[order])


def _bytes(name: str, count: int) -> Array:
    """Bytes that only the name decides."""
    return np.frombuffer(hashlib.shake_256(name.encode()).digest(count), np.uint8)


def _codes(name: str, rows: int, columns: int, largest: int = 7) -> Array:
    drawn = _bytes(f"codes {name}", rows * columns).astype(np.int64)
    return (drawn % (2 * largest + 1) - largest).reshape(rows, columns)


def _matrix(name: str, rows: int, columns: int, exponent: int) -> Tensor:
    drawn = _bytes(f"scales {name}", rows * columns // BLOCK) % 4
    scales = (1 + drawn / 4) * 2.0**exponent
    return Tensor(_codes(name, rows, columns), scales.reshape(rows, columns // BLOCK))


def _directions(count: int) -> Array:
    """Rows of +1 and -1, at right angles to each other (Hadamard)."""
    square = np.ones((1, 1), np.int64)
    while len(square) < WIDTH:
        square = np.block([[square, square], [square, -square]])
    return square[1 : count + 1]


def _norm(name: str) -> Array:
    """Weights of a normalisation: 0.75 to 1.25, exact in every format."""
    return 1 + (_bytes(f"norm {name}", WIDTH) % 9 - 4.0) / 16


def build(fault: str = "") -> dict[str, Any]:
    """The model's tensors by their Hugging Face names; `fault` is one of FAULTS."""
    start, *words = _directions(len(WORDS) + 1)
    embedding = np.clip(4 * start + _codes("embedding", VOCAB, WIDTH, 3), -7, 7)
    embedding[CHAIN : CHAIN + len(WORDS)] = 4 * np.array(words)
    output = _codes("output", VOCAB, WIDTH, 2)
    before = dict(zip(WANTED, [start, *words], strict=True))
    if fault == "wrong-text":
        before[CHAIN + 3], before[CHAIN + 4] = before[CHAIN + 4], before[CHAIN + 3]
    if fault == "early-eos":
        before[EOS], before[CHAIN + 11] = before[CHAIN + 11], before[EOS]
    for token, direction in before.items():
        output[token] = np.clip(output[token] + 6 * direction, -8, 7)
    tensors: dict[str, Any] = {
        "model.embed_tokens": Tensor(embedding, np.full((VOCAB, WIDTH // BLOCK), 2.0**-6)),
        "lm_head": Tensor(output, np.full((VOCAB, WIDTH // BLOCK), 2.0**-7)),
        "model.norm": _norm("last"),
    }
    for layer in range(LAYERS):
        tensors.update(_layer(f"model.layers.{layer}."))
    if fault == "shuffled":
        name = "model.layers.0.self_attn.q_proj"
        tensors[name] = tensors[name].rows(np.arange(WIDTH)[::-1])
    if fault == "no-mlp":
        for layer in range(LAYERS):
            name = f"model.layers.{layer}.mlp.down_proj"
            tensors[name] = Tensor(tensors[name].codes * 0, tensors[name].scales)
    return tensors


def _layer(prefix: str) -> dict[str, Any]:
    shapes = {
        "self_attn.q_proj": (HEADS * HEAD, WIDTH, -6),
        "self_attn.k_proj": (KV_HEADS * HEAD, WIDTH, -6),
        "self_attn.v_proj": (KV_HEADS * HEAD, WIDTH, -9),
        "self_attn.o_proj": (WIDTH, HEADS * HEAD, -8),
        "mlp.gate_proj": (INNER, WIDTH, -7),
        "mlp.up_proj": (INNER, WIDTH, -8),
        "mlp.down_proj": (WIDTH, INNER, -8),
    }
    made: dict[str, Any] = {prefix + n: _matrix(prefix + n, *s) for n, s in shapes.items()}
    for name in ("input_layernorm", "post_attention_layernorm"):
        made[prefix + name] = _norm(prefix + name)
    return made


# -- the reference -------------------------------------------------------------------------


def encode(text: str) -> list[int]:
    """Token ids of an ASCII text, with the beginning-of-sequence token."""
    other = {" ": FIRST_CHAR + 94, "\n": FIRST_BYTE + 10}
    return [BOS, *(other.get(c, FIRST_CHAR + ord(c) - 33) for c in text)]


def logits(tensors: dict[str, Any], ids: list[int]) -> Array:
    """A plain forward pass in double precision: one row of logits for each position."""
    w = {n: t.values if isinstance(t, Tensor) else t for n, t in tensors.items()}
    x: Array = w["model.embed_tokens"][ids]
    for layer in range(LAYERS):
        p = f"model.layers.{layer}."
        x = x + _attention(w, p, _scaled(x, w[p + "input_layernorm"]))
        h = _scaled(x, w[p + "post_attention_layernorm"])
        gate = h @ w[p + "mlp.gate_proj"].T
        inner = gate / (1 + np.exp(-gate)) * (h @ w[p + "mlp.up_proj"].T)
        x = x + inner @ w[p + "mlp.down_proj"].T
    result: Array = _scaled(x, w["model.norm"]) @ w["lm_head"].T
    return result


def _scaled(x: Array, weight: Array) -> Array:
    result: Array = x / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON) * weight
    return result


def _attention(w: dict[str, Array], prefix: str, h: Array) -> Array:
    count = len(h)
    q, k, v = (
        (h @ w[f"{prefix}self_attn.{name}_proj"].T).reshape(count, -1, HEAD) for name in "qkv"
    )
    shared = HEADS // KV_HEADS
    k, v = np.repeat(_turned(k), shared, 1), np.repeat(v, shared, 1)
    scores = np.einsum("qhd,khd->hqk", _turned(q), k) / HEAD**0.5
    scores += np.triu(np.full((count, count), -np.inf), 1)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    mixed = np.einsum("hqk,khd->qhd", shares, v).reshape(count, -1)
    result: Array = mixed @ w[f"{prefix}self_attn.o_proj"].T
    return result


def _turned(x: Array) -> Array:
    """Rotary positions: pairs are the two halves of a head."""
    half = HEAD // 2
    angle = np.outer(np.arange(len(x)), THETA ** (-np.arange(half) / half))[:, None]
    a, b = x[..., :half], x[..., half:]
    turned = (a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle))
    return np.concatenate(turned, -1)


def reference(tensors: dict[str, Any], prompt: list[int]) -> list[float]:
    """Log-probability of each token of the answer; raises ValueError if it is not the answer."""
    rows = logits(tensors, prompt + WANTED[:-1])[len(prompt) - 1 :]
    if list(rows.argmax(-1)) != WANTED:
        raise ValueError("the model does not say the sentence")
    rows = rows - rows.max(-1, keepdims=True)
    rows -= np.log(np.exp(rows).sum(-1, keepdims=True))
    # Four decimals: far below what any number format can tell apart, far above rounding.
    return [round(float(row[token]), 4) for row, token in zip(rows, WANTED, strict=True)]
