"""Lengths of requests, prompts of a wanted length, and what a command line may ask for."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from doctor.errors import UsageError
from doctor.matrix import Matrix, load_matrix
from doctor.smoke.bench.ask import Limits, Load
from doctor.smoke.bench.asked import SWEEP, Options, find_lengths, read_ask
from doctor.smoke.bench.lengths import Lengths
from doctor.smoke.bench.lengths_file import read_lengths
from doctor.smoke.bench.prompts import WORDS, Measure, Prose, measured

URL = "http://127.0.0.1:8000"
PAIRS = st.lists(st.tuples(st.integers(1, 9999), st.integers(1, 9999)), min_size=1, max_size=20)


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load_matrix()


@given(PAIRS)
def test_each_round_has_every_pair_once(pairs: list[tuple[int, int]]) -> None:
    drawn = list(islice(Lengths("x", tuple(pairs)).draw("seed"), 3 * len(pairs)))
    for start in range(0, len(drawn), len(pairs)):
        assert Counter(drawn[start : start + len(pairs)]) == Counter(pairs)


@given(PAIRS, st.integers(2, 5000))
def test_fitted_lengths_fit(pairs: list[tuple[int, int]], context: int) -> None:
    lengths = Lengths("x", tuple(pairs))
    for (prompt, output), fitted in zip(pairs, lengths.fit(context).pairs, strict=True):
        assert sum(fitted) <= context
        assert min(fitted) >= 1
        assert fitted == (prompt, output) or prompt + output > context


def test_the_built_in_ones_are_like_their_sources_say(matrix: Matrix) -> None:
    """Published: chat means 1155 and 211, code medians 1500 and 13 (Splitwise, section III)."""
    rows = {row.key: Lengths(row.key, row.pairs) for row in matrix.serving.lengths}
    chat, code = rows["chat"].pairs, rows["code"].pairs
    assert 800 < sum(p for p, _ in chat) / len(chat) < 1400
    assert 180 < sum(o for _, o in chat) / len(chat) < 250
    assert 1200 < sorted(p for p, _ in code)[len(code) // 2] < 1800
    assert 10 < sorted(o for _, o in code)[len(code) // 2] < 17


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.jsonl", '{"prompt_tokens": 5, "output_tokens": 7}\nno json\n{"x": 1}\n[1]\n'),
        ("a.json", '{"input_length": 5, "output_length": "7", "timestamp": 3}\n'),
        ("a.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16,5,7\n2023-11-17,-1,x\n"),
        ("a.csv", "\ufeffRequest tokens,Response tokens\n5,7\n0,7\n5\n"),
    ],
)
def test_files_of_several_kinds(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    assert read_lengths(path).pairs == ((5, 7),)


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "prompt_tokens\n5\n", "\x00\x00"])
def test_a_file_without_lengths_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.csv"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"no lengths|no CSV"):
        read_lengths(path)


@given(raw=st.binary(max_size=300), suffix=st.sampled_from([".csv", ".jsonl"]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_file_has_lengths_or_is_refused(tmp_path: Path, raw: bytes, suffix: str) -> None:
    path = tmp_path / f"x{suffix}"
    path.write_bytes(raw)
    try:
        pairs = read_lengths(path).pairs
    except UsageError:
        return
    assert all(prompt > 0 and output > 0 for prompt, output in pairs)


# -- prompts -----------------------------------------------------------------------------------


@given(st.floats(-5, 300), st.floats(0.5, 6), st.integers(1, 8000))
def test_prompts_have_the_wanted_tokens(base: float, slope: float, tokens: int) -> None:
    words = Measure(base, slope).words(tokens)
    assert words == 1 or abs(base + slope * words - tokens) <= slope


def test_a_measure_from_two_prompts() -> None:
    assert measured((8, 30), (40, 94)) == Measure(14, 2)
    assert measured((8, 30), (40, 30)).slope == 1


@given(st.integers(1, 200_000))
@settings(max_examples=20)
def test_prose_has_so_many_words(count: int) -> None:
    assert len(Prose("x").words(count).split()) == count


def test_no_two_prompts_begin_alike() -> None:
    prose = Prose("x")
    begins = {tuple(prose.words(50).split()[:4]) for _ in range(500)}
    assert len(begins) > 495
    assert len(set(WORDS)) == len(WORDS)


# -- what was asked for --------------------------------------------------------------------------


def test_the_sweep_is_what_happens_by_default(matrix: Matrix) -> None:
    ask = read_ask(Options(URL), matrix)
    assert [load.users for load in ask.loads] == list(SWEEP)
    assert ask.stops_early
    assert ask.lengths.name == "chat"
    assert ask.limits.total_s == 180


def test_loads_that_are_named(matrix: Matrix) -> None:
    users = read_ask(Options(URL, users="8,1,8"), matrix)
    assert users.loads == (Load(users=1), Load(users=8))
    assert not users.stops_early
    assert read_ask(Options(URL, rates="0.5"), matrix).loads == (Load(rate=0.5),)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (Options("127.0.0.1:8000"), "no URL"),
        (Options("http://"), "no URL"),
        (Options("http://[::1"), "no URL"),
        (Options("http://h:99999999"), "no URL"),
        (Options("ftp://h"), "no URL"),
        (Options("http://user:pw@h"), "holds a password"),
        (Options(URL, users="1", rates="1"), "contradict"),
        (Options(URL, users="0"), "means nothing"),
        (Options(URL, users="1.5"), "whole numbers"),
        (Options(URL, users="99999"), "means nothing"),
        (Options(URL, users="nan"), "means nothing"),
        (Options(URL, rates="inf"), "means nothing"),
        (Options(URL, rates="-1"), "means nothing"),
        (Options(URL, rates=",".join(str(n) for n in range(1, 99))), "more than 32"),
        (Options(URL, lengths="nothing-like-it"), "neither known nor a file"),
        (Options(URL, lengths="0x5"), "neither known nor a file"),
        (Options(URL, lengths="x" * 5000), "neither known nor a file"),
        (Options(URL, api_key="sk-canary"), "a reference"),
    ],
)
def test_what_means_nothing_is_refused(options: Options, words: str, matrix: Matrix) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        read_ask(options, matrix)
    assert "canary" not in f"{caught.value} {caught.value.hint}"


def test_lengths_are_cut_where_that_is_asked(matrix: Matrix) -> None:
    ask = read_ask(Options(URL, limits=Limits(prompt=100, output=20)), matrix)
    assert max(p for p, _ in ask.lengths.pairs) == 100
    assert max(o for _, o in ask.lengths.pairs) == 20
    assert find_lengths("512x128", matrix).pairs == ((512, 128),)


@given(st.builds(Load, users=st.integers(1, 1024)) | st.builds(Load, rate=st.floats(0.01, 10_000)))
def test_every_load_has_an_end(load: Load) -> None:
    assert 40 <= Limits().requests_of(load) <= 100_000
    assert Limits(requests=3).requests_of(load) == 3
