from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.facts import ComputeCapability, Device, Version, seen
from doctor.sizing.advice import changes
from doctor.sizing.cards import GIB, Card, card_of
from doctor.sizing.fit import predict
from doctor.sizing.known import known_model
from doctor.sizing.ladder import first_fitting, ladder
from doctor.sizing.model import Model
from doctor.sizing.parallel import parallel
from doctor.sizing.prediction import Fit, Prediction
from doctor.sizing.settings import Deployment
from doctor.sizing.support import Support
from doctor.sizing.survey import survey
from tests.sizing.measured import matrix

H100 = Card(
    "NVIDIA H100 80GB HBM3", int(79.1 * GIB), is_read=True, capability=ComputeCapability(9, 0)
)
RTX4090 = Card(
    "RTX 4090", int(23.55 * GIB), capability=ComputeCapability(8, 9), gpu_class="geforce"
)
T4 = Card("Tesla T4", int(14.56 * GIB), capability=ComputeCapability(7, 5))


def _model(name: str) -> Model:
    found = known_model(matrix(), name)
    assert found is not None
    return found


LLAMA8 = _model("meta-llama/Meta-Llama-3.1-8B-Instruct")
LLAMA70 = _model("meta-llama/Meta-Llama-3.1-70B-Instruct")


def _ask(
    model: Model, *cards: Card, engine: str = "vllm", version: str = "0.11.0", **args: Any
) -> Prediction:
    known = Version(version) if version else None
    return predict(matrix(), model, Deployment(engine, known, cards, args))


def test_parts_sum_to_what_the_engine_may_use() -> None:
    found = _ask(LLAMA8, RTX4090, max_model_len=8192)
    assert found.verdict is Fit.FITS
    assert found.weights is not None
    assert found.pool is not None
    held = found.weights.bytes + found.activation + found.non_torch + found.graphs_charged
    assert held + found.pool == found.budget == int(RTX4090.total * 0.9)
    assert found.weights.bytes == sum(found.weights.by_kind.values())


def test_the_longest_request_is_what_just_fits() -> None:
    found = _ask(LLAMA8, RTX4090)
    assert found.verdict is Fit.DOES_NOT
    assert found.pool is not None
    assert found.longest is not None
    assert found.longest % 16 == 0
    assert found.longest * 131072 <= found.pool < (found.longest + 16) * 131072


def test_more_requests_at_once_need_more() -> None:
    assert _ask(LLAMA8, RTX4090, max_model_len=4096, concurrency=4).fits
    assert _ask(LLAMA8, RTX4090, max_model_len=4096, concurrency=64).verdict is Fit.DOES_NOT


def test_latent_attention_is_not_divided_by_ranks() -> None:
    deepseek = _model("deepseek-ai/DeepSeek-V3")
    tokens = {_ask(deepseek, *(H100,) * n, tensor_parallel_size=n).token for n in (1, 8)}
    assert tokens == {70272}
    llama = [_ask(LLAMA8, *(H100,) * n, tensor_parallel_size=n).token for n in (1, 8, 16)]
    assert llama == [131072, 16384, 16384]


def test_latent_attention_was_kept_in_full_by_older_releases() -> None:
    """vllm-project/vllm#10927 prints 5373 blocks of 16 tokens in 35.42 GiB before the change."""
    lite = _model("deepseek-ai/DeepSeek-V2-Lite")
    old, new = (
        _ask(lite, H100, version=text, max_model_len=8192).token for text in ("0.6.4", "0.7.3")
    )
    assert old is not None
    assert old == pytest.approx(35.42 * GIB / (5373 * 16), rel=0.001)
    assert new == 31104


def test_ranks_beyond_kv_heads_hold_copies() -> None:
    eight, sixteen = (_ask(LLAMA8, *(H100,) * n, tensor_parallel_size=n).weights for n in (8, 16))
    assert eight is not None
    assert sixteen is not None
    assert sixteen.by_kind["kv"] == eight.by_kind["kv"]
    assert sixteen.by_kind["dense"] * 2 == eight.by_kind["dense"]


def test_a_pipeline_shares_layers_but_not_its_ends() -> None:
    one = _ask(LLAMA70, H100).weights
    two = _ask(LLAMA70, H100, H100, pipeline_parallel_size=2).weights
    assert one is not None
    assert two is not None
    assert two.by_kind["dense"] * 2 == one.by_kind["dense"]
    assert ("embedding" in two.by_kind) != ("head" in two.by_kind)


def test_the_sampler_of_large_cards_takes_more() -> None:
    large = replace(RTX4090, total=80 * GIB, name="H100")
    assert _ask(LLAMA8, large).serving.seqs == 1024
    assert _ask(LLAMA8, replace(large, name="A100")).serving.seqs == 256
    assert _ask(LLAMA8, RTX4090).serving.seqs == 256


def test_an_engine_without_pool_model_says_so() -> None:
    found = _ask(LLAMA8, H100, engine="sglang", version="0.5.23", max_model_len=8192)
    assert found.verdict is Fit.UNCERTAIN
    assert "no pool model for sglang" in found.why
    assert found.pool is None
    assert found.weights is not None
    assert found.request == 1 << 30
    assert _ask(LLAMA70, H100, engine="sglang", version="0.5.23").verdict is Fit.DOES_NOT


def test_what_is_not_known_is_named() -> None:
    assert _ask(LLAMA8).missing == ("memory of the device",)
    bare = Model("nothing")
    found = _ask(bare, H100)
    assert found.verdict is Fit.UNCERTAIN
    assert found.missing
    odd = _ask(replace(LLAMA8, unclear="spqr", published=None), H100)
    assert odd.verdict is Fit.UNCERTAIN
    assert "spqr" in odd.why


def test_a_version_newer_than_the_matrix_gets_no_clean_pass() -> None:
    assert _ask(LLAMA8, H100, version="99.0", max_model_len=4096).verdict is Fit.UNCERTAIN
    assert _ask(LLAMA8, H100, version="0.33.0", max_model_len=4096).fits


def test_memory_that_others_hold_is_not_there() -> None:
    busy = replace(H100, free=20 * GIB)
    found = _ask(LLAMA8, busy, max_model_len=4096)
    assert found.verdict is Fit.DOES_NOT
    assert "free" in found.why


def test_more_ranks_than_devices() -> None:
    found = _ask(LLAMA8, H100, tensor_parallel_size=2)
    assert found.verdict is Fit.DOES_NOT


def test_hybrid_models_report_requests_not_tokens() -> None:
    found = _ask(_model("openai/gpt-oss-20b"), H100, max_model_len=131072)
    assert found.tokens is None
    assert found.concurrency is not None
    assert found.concurrency > 1


def test_the_need_of_a_sliding_model_is_what_the_engine_prints() -> None:
    """4.79 GiB for gpt-oss-120b at 131,072 tokens, in the engine's own words."""
    found = _ask(
        _model("openai/gpt-oss-120b"), H100, max_model_len=131072, max_num_batched_tokens=8192
    )
    assert found.request is not None
    assert found.request / GIB == pytest.approx(4.79, abs=0.005)


def test_the_ladder_keeps_to_what_engine_and_card_take() -> None:
    steps = {s.bits: s for s in ladder(matrix(), LLAMA8, Deployment("vllm", None, (T4,)))}
    assert steps[16].support is Support.YES
    assert steps[4].method.startswith("awq")
    old = ladder(matrix(), LLAMA8, Deployment("vllm", Version("0.11.0"), (T4,)))
    assert old[1].method != "fp8"
    ascend = Card("Ascend 910B3", 64 * GIB, vendor="ascend", soc="Ascend910B3")
    for step in ladder(matrix(), LLAMA8, Deployment("vllm-ascend", None, (ascend,))):
        assert step.support is not Support.YES or step.method not in ("fp8", "awq_marlin")


def test_16_bit_if_it_fits_else_8_else_4() -> None:
    args = {"max_model_len": 4096}
    sizes = {}
    for name in ("meta-llama/Llama-2-7b-hf", "meta-llama/Llama-2-13b-hf"):
        asked = Deployment("vllm", None, (RTX4090,), args)
        step = first_fitting(ladder(matrix(), _model(name), asked))
        sizes[name[-5:-3]] = step.bits if step else 0
    assert sizes == {"7b": 16, "3b": 8}


def _classes(card: Card) -> dict[str, tuple[Fit | None, ...]]:
    rows = survey(matrix(), Deployment("vllm", None, (card,)))
    return {
        row.size: tuple(s.prediction.verdict if s.prediction else None for s in row.steps)
        for row in rows
    }


def test_card_classes_fall_out_as_practitioners_say() -> None:
    small, large = _classes(RTX4090), _classes(H100)
    assert small["7B"][0] is Fit.FITS
    assert small["13B"][0] is Fit.DOES_NOT
    assert small["13B"][1] is Fit.FITS
    assert small["70B"][2] is Fit.DOES_NOT
    assert large["13B"][0] is Fit.FITS
    assert large["70B"][0] is Fit.DOES_NOT
    assert large["70B"][2] is Fit.FITS


def test_the_cheapest_change_makes_it_fit() -> None:
    asked = Deployment("vllm", Version("0.33.0"), (RTX4090,))
    found = changes(matrix(), LLAMA8, asked, predict(matrix(), LLAMA8, asked))
    assert found
    assert "max_model_len" in found[0].args
    assert all(change.prediction.fits for change in found)


def test_more_cards_where_nothing_else_helps() -> None:
    asked = Deployment("vllm", Version("0.11.0"), (RTX4090,), {"max_model_len": 8192})
    found = changes(matrix(), LLAMA70, asked, predict(matrix(), LLAMA70, asked))
    assert [change.cards for change in found] == [8]


def test_nothing_is_advised_where_it_fits() -> None:
    asked = Deployment("vllm", Version("0.11.0"), (H100,), {"max_model_len": 4096})
    assert changes(matrix(), LLAMA8, asked, predict(matrix(), LLAMA8, asked)) == ()


def test_links_decide_between_tensor_and_pipeline() -> None:
    linked = replace(H100, nvlink="nvswitch")
    assert parallel(LLAMA70, (linked,) * 8).tp == 8
    consumer = parallel(LLAMA70, (RTX4090,) * 4)
    assert (consumer.tp, consumer.pp) == (2, 2)
    assert parallel(LLAMA70, (linked,) * 4, ("NV18",) * 6).tp == 4
    assert parallel(LLAMA70, (linked,) * 8, ("NV18", "SYS")).tp == 4
    uneven = parallel(LLAMA70, (H100, RTX4090))
    assert any("smallest" in note for note in uneven.notes)


def test_layers_are_shared_with_the_cpu() -> None:
    asked = {"quantization": "q4_k_m", "max_model_len": 4096}
    whole = _ask(LLAMA8, RTX4090, engine="llama.cpp", version="", **asked)
    assert whole.verdict is Fit.FITS
    assert whole.offload is not None
    assert whole.offload.held == 33
    part = _ask(LLAMA70, RTX4090, engine="llama.cpp", version="", **asked)
    assert part.verdict is Fit.DOES_NOT
    assert part.offload is not None
    assert 20 < part.offload.held < 81
    two = _ask(LLAMA70, RTX4090, RTX4090, engine="llama.cpp", version="", **asked)
    assert two.offload is not None
    assert two.offload.held > part.offload.held
    told = _ask(LLAMA70, RTX4090, engine="llama.cpp", version="", n_gpu_layers=10, **asked)
    assert told.verdict is Fit.FITS


def test_cards_have_what_engines_print() -> None:
    named = Device("gpu0", "nvidia", name=seen("NVIDIA GeForce RTX 4090"))
    card = card_of(matrix(), named)
    assert card is not None
    assert card.total == int(23.55 * GIB)
    assert not card.is_read
    read = card_of(matrix(), replace(named, memory_mib=seen(24564)))
    assert read is not None
    assert read.total == int(23.55 * GIB)
    part = card_of(matrix(), replace(named, memory_mib=seen(9728)))
    assert part is not None
    assert part.total < 9728 << 20
    assert card_of(matrix(), Device("gpu0", "amd", name=seen("MI300X"))) is None


_ODD = st.none() | st.integers(-5, 1 << 40) | st.text(max_size=6) | st.floats() | st.booleans()
_NAMES = (
    "max_model_len",
    "max_num_seqs",
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "gpu_memory_utilization",
    "quantization",
    "kv_cache_dtype",
    "block_size",
    "n_gpu_layers",
    "concurrency",
)


@settings(deadline=None, max_examples=80)
@given(
    args=st.dictionaries(st.sampled_from(_NAMES), _ODD),
    engine=st.sampled_from(["vllm", "llama.cpp", "sglang", "unknown"]),
    model=st.sampled_from([LLAMA8, Model("bare"), _model("deepseek-ai/DeepSeek-V3")]),
)
def test_no_argument_makes_it_raise(args: dict[str, Any], engine: str, model: Model) -> None:
    found = predict(matrix(), model, Deployment(engine, None, (H100,), args))
    assert found.why or found.verdict is Fit.FITS


@settings(deadline=None, max_examples=60)
@given(
    length=st.integers(1, 131072),
    more=st.integers(1, 40),
    ranks=st.sampled_from([1, 2, 4, 8]),
)
def test_more_memory_never_turns_fits_into_does_not(length: int, more: int, ranks: int) -> None:
    args = {"max_model_len": length, "tensor_parallel_size": ranks, "max_num_seqs": 256}
    bigger = replace(RTX4090, total=RTX4090.total + more * GIB)
    small = predict(matrix(), LLAMA8, Deployment("vllm", None, (RTX4090,) * ranks, args))
    large = predict(matrix(), LLAMA8, Deployment("vllm", None, (bigger,) * ranks, args))
    assert (small.longest or 0) <= (large.longest or 0)
    if small.fits:
        assert large.fits
