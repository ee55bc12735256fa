"""Real inference by llama.cpp: the sound model is proven, each broken one is named."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from doctor.errors import UsageError
from doctor.matrix import Matrix, load_matrix
from doctor.smoke import known
from doctor.smoke.ask import Ask
from doctor.smoke.outcome import SmokeOutcome, SmokeVerdict
from doctor.smoke.run import smoke
from tests.smoke.making import script

pytest.importorskip("xllamacpp")
pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load_matrix()


@pytest.mark.parametrize("form", known.GGUF_FORMS)
def test_sound_model_is_proven(form: str, matrix: Matrix) -> None:
    outcome = smoke(Ask(model=f"known-answer-{form}"), matrix)
    assert outcome.verdict is SmokeVerdict.PROVEN, outcome
    assert {step.state.value for step in outcome.steps} == {"passed"}
    assert outcome.log_path == ""
    assert outcome.stopped.startswith("ended by SIGTERM")
    assert any("right" in text for text in outcome.proves)
    assert outcome.leaves_open


@pytest.mark.parametrize(
    ("fault", "step", "name"),
    [
        ("no-rope", "logprobs", "wrong-logprobs"),
        ("no-mlp", "logprobs", "wrong-logprobs"),
        ("shuffled", "logprobs", "wrong-logprobs"),
        ("wrong-text", "text", "wrong-text"),
        ("early-eos", "text", "early-eos"),
    ],
)
def test_broken_model_is_named(
    fault: str, step: str, name: str, tmp_path: Path, matrix: Matrix
) -> None:
    found = _broken(fault, tmp_path, matrix).fault
    assert found is not None
    assert (found.name, found.fault) == (step, name)


def test_a_model_of_no_numbers(tmp_path: Path, matrix: Matrix) -> None:
    outcome = _broken("nan", tmp_path, matrix)
    assert outcome.fault is not None
    assert outcome.fault.fault == "nan"


def _broken(fault: str, folder: Path, matrix: Matrix) -> SmokeOutcome:
    model, make = script("known_answer_model"), script("make_known_answer")
    path = folder / f"known-answer-{fault}.gguf"
    path.write_bytes(make.gguf(model.build(fault), "f16", fault))
    args = {"served_model_name": "known-answer", "max_model_len": 512, "max_num_seqs": 2}
    ask = Ask(model=str(path), args={**args, "threads": 1}, keep_log=str(folder))
    return smoke(ask, matrix)


def test_a_file_that_is_no_model(tmp_path: Path, matrix: Matrix) -> None:
    path = tmp_path / "cut.gguf"
    path.write_bytes(known.gguf_file().read_bytes()[:5000])
    outcome = smoke(Ask(model=str(path), keep_log=str(tmp_path / "logs")), matrix)
    assert outcome.verdict is SmokeVerdict.NOT_LAUNCHED
    assert outcome.fault is not None
    assert outcome.fault.fault == "dead-process"
    assert outcome.log_cause is not None
    assert outcome.log_cause.cause == "model-incomplete"
    assert Path(outcome.log_path).is_file()


def test_unknown_form(matrix: Matrix) -> None:
    with pytest.raises(UsageError, match="q5"):
        smoke(Ask(model="known-answer-q5"), matrix)


def test_it_takes_seconds(matrix: Matrix) -> None:
    began = time.monotonic()
    smoke(Ask(), matrix)
    assert time.monotonic() - began < 3
