"""Engines that cannot run here, started as they would be, with the stand-in in their place."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from doctor.errors import UsageError
from doctor.facts import Version
from doctor.matrix import Matrix, load_matrix
from doctor.smoke.ask import Ask
from doctor.smoke.launch import LaunchError
from doctor.smoke.outcome import SmokeVerdict
from doctor.smoke.run import smoke
from tests.smoke.environments import environment

pytestmark = pytest.mark.real
STANDIN = Path(__file__).parent / "standin.py"
ARGUMENTS = f"""#!{sys.executable}
import json, os, sys
words = sys.argv + [os.environ.get("HF_HUB_OFFLINE", "")]
open(os.environ["SEEN"], "w").write(json.dumps(words))
port = sys.argv[sys.argv.index("--port") + 1]
os.execv(sys.executable, [sys.executable, {str(STANDIN)!r}, port])
"""
CONFIGURED = f"""#!{sys.executable}
import json, os, sys
path = os.environ["MIES_CONFIG_JSON_PATH"]
config = json.load(open(path))
words = [config, oct(os.stat(path).st_mode), os.getcwd()]
open(os.environ["SEEN"], "w").write(json.dumps(words))
port = str(config["ServerConfig"]["port"])
os.execv(sys.executable, [sys.executable, {str(STANDIN)!r}, port])
"""
MINDIE = {
    "ServerConfig": {"ipAddress": "127.0.0.1", "port": 1025, "httpsEnabled": True},
    "BackendConfig": {
        "npuDeviceIds": [[0]],
        "ModelDeployConfig": {"maxSeqLen": 2560, "ModelConfig": [{"modelName": "llama"}]},
    },
}


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load_matrix()


@pytest.fixture
def seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the engine in our place says how it was started."""
    monkeypatch.setenv("SEEN", str(tmp_path / "seen.json"))
    return tmp_path / "seen.json"


def test_vllm_on_two_devices(tmp_path: Path, seen: Path, matrix: Matrix) -> None:
    environment(tmp_path / "env", {"vllm": "0.19.1", "torch": "2.10.0"}, {"vllm": ARGUMENTS})
    ask = Ask(engine="vllm", python=str(tmp_path / "env"), args={"tensor_parallel_size": 2})
    outcome = smoke(ask, matrix)
    assert outcome.verdict is SmokeVerdict.PROVEN, outcome
    assert outcome.steps[0].text.startswith("2 ranks, nccl")
    assert outcome.version == "0.19.1"
    words = json.loads(seen.read_text())
    assert words[1] == "serve"
    assert words[2].endswith("known-answer-hf")
    assert words[words.index("--tensor-parallel-size") + 1] == "2"
    assert words[words.index("--served-model-name") + 1] == "known-answer"
    assert words[-1] == "1"


def test_devices_that_cannot_add_up_are_not_given_to_an_engine(
    tmp_path: Path, seen: Path, matrix: Matrix, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAULT", "one-device")
    environment(tmp_path / "env", {"vllm": "0.19.1", "torch": "2.10.0"}, {"vllm": ARGUMENTS})
    ask = Ask(engine="vllm", python=str(tmp_path / "env"), args={"tensor_parallel_size": 2})
    outcome = smoke(ask, matrix)
    assert outcome.verdict is SmokeVerdict.NOT_LAUNCHED
    assert outcome.fault is not None
    assert outcome.fault.fault == "all-reduce-fails"
    assert not seen.exists()


def test_the_installed_version_decides(tmp_path: Path, matrix: Matrix) -> None:
    environment(tmp_path / "env", {"vllm": "0.11.0"}, {"vllm": ARGUMENTS})
    ask = Ask(engine="vllm", python=str(tmp_path / "env" / "bin" / "python"))
    with pytest.raises(LaunchError, match=r"comes with 0\.13\.0"):
        smoke(Ask(**{**vars(ask), "args": {"attention_backend": "FLASHINFER"}}), matrix)
    with pytest.raises(LaunchError, match=r"0\.11\.0 is installed, not 0\.19\.1"):
        smoke(Ask(**{**vars(ask), "version": Version("0.19.1")}), matrix)
    with pytest.raises(UsageError, match="no Python environment"):
        smoke(Ask(engine="vllm", python=str(tmp_path / "other")), matrix)


@pytest.mark.parametrize("kind", ["run", "wheel"])
def test_mindie_reads_our_settings(
    kind: str, tmp_path: Path, seen: Path, matrix: Matrix, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "run":
        install = tmp_path / "mindie-service"
        (install / "bin").mkdir(parents=True)
        program = install / "bin" / "mindieservice_daemon"
        program.write_text(CONFIGURED)
        program.chmod(0o755)
        source = install / "conf"
        monkeypatch.setenv("MIES_INSTALL_PATH", str(install))
        ask = Ask(engine="mindie", version=Version("2.1"))
    else:
        programs = {"mindie_llm_server": CONFIGURED}
        site = environment(tmp_path / "env", {"mindie-llm": "3.0.0"}, programs)
        source = site / "mindie_llm" / "conf"
        ask = Ask(engine="mindie", python=str(tmp_path / "env"))
    source.mkdir(parents=True)
    (source / "config.json").write_text(json.dumps(MINDIE))
    outcome = smoke(ask, matrix)
    assert outcome.verdict is SmokeVerdict.PROVEN, outcome
    config, mode, folder = json.loads(seen.read_text())
    deployed = config["BackendConfig"]["ModelDeployConfig"]
    assert deployed["maxSeqLen"] == 512
    assert deployed["ModelConfig"][0]["modelName"] == "known-answer"
    assert deployed["ModelConfig"][0]["modelWeightPath"].endswith("known-answer-hf")
    assert config["ServerConfig"]["httpsEnabled"] is False
    assert mode.endswith("640")
    assert os.path.basename(folder).startswith("doctor-smoke-")
    assert json.loads((source / "config.json").read_text()) == MINDIE
