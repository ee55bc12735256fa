"""Each fault of a stand-in server is named right, at the right step."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from doctor.smoke import allreduce, ladder, steps
from doctor.smoke.client import Client
from doctor.smoke.ladder import Climb, climb
from doctor.smoke.steps import FAULTS, State
from doctor.smoke.target import Record, Target
from tests.smoke.standin import StandIn

pytestmark = pytest.mark.real
COUNTERS = {"generated_tokens": ("vllm:generation_tokens_total",)}


def climbed(fault: str, key: str = "", **fields: Any) -> Climb:
    short = {"wait_s": 0.5, "answer_s": 2.0, "first_s": 2.0, "settle_s": 0.2, "death_s": 0.2}
    limits = {**short, "counters": COUNTERS, **fields}

    async def take(url: str) -> Climb:
        target = Target(url, **limits)
        async with Client(url, key, target.answer_s) as client:
            return await climb(target, client)

    with StandIn(fault) as url:
        return asyncio.run(take(url))


def states(done: Climb) -> dict[str, str]:
    return {step.name: step.state.value for step in done.steps}


def test_a_sound_server_is_proven() -> None:
    done = climbed("")
    assert done.is_proven
    assert states(done).pop("process") == "skipped"
    assert {s.state for s in done.steps if s.name != "process"} == {State.PASSED}
    assert done.known is not None
    assert done.model == "known-answer"


def test_what_is_said_of_the_model_beats_its_name() -> None:
    assert "perplexity" in states(climbed("", known=False))
    assert climbed("", known=False).known is None
    named = climbed("other-model")
    assert named.known is None
    assert climbed("other-model", known=True).is_proven


# Fault of the server → the step that fails first, the name that it gets.
CASES = [
    ("never-ready", "health", "unhealthy"),
    ("html-health", "health", "html-instead-of-json"),
    ("401", "models", "unauthorized"),
    ("401-later", "one token", "unauthorized"),
    ("models-not-json", "models", "not-json"),
    ("html", "one token", "html-instead-of-json"),
    ("html-502", "one token", "html-instead-of-json"),
    ("not-json", "one token", "not-json"),
    ("error-500", "one token", "request-refused"),
    ("error-with-200", "one token", "request-refused"),
    ("drop", "one token", "dropped-connection"),
    ("mute", "one token", "mute"),
    ("wrong-text", "text", "wrong-text"),
    ("early-eos", "text", "early-eos"),
    ("no-eos", "text", "no-eos"),
    ("nan", "text", "nan"),
    ("nan-literal", "text", "nan"),
    ("wrong-logprobs", "logprobs", "wrong-logprobs"),
    ("truncated-stream", "stream", "truncated-stream"),
    ("no-done", "stream", "truncated-stream"),
    ("stream-html", "stream", "html-instead-of-json"),
    ("error-in-stream", "stream", "request-refused"),
    ("no-usage", "stream", "no-usage"),
    ("wrong-usage", "stream", "no-usage"),
    ("accepts-bad-request", "refusal", "accepts-bad-request"),
    ("broken-by-bad-request", "refusal", "broken-by-bad-request"),
    ("still-counters", "counters", "still-counters"),
    ("mixed", "two at once", "mixed-answers"),
]


@pytest.mark.parametrize(("fault", "step", "name"), CASES, ids=[case[0] for case in CASES])
def test_fault_is_named(fault: str, step: str, name: str) -> None:
    done = climbed(fault)
    first = done.first_fault
    assert first is not None
    assert (first.name, first.fault) == (step, name)
    assert not done.is_proven
    assert name in FAULTS


@pytest.mark.parametrize("fault", ["hang", "hang-later"])
def test_a_server_that_hangs_is_mute(fault: str) -> None:
    done = climbed(fault, answer_s=0.4, first_s=0.4)
    first = done.first_fault
    assert first is not None
    assert first.fault == "mute"
    assert "0.4 s" in first.text


def test_after_a_blocking_step_nothing_is_tried() -> None:
    done = climbed("mute")
    skipped = [step for step in done.steps if step.name in ("text", "logprobs", "stream")]
    assert {step.state for step in skipped} == {State.SKIPPED}
    assert all("one token failed" in step.text for step in skipped)


def test_a_slow_start_is_waited_for() -> None:
    done = climbed("slow-start", wait_s=5.0)
    assert done.is_proven


def test_nothing_listens() -> None:
    async def take() -> Climb:
        target = Target("http://127.0.0.1:1", wait_s=0.3)
        async with Client(target.url) as client:
            return await climb(target, client)

    done = asyncio.run(take())
    assert done.first_fault is not None
    assert (done.first_fault.name, done.first_fault.fault) == ("port", "port-closed")


# What a sound server may lack: the step is then skipped, or takes another way.
LACKS = [
    ("no-health", "health", "skipped", True),
    ("no-list", "models", "skipped", True),
    ("no-metrics", "counters", "skipped", True),
    ("no-logprobs", "logprobs", "skipped", False),
    ("chat-logprobs", "logprobs", "passed", True),
    ("no-ids", "logprobs", "passed", True),
    ("chat-only", "logprobs", "passed", True),
    ("cuts", "refusal", "passed", True),
]


@pytest.mark.parametrize(("fault", "step", "state", "proven"), LACKS, ids=[c[0] for c in LACKS])
def test_what_a_server_lacks(fault: str, step: str, state: str, proven: bool) -> None:
    done = climbed(fault, model="known-answer")
    assert states(done)[step] == state
    assert done.is_proven is proven
    assert done.first_fault is None


def test_another_number_of_beginnings_is_no_fault_of_the_engine() -> None:
    done = climbed("two-beginnings")
    step = next(step for step in done.steps if step.name == "logprobs")
    assert step.state is State.PASSED
    assert "two beginning-of-text tokens" in step.text


def test_every_fault_that_is_raised_has_a_meaning() -> None:
    folder = Path(steps.__file__).parent
    text = "\n".join(path.read_text() for path in folder.glob("*.py"))
    raised = set(re.findall(r'Failed\(\s*"([a-z-]+)"', text))
    named = set(ladder._NAMES.values()) | set(allreduce._FAULTS.values())
    waited = {"too-slow-to-start", "port-closed", "unhealthy"}
    assert raised | named | waited == set(FAULTS)


def test_another_model_than_the_one_asked_for() -> None:
    done = climbed("other-model", model="known-answer")
    assert done.first_fault is not None
    assert done.first_fault.fault == "model-not-listed"
    assert "llama-70b" in done.first_fault.text


# -- the user's own model ----------------------------------------------------------------------


def test_own_model_is_looked_at() -> None:
    done = climbed("own")
    assert done.is_proven
    assert done.known is None
    assert states(done)["perplexity"] == "passed"
    assert states(done)["record"] == "skipped"
    assert done.record is not None
    assert done.record.text == -2.5


@pytest.mark.parametrize(
    ("fault", "step", "name"),
    [
        ("own-unstable", "repeatable", "not-repeatable"),
        ("own-guesses", "perplexity", "outside-band"),
    ],
)
def test_fault_of_an_own_model(fault: str, step: str, name: str) -> None:
    first = climbed(fault).first_fault
    assert first is not None
    assert (first.name, first.fault) == (step, name)


def test_own_model_against_its_record() -> None:
    right = climbed("own").record
    assert right is not None
    assert climbed("own", record=right).is_proven
    drifted = climbed("own", record=Record("own-model", right.own - 0.4, right.text))
    assert drifted.first_fault is not None
    assert (drifted.first_fault.name, drifted.first_fault.fault) == ("record", "outside-band")


def test_a_server_that_does_not_score_text() -> None:
    done = climbed("own-no-echo")
    assert states(done)["perplexity"] == "skipped"
    assert done.is_proven
