"""What Prometheus is given: for every engine that has metrics, and held to promtool."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from doctor.matrix import load_matrix
from doctor.matrix.launching import Launch
from doctor.profile.read import find_profile
from doctor.profile.schema import CheckTimer, DriftTimer, Monitoring, Profile, Serving
from doctor.provision.goal import SYSTEM, USER, Extra
from doctor.provision.monitoring import monitoring_of
from doctor.provision.survey import program_module
from doctor.resources import resource

ROWS = [row for row in load_matrix().launches if row.metrics]
CHECK = resource("playbooks", "roles", "timers", "files", "drift_check.py")


def profile(**changes: object) -> Profile:
    wanted = {
        "drift_timer": DriftTimer(),
        "check_timer": CheckTimer(),
        "monitoring": Monitoring(metrics=True, node_exporter=True, dcgm=True),
    }
    return msgspec.structs.replace(find_profile("vllm-cpu"), **{**wanted, **changes})


def made(row: Launch, **changes: object) -> Extra:
    found = monitoring_of(profile(**changes), row, "/opt/doctor/x", SYSTEM)
    assert found is not None
    return found


def texts(extra: Extra) -> dict[str, Any]:
    return {file.path.rpartition("/")[2]: yaml.safe_load(file.text) for file in extra.files}


def rules(row: Launch, **changes: object) -> dict[str, Any]:
    group = texts(made(row, **changes))["alerts.yml"]["groups"][0]
    return {rule["alert"]: rule for rule in group["rules"]}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.engine}-{row.since}")
def test_every_engine_with_metrics(row: Launch) -> None:
    found = rules(row)
    assert {"EngineDown", "Drifted", "Unfit", "GpuMemoryFull", "MemoryFull"} <= found.keys()
    assert ("FirstTokenSlow" in found) == ("ttft" in row.counters)
    assert ("CacheFull" in found) == ("kv_usage" in row.counters)
    assert ("RequestsFail" in found) == ("failed" in row.counters)
    assert all(rule["labels"]["priority"] in ("P0", "P1") for rule in found.values())


def test_limits_are_those_of_the_profile() -> None:
    row = load_matrix().launch("vllm-cpu", None)
    assert row is not None
    found = rules(
        row, monitoring=Monitoring(metrics=True, memory_percent=80, error_percent=2.5, ttft_ms=500)
    )
    assert found["RequestsFail"]["expr"].endswith("> 0.025")
    assert 'status="5xx"' in found["RequestsFail"]["expr"]
    assert found["CacheFull"]["expr"].endswith("> 0.8")
    assert found["CacheFull"]["for"] == "15m"
    assert found["FirstTokenSlow"]["expr"].endswith("> 0.5")
    assert found["RequestsFail"]["labels"]["priority"] == "P0"
    assert "MemoryFull" not in found


def test_a_key_is_named_and_not_shown() -> None:
    row = load_matrix().launch("vllm-cpu", None)
    assert row is not None
    job = texts(made(row, serving=Serving(api_key="file:/etc/key", host="::")))["scrape.yml"]
    assert job["scrape_configs"][0]["authorization"]["credentials_file"] == "/etc/key"
    assert job["scrape_configs"][0]["static_configs"] == [{"targets": ["127.0.0.1:8000"]}]


def test_none_where_none_is_wanted() -> None:
    row = ROWS[0]
    assert monitoring_of(profile(monitoring=Monitoring(metrics=False)), row, "/x", SYSTEM) is None
    mine = monitoring_of(profile(), row, "/x", USER)
    assert mine is not None
    assert mine.options["monitoring_node_exporter"] is False


@pytest.fixture(scope="module")
def promtool(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The one that is installed, else that of the distribution's package, not installed."""
    found = shutil.which("promtool")
    if found:
        return found
    folder = tmp_path_factory.mktemp("prometheus")
    if shutil.which("apt-get") is None:
        pytest.skip("no promtool here, and no apt-get to fetch it")
    program = folder / "usr/bin/promtool"
    said = b""
    # From Debian 13 on it is a package of its own.
    for name in ("promtool", "prometheus"):
        command = ["apt-get", "download", name]
        said = subprocess.run(command, cwd=folder, capture_output=True, check=False).stderr
        for package in folder.glob(f"{name}_*.deb"):
            subprocess.run(["dpkg", "-x", str(package), str(folder)], check=True)
        if program.is_file():
            return str(program)
    pytest.skip(f"no promtool here, and none can be fetched: {said[-200:]!r}")


@pytest.mark.slow
def test_promtool_takes_them(promtool: str, tmp_path: Path) -> None:
    for number, row in enumerate(ROWS):
        key = Serving(api_key=f"file:{tmp_path}/key")
        (tmp_path / "key").write_text("k")
        folder = tmp_path / str(number)
        folder.mkdir()
        for file in made(row, serving=key).files:
            (folder / file.path.rpartition("/")[2]).write_text(file.text)
        (folder / "prometheus.yml").write_text(
            (folder / "scrape.yml").read_text() + "rule_files: [alerts.yml]\n"
        )
        answer = subprocess.run(
            [promtool, "check", "config", str(folder / "prometheus.yml")],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert answer.returncode == 0, f"{row.engine}: {answer.stdout}{answer.stderr}"
        count = len(rules(row, serving=key))
        assert f"{count} rules found" in answer.stdout


@pytest.mark.slow
def test_promtool_takes_what_the_drift_check_writes(promtool: str) -> None:
    module = program_module(CHECK)
    rows = [{"kind": kind, "subject": "x", "text": "y"} for kind in ("unit", "file", "unit")]
    for name, found in (("demo", rows), ('a"b\\c', rows), ("demo", [])):
        answer = subprocess.run(
            [promtool, "check", "metrics"],
            input=module.metrics(name, found, 1e9), capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert answer.returncode == 0, answer.stdout + answer.stderr
