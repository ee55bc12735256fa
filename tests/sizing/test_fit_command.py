"""`doctor fit` as a person runs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from doctor.cli.main import run
from tests.sizing.test_config import QWEN3
from tests.sizing.writing import gguf, safetensors, write

LLAMA8 = "meta-llama/Meta-Llama-3.1-8B-Instruct"
CARD = ("--gpu", "RTX 4090")


def _json(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    code = run(["fit", *args, "--format", "json"])
    data: dict[str, Any] = json.loads(capsys.readouterr().out)
    return code, data


def test_exit_codes_are_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fit", LLAMA8, *CARD, "--max-model-len", "8192"]) == 0
    assert run(["fit", LLAMA8, *CARD, "--max-model-len", "131072"]) == 1
    assert run(["fit", LLAMA8, *CARD, "--engine", "sglang", "--max-model-len", "8192"]) == 3
    assert run(["fit", "no-such-model", *CARD]) == 2
    capsys.readouterr()


def test_the_bar_and_what_would_make_it_fit(capsys: pytest.CaptureFixture[str]) -> None:
    run(["fit", LLAMA8, *CARD])
    out = capsys.readouterr().out
    assert out.isascii()
    assert "does not fit" in out
    assert "[WWWW" in out
    assert "--max-model-len" in out
    assert "rule of thumb" in out
    assert "assumed: max_model_len 131072" in out
    assert max(map(len, out.splitlines())) <= 100


def test_json_holds_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    code, data = _json(
        capsys, LLAMA8, "--gpu", "8x H100 80GB HBM3", "--engine", "vllm==0.11.0", "--tp", "8"
    )
    assert code == 0
    assert data["schema"] == "doctor/fit/v1"
    assert data["verdict"] == "fits"
    assert data["devices"]["count"] == 8
    sizes = data["bytes"]
    assert sizes["kv_token"] == 16384
    assert sizes["weights"] == sum(sizes["weights_by_kind"].values())
    assert data["settings"]["max_num_seqs"] == 1024
    assert [step["bits"] for step in data["precision"]] == [16, 8, 4]
    assert data["rule_of_thumb"]["bytes_of_all"] > data["rule_of_thumb"]["bytes_here"]


def test_a_card_of_stated_memory(capsys: pytest.CaptureFixture[str]) -> None:
    _, data = _json(capsys, LLAMA8, "--memory-gib", "79.14", "--engine", "vllm==0.11.0")
    assert data["devices"]["total"] == int(79.14 * (1 << 30))
    assert data["devices"]["read"] is True


def test_what_fits_here(capsys: pytest.CaptureFixture[str]) -> None:
    code, data = _json(capsys, "--gpu", "L4")
    assert code == 0
    found = {row["size"]: [s["verdict"] for s in row["precision"]] for row in data["fits_here"]}
    assert found["7B"][0] == "fits"
    assert found["70B"] == ["does-not-fit"] * 3
    assert run(["fit", "--gpu", "L4"]) == 0
    assert "what fits with vllm" in capsys.readouterr().out


def test_the_what_if_table(capsys: pytest.CaptureFixture[str]) -> None:
    _, data = _json(capsys, LLAMA8, *CARD, "--what-if")
    cells = {(cell["tokens"], cell["kv"]): cell for cell in data["what_if"]}
    short, long = cells[2048, "auto"], cells[131072, "auto"]
    assert short["verdict"] == "fits"
    assert long["verdict"] == "does-not-fit"
    assert cells[2048, "fp8"]["concurrency"] == pytest.approx(2 * short["concurrency"], rel=0.01)


def test_a_config_and_a_gguf_of_ones_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write(tmp_path, "config.json", QWEN3)
    assert run(["fit", str(config), *CARD, "--max-model-len", "8192"]) == 0
    _, data = _json(capsys, str(write(tmp_path, "tiny.gguf", gguf())), *CARD)
    assert data["engine"] == "llama.cpp"
    assert data["offload"]["held"] == data["offload"]["layers"] == 3


def test_facts_of_a_host_name_its_cards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = write(tmp_path, "report.yaml", "engine: vllm 0.11.0\ngpus: [2x A100-SXM4-80GB]\n")
    code, data = _json(capsys, LLAMA8, "--facts", str(report), "--max-model-len", "8192")
    assert code == 0
    assert data["devices"]["count"] == 2


BAD: dict[str, tuple[str, ...]] = {
    "not known": ("mistral-9000b", *CARD),
    "no such file": ("./absent.gguf", *CARD),
    "no GPU fits": (LLAMA8, "--gpu", "GeForce 9999"),
    "engine 'vlmm' is not known": (LLAMA8, *CARD, "--engine", "vlmm"),
    "number format 'int3'": (LLAMA8, *CARD, "--quant", "int3"),
    "KV cache format 'tiny'": (LLAMA8, *CARD, "--kv-dtype", "tiny"),
    "no device with memory": ("--host", "driver=580"),
    "is not in the range": (LLAMA8, *CARD, "--utilization", "1.5"),
    "'-5' is not in the range": (LLAMA8, *CARD, "--max-model-len", "-5"),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_gives_one_clear_error(message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fit", *BAD[message]]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message.strip("'-5 ") in captured.err or message in captured.err
    assert "Traceback" not in captured.err


SPOILED: dict[str, tuple[str, bytes | str]] = {
    "not JSON": ("config.json", "{nope"),
    "not a JSON object": ("config.json", "[]"),
    "num_hidden_layers is -2": ("config.json", json.dumps({**QWEN3, "num_hidden_layers": -2})),
    "a number of": ("config.json", json.dumps({**QWEN3, "hidden_size": 10**300})),
    "claims 9007199254740992 tensors": ("lies.gguf", gguf(counts=(1 << 53, 1))),
    "beyond the file": ("cut.gguf", gguf()[:-100]),
    "claims a header": ("lies.safetensors", safetensors({}, 4, length=1 << 40)),
}


@pytest.mark.parametrize("message", SPOILED)
def test_spoiled_files_give_one_clear_error(
    message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, content = SPOILED[message]
    write(tmp_path, "config.json", QWEN3)
    path = write(tmp_path, name, content)
    assert run(["fit", str(path), *CARD]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert name in captured.err
