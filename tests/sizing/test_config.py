from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.errors import UsageError
from doctor.sizing.config import model_of_config, parse_config
from doctor.sizing.kv import KvPlan, request_bytes, token_bytes
from doctor.sizing.model import Model
from doctor.sizing.weights import rank_weights
from tests.sizing.measured import matrix

MEMORY = matrix().memory
PLAN = KvPlan(next(row for row in MEMORY.kv_formats if row.key == "16bit"))

QWEN3: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"],
    "hidden_size": 4096,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 12288,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "tie_word_embeddings": False,
    "attention_bias": False,
}
DEEPSEEK: dict[str, Any] = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "hidden_size": 7168,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "intermediate_size": 18432,
    "vocab_size": 129280,
    "max_position_embeddings": 163840,
    "tie_word_embeddings": False,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 2048,
    "first_k_dense_replace": 3,
    "moe_layer_freq": 1,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}


def _model(config: dict[str, Any]) -> Model:
    return model_of_config(config, MEMORY, "config.json")


def _billions(config: dict[str, Any]) -> float:
    model = _model(config)
    return rank_weights(model, MEMORY, model.quantization).params / 1e9


def test_a_dense_model() -> None:
    model = _model(QWEN3)
    assert model.kinds == {"full": 36}
    assert _billions(QWEN3) == pytest.approx(8.19, abs=0.01)
    assert token_bytes(model, PLAN) == 147456


def test_a_mixture_of_experts_with_latent_attention() -> None:
    model = _model(DEEPSEEK)
    assert model.experts is not None
    assert (model.experts.count, model.experts.layers, model.experts.shared) == (256, 58, 2048)
    assert _billions(DEEPSEEK) == pytest.approx(671.0, abs=0.5)
    assert token_bytes(model, PLAN) == 70272
    assert model.quantization is not None
    assert model.quantization.format.key == "fp8_block128"


def test_the_text_part_of_a_model_that_sees() -> None:
    config = {
        "architectures": ["Qwen2_5_VLForConditionalGeneration"],
        "text_config": QWEN3,
        "vision_config": {
            "depth": 32,
            "hidden_size": 1280,
            "intermediate_size": 3420,
            "hidden_act": "silu",
            "spatial_merge_size": 2,
            "out_hidden_size": 3584,
        },
    }
    model = _model(config)
    assert model.layers == 36
    assert model.is_multimodal
    assert model.tower / 1e9 == pytest.approx(0.675, abs=0.01)


@pytest.mark.parametrize(
    ("extra", "kinds"),
    [
        ({"layer_types": ["full_attention"] * 6 + ["sliding_attention"] * 30}, (6, "sliding")),
        ({"full_attention_interval": 4}, (9, "linear")),
        ({"sliding_window": 1024, "sliding_window_pattern": 6}, (6, "sliding")),
        ({"attention_chunk_size": 8192}, (9, "chunked")),
        ({"sliding_window": 4096, "model_type": "gemma2"}, (18, "sliding")),
        ({"attn_layer_period": 9}, (4, "mamba2")),
        ({"sliding_window": 4096, "use_sliding_window": False}, (36, "")),
        ({"sliding_window": 262144}, (36, "")),
    ],
)
def test_what_layers_keep(extra: dict[str, Any], kinds: tuple[int, str]) -> None:
    full, other = kinds
    expected = {"full": full} | ({other: 36 - full} if other else {})
    assert _model({**QWEN3, **extra}).kinds == expected


def test_a_hybrid_pattern_of_letters() -> None:
    config = {**QWEN3, "hybrid_override_pattern": "M-M*" * 9}
    assert _model(config).kinds == {"mamba2": 18, "mlp": 9, "full": 9}


def test_windows_bound_what_a_long_request_keeps() -> None:
    sliding = _model({**QWEN3, "sliding_window": 1024, "sliding_window_pattern": 6})
    plan = KvPlan(PLAN.format, block=16, batched=2048, sliding_as_full=False)
    each = token_bytes(sliding, plan) / 36
    kept = 1024 - 1 + 2048
    rounded = -(-kept // 16) * 16 + 16
    assert request_bytes(sliding, plan, 40960) == each * (6 * 40960 + 30 * rounded)


@pytest.mark.parametrize(
    ("stated", "key", "size"),
    [
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, "awq", 0.5 + 2.5 / 128),
        ({"quant_method": "gptq", "bits": 8, "group_size": 128}, "gptq", 1 + 3 / 128),
        ({"quant_method": "gptq", "bits": 4, "group_size": -1}, "gptq", 0.5),
        ({"quant_method": "fp8"}, "fp8", 1.0),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "bnb4", 0.516),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8", 1.00048828125),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4", 0.5625),
        ({"quant_method": "mxfp4"}, "mxfp4", 0.53125),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"g": {"weights": {"num_bits": 4, "group_size": 32}}},
            },
            "awq",
            0.5 + 2 / 32,
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"g": {"weights": {"num_bits": 8, "type": "float"}}},
            },
            "fp8",
            1.0,
        ),
    ],
)
def test_number_formats(stated: dict[str, Any], key: str, size: float) -> None:
    found = _model({**QWEN3, "quantization_config": stated}).quantization
    assert found is not None
    assert (found.format.key, found.format.bytes_per_weight) == (key, size)


def test_a_method_that_is_not_known_leaves_the_bytes_open() -> None:
    model = _model({**QWEN3, "quantization_config": {"quant_method": "spqr"}})
    assert model.quantization is None
    assert model.unclear == "spqr"


def test_what_a_checkpoint_leaves_at_16_bit_is_counted_so() -> None:
    stated = {"quant_method": "fp8"}
    whole = _model({**QWEN3, "quantization_config": stated})
    kept = _model({**QWEN3, "quantization_config": {**stated, "ignore": ["re:.*self_attn.*"]}})
    one = [f"model.layers.{n}.mlp.down_proj" for n in (0, 35)]
    some = _model({**QWEN3, "quantization_config": {**stated, "modules_to_not_convert": one}})
    assert kept.quantization is not None
    assert kept.quantization.kept == {"attention": 1.0, "kv": 1.0, "latent": 1.0}
    assert some.quantization is not None
    assert some.quantization.kept["dense"] == pytest.approx(2 / 36)
    sizes = [rank_weights(m, MEMORY, m.quantization).bytes for m in (whole, some, kept)]
    assert sizes == sorted(sizes)
    assert sizes[2] - sizes[0] == 36 * (2 * 4096 * 4096 + 2 * 4096 * 1024)


ABSURD: list[dict[str, Any]] = [
    {"num_hidden_layers": -3},
    {"num_hidden_layers": 0},
    {"num_hidden_layers": 10**12},
    {"num_hidden_layers": 10**400},
    {"hidden_size": "wide"},
    {"hidden_size": 4096.5},
    {"hidden_size": True},
    {"hidden_size": [4096]},
    {"num_attention_heads": {"a": 1}},
    {"vocab_size": float("inf")},
    {"vocab_size": float("nan")},
    {"num_key_value_heads": -8},
    {"max_position_embeddings": 1 << 60},
    {"intermediate_size": -1},
    {"sliding_window": -5},
    {"num_experts": 1 << 40, "moe_intermediate_size": 8},
    {"quantization_config": {"quant_method": "awq", "bits": -4}},
]


@pytest.mark.parametrize("spoiled", ABSURD, ids=str)
def test_absurd_figures_are_named(spoiled: dict[str, Any]) -> None:
    named = next(iter(spoiled)).replace("quantization_config", "bits")
    with pytest.raises(UsageError, match=named):
        _model({**QWEN3, **spoiled})


@pytest.mark.parametrize("key", ["num_hidden_layers", "hidden_size", "num_attention_heads"])
def test_what_every_model_has_must_be_there(key: str) -> None:
    config = {name: content for name, content in QWEN3.items() if name != key}
    with pytest.raises(UsageError, match=f"no {key}"):
        _model(config)


@pytest.mark.parametrize("content", ["", "[1]", "{", '{"a": ', "nul", "[" * 100_000])
def test_what_is_no_json_object_is_said_to_be_none(content: str) -> None:
    with pytest.raises(UsageError, match=r"config\.json: not"):
        parse_config(content, "config.json")


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(sorted({**QWEN3, **DEEPSEEK, "layer_types": 0})), _VALUES))
def test_any_values_give_a_model_or_one_clear_error(spoiled: dict[str, Any]) -> None:
    try:
        model = _model(json.loads(json.dumps({**DEEPSEEK, **spoiled})))
    except UsageError:
        return
    assert model.layers
    assert model.layers > 0


@pytest.mark.parametrize(
    ("config", "billions"),
    [
        ({"architectures": ["FalconForCausalLM"], "hidden_size": 4544, "num_attention_heads": 71,
          "num_hidden_layers": 32, "multi_query": True, "vocab_size": 65024}, 6.92),
        ({"architectures": ["GPT2LMHeadModel"], "n_layer": 12, "n_head": 12, "n_embd": 768,
          "vocab_size": 50257, "n_positions": 1024}, 0.124),
        ({"architectures": ["ChatGLMModel"], "num_layers": 28, "hidden_size": 4096,
          "num_attention_heads": 32, "multi_query_group_num": 2, "kv_channels": 128,
          "ffn_hidden_size": 13696, "padded_vocab_size": 65024, "seq_length": 32768}, 6.24),
        ({"architectures": ["MixtralForCausalLM"], "hidden_size": 4096, "num_hidden_layers": 32,
          "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
          "num_local_experts": 8, "num_experts_per_tok": 2, "vocab_size": 32000}, 46.7),
    ],
    ids=["falcon", "gpt2", "chatglm", "mixtral"],
)  # fmt: skip
def test_families_that_name_their_widths_in_other_words(
    config: dict[str, Any], billions: float
) -> None:
    assert _billions(config) == pytest.approx(billions, rel=0.005)
