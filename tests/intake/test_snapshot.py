from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from doctor.errors import UsageError
from doctor.facts import (
    Binary,
    CodeTarget,
    ComputeCapability,
    Device,
    Facts,
    Kernels,
    Missing,
    NvidiaFacts,
    Scope,
    Version,
    missing,
    seen,
)
from doctor.facts.accelerators import DriverLibrary
from doctor.intake.detect import read_input
from doctor.intake.facts_schema import PATH, schema_text
from doctor.intake.snapshot import read_snapshot, write_snapshot

FACTS = Facts(
    nvidia=NvidiaFacts(
        driver=seen(Version("580.95.05"), "/proc/driver/nvidia/version"),
        userspace=missing(Missing.NOT_PERMITTED, "/usr/lib"),
        libcuda=seen((DriverLibrary("/usr/lib/libcuda.so.1", branches=()),)),
    ),
    devices=seen(
        (Device(id="gpu0", vendor="nvidia", compute_capability=seen(ComputeCapability(9, 0))),)
    ),
    scopes=(
        Scope(
            id="venv:/srv",
            kind="venv",
            env=seen({"CUDA_HOME": ""}, "environ", partial=True),
            binaries=seen(
                (
                    Binary(
                        "a.so", kernels=(Kernels((CodeTarget.parse("sm_90a"),), 3),), unresolved=()
                    ),
                )
            ),
        ),
    ),
)


def test_a_snapshot_comes_back_as_it_was() -> None:
    assert read_snapshot(write_snapshot(FACTS)) == FACTS


def test_a_snapshot_fits_the_schema() -> None:
    jsonschema.validate(json.loads(write_snapshot(FACTS)), json.loads(schema_text()))


def test_the_schema_beside_the_facts_is_current() -> None:
    hint = "run `python -m doctor.intake.facts_schema`"
    assert PATH.read_text(encoding="utf-8") == schema_text(), hint


def test_unknown_keys_of_a_newer_doctor_are_ignored() -> None:
    wire = json.loads(write_snapshot(FACTS))
    wire["quantum"] = {"qubits": 3}
    wire["nvidia"]["driver"]["colour"] = "green"
    assert read_snapshot(json.dumps(wire)) == FACTS


def test_a_reason_that_only_a_newer_doctor_knows_leaves_the_fact_unknown() -> None:
    wire = json.loads(write_snapshot(FACTS))
    wire["nvidia"]["userspace"]["missing"] = "lost-in-transit"
    found = read_snapshot(json.dumps(wire)).nvidia.userspace
    assert (found.missing, found.at) == (Missing.NOT_STATED, "/usr/lib")
    assert not found.is_absent


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (
            '{"schema": "doctor/facts/v1", "nvidia": {"driver": {"value": "x y"}}}',
            "$.nvidia.driver.value",
        ),
        (
            '{"schema": "doctor/facts/v1", "devices": {"value": [{"id": 1}]}}',
            "$.devices.value[0].id",
        ),
        (
            '{"schema": "doctor/facts/v1", "host": {"kernel": {"missing": 7}}}',
            "$.host.kernel.missing",
        ),
        ('{"schema": "doctor/facts/v1", "host": ', "truncated"),
        ('{"schema": "doctor/facts/v7"}', "doctor/facts/v7"),
    ],
)
def test_a_broken_snapshot_names_the_place(text: str, place: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_snapshot(text, "host.json")
    assert place in str(caught.value)
    assert str(caught.value).startswith("host.json: ")


def test_unreadable_files_are_usage_errors(tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text("")
    for path in (tmp_path, tmp_path / "none.yaml", tmp_path / "empty.yaml", Path("/dev/null")):
        with pytest.raises(UsageError):
            read_input(path)
