"""Answers as people meet them: other tools' cases, aims, mistakes in asking, exit codes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from doctor.cli.resolve import command
from doctor.errors import UsageError
from tests.stack.asking import ask_for, matrix, proven

BOX = "python=3.12,ubuntu=22.04,arch=x86_64,glibc=2.35"
VENDORS = {
    "nvidia": f"H100x8,driver=580.95.05,{BOX}",
    "amd": f"MI300X,{BOX}",
    "ascend": f"Ascend 910B3,driver=25.5.0,{BOX}",
    "cpu": f"cpu,{BOX}",
}
GOALS = sorted({row.goal for row in matrix().stacks.goals})


def run(*words: str) -> Result:
    return CliRunner().invoke(command, words)


def wire(*words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(*words, "--format", "json").output)
    return found


# -- cases of other tools -------------------------------------------------------


def test_no_wheel_of_a_new_vllm_for_a_v100() -> None:
    found = ask_for(f"V100,driver=580.95.05,{BOX}", {"engine": "vllm", "spec": "==0.30.0"})
    assert found.verdict == "none"
    # Below what the release supports, or without code for the card: either rules it out.
    said = [{f.code for f in judged.findings} for judged in found.refused]
    assert all(codes & {"CUD101", "ENG101"} for codes in said)


def test_a_t4_serves_in_half_precision() -> None:
    found = ask_for(f"T4,driver=575.57.08,{BOX}", {"engine": "vllm", "spec": "==0.11.0"})
    best = proven(found)[0]
    assert (best.version, best.torch, best.cuda) == ("0.11.0", "2.8.0", "12.8")
    assert best.flags == ("--dtype", "float16")


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm", "lmdeploy", "torch"])
def test_an_amd_card_is_never_offered_cuda(engine: str) -> None:
    found = ask_for(VENDORS["amd"], {"engine": engine}, unlocks=True)
    stacks = [offer.stack for offer in (*found.offers, *(u.gains for u in found.unlocks))]
    assert all(stack is not None and not stack.cuda for stack in stacks)


@pytest.mark.parametrize("spec", ["", "==2.13.0", "==2.9.1", "==2.8.0"])
def test_a_b300_is_never_offered_cu126(spec: str) -> None:
    line = f"B300,driver=580.95.05,{BOX}"
    found = ask_for(line, {"engine": "torch", **({"spec": spec} if spec else {})})
    assert found.verdict == "ok"
    assert all(stack.torch_build not in ("cu126", "cu118") for stack in proven(found))


# -- what nobody knows -------------------------------------------------------------


@pytest.mark.parametrize("engine", ["vllm", "sglang", "lmdeploy"])
@pytest.mark.parametrize("method", ["nonsense", "awq9", "x_y.z"])
def test_a_method_that_is_on_no_record_is_not_proven(engine: str, method: str) -> None:
    line = VENDORS["nvidia"]
    assert wire(engine, "--host", line)["verdict"] == "ok"
    found = wire(engine, "--host", line, "--quantization", method, "--no-unlocks")
    assert found["verdict"] == "possible"
    assert all(offer["lacks"] for offer in (found["stack"], *found["alternatives"]))


@pytest.mark.parametrize("method", ["²", "$(id)", "x" * 300, "a@b", "--x", "awq fp8", "\x1b"])
def test_a_method_that_is_no_word_is_refused(method: str) -> None:
    with pytest.raises(UsageError, match="is no method"):
        command.main(["vllm", "--host", VENDORS["cpu"], f"--quantization={method}"], "doctor",
                     standalone_mode=False)  # fmt: skip


@pytest.mark.parametrize(("model", "said"), [
    ("nobody/nothing", True), ("Qwen/Qwen3-32B", False), ("qwen3-32b", False), ("", False),
])  # fmt: skip
def test_a_model_that_is_not_known_is_said(model: str, said: bool) -> None:
    words = ("--model", model) if model else ()
    found = wire("vllm", "--host", VENDORS["nvidia"], "--no-unlocks", *words)
    assert any("nothing is known of the model" in note for note in found["notes"]) is said


# -- aims ------------------------------------------------------------------------


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("vendor", VENDORS)
def test_an_aim_chooses_an_engine_of_the_vendor_and_says_why(goal: str, vendor: str) -> None:
    rows = [r for r in matrix().stacks.goals if (r.goal, r.vendor) == (goal, vendor)]
    if not rows:
        with pytest.raises(UsageError, match=goal):
            ask_for(VENDORS[vendor], {"goal": goal})
        return
    found = ask_for(VENDORS[vendor], {"goal": goal})
    assert found.engine in {row.engine for row in rows}
    assert found.choice is not None
    assert found.choice.why
    assert {offer.candidate.vendor for offer in found.offers} <= {vendor}


def test_every_aim_has_a_source() -> None:
    assert all(row.source and row.why for row in matrix().stacks.goals)


# -- mistakes in asking ------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("vllmm", "--host", f"H100,{BOX}"), "vllm"),
        (("vllm", "--host", f"H1000,{BOX}"), "H100"),
        (("vllm", "--host", "H100,drivr=580"), "driver"),
        (("vllm<<3", "--host", f"H100,{BOX}"), "vllm>=0.10"),
        (("vllm", "--goal", "fast", "--host", "H100"), "throughput"),
        (("vllm", "--host", f"H100,{BOX}", "--model", "./nothing.json"), "nothing.json"),
    ],
)
def test_a_mistake_names_what_was_meant(words: tuple[str, ...], said: str) -> None:
    result = run(*words)
    assert isinstance(result.exception, UsageError | SystemExit)
    text = f"{result.exception} {getattr(result.exception, 'hint', '')} {result.output}"
    assert said in text
    assert result.exit_code != 0


def test_a_version_above_all_known_is_not_made_up() -> None:
    found = ask_for(VENDORS["nvidia"], {"engine": "vllm", "spec": "==0.99.0"})
    assert (found.verdict, found.offers) == ("none", ())
    assert "0.99.0" not in str([offer.stack for offer in found.offers])


@pytest.mark.parametrize(
    ("host", "arch", "is_told"),
    [
        ("H100x8,driver=580.95.05,python=3.12,ubuntu=22.04", "x86_64", True),
        ("MI300X,python=3.12,ubuntu=22.04", "x86_64", True),
        ("GH200 480GB,driver=580.95.05,python=3.12,ubuntu=24.04", "aarch64", False),
        ("H100,driver=580.95.05,python=3.12,ubuntu=22.04,arch=aarch64", "aarch64", False),
        ("910B3x8,python=3.11,ubuntu=22.04", None, False),
    ],
)
def test_an_architecture_that_nobody_said(host: str, arch: str | None, is_told: bool) -> None:
    """That of the card's board, else what nearly all have, and then it is told."""
    found = ask_for(host, {"engine": ""})
    assert found.facts.host.arch.value == arch
    assert any("assumed" in note for note in found.notes) is is_told


# -- what programs see -------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "verdict", "code"),
    [
        (("vllm", "--host", VENDORS["nvidia"]), "ok", 0),
        (("vllm", "--host", "H100,driver=580.95.05,arch=x86_64"), "possible", 0),
        (("vllm==0.30.0", "--host", f"V100,driver=580.95.05,{BOX}"), "none", 1),
    ],
)
def test_verdict_and_exit_code(words: tuple[str, ...], verdict: str, code: int) -> None:
    result = run(*words, "--format", "json", "--no-unlocks")
    found = json.loads(result.output)
    assert (found["verdict"], result.exit_code) == (verdict, code)
    assert found["schema"] == "doctor/resolve/v1"
    assert (found["stack"] is None) == (verdict == "none")
    if found["stack"]:
        asked = {"engine", "version", "torch", "cuda", "python", "artifact", "index"}
        assert asked <= set(found["stack"])
        assert (found["stack"]["state"] == "proven") == (verdict == "ok")
        assert bool(found["stack"]["lacks"]) == (verdict == "possible")


def test_what_was_refused_has_findings_with_sources() -> None:
    found = wire("vllm", "--host", f"H100,driver=550.54.15,{BOX}", "--no-unlocks")
    assert found["refused"]
    for row in found["refused"]:
        assert row["findings"]
        assert all(finding["sources"] for finding in row["findings"])


def test_an_unlock_is_a_change_with_what_it_gains() -> None:
    found = wire("vllm", "--host", f"L40Sx2,driver=550.163.01,{BOX}")
    unlock = next(u for u in found["unlocks"] if u["kind"] == "driver")
    assert unlock["stack"]["version"] > found["stack"]["version"]
    assert unlock["commands"]


def test_the_text_names_everything_that_the_wire_does() -> None:
    words = ("vllm", "--host", VENDORS["nvidia"])
    stack, text = wire(*words)["stack"], run(*words).output
    for key in ("version", "torch", "cuda", "python"):
        assert stack[key] in text
    assert max(len(line) for line in text.splitlines()) <= 110
