"""What people say of a fault counts together with the facts that they state beside it."""

from __future__ import annotations

from typing import Any

import pytest

from doctor.diagnose import diagnose
from doctor.findings import Severity
from doctor.intake.field_report import read_field_report
from doctor.matrix import load_matrix

MATRIX = load_matrix()
WINDOWS = {"os": {"distro": "Windows"}, "engine": "comfyui", "python": "3.12"}
TWO = {"engine": "vllm", "gpus": [{"name": "RTX 4090", "count": 2}]}
POD = {"engine": "container-toolkit", "container": {"runtime": "kubernetes"}}


def first(report: dict[str, Any]) -> str:
    """The cause that is decided first, "" where there is only a note."""
    (target,) = diagnose(read_field_report(report), MATRIX).targets
    found = target.primary
    return found.cause if found and found.severity is not Severity.INFO else ""


@pytest.mark.parametrize(
    ("report", "cause"),
    [
        (
            {**WINDOWS, "notes": ["python_embeded of the portable build", "torch.compile is on"]},
            "build-toolchain-missing",
        ),
        (
            {**WINDOWS, "notes": ["embedded Python"], "packages": {"triton-windows": "3.4.0"}},
            "build-toolchain-missing",
        ),
        ({**TWO, "notes": ["it hangs while loading", "one GPU works"]}, "p2p-or-nccl"),
        ({**TWO, "notes": ["stuck at init with GPUs at 100% utilization"]}, "p2p-or-nccl"),
        ({**TWO, "notes": ["with one GPU it answers, with both it freezes"]}, "p2p-or-nccl"),
        (
            {
                "engine": "sglang",
                "gpus": [{"name": "Jetson Thor"}],
                "notes": ["Triton cannot compile its kernels"],
            },
            "jetson-specific",
        ),
        (
            {"engine": "lmdeploy", "notes": ["pip install lmdeploy replaced torch"]},
            "torch-pin-mismatch",
        ),
        (
            {"engine": "vllm-ascend", "notes": ["triton-ascend 3.2.1 and stock triton are there"]},
            "dependency-conflict",
        ),
        (
            {**POD, "notes": ["works at first, and no longer after some hours"]},
            "cgroup-device-lost",
        ),
    ],
)
def test_words_and_facts_together_name_a_cause(report: dict[str, Any], cause: str) -> None:
    assert first(report) == cause


@pytest.mark.parametrize(
    "report",
    [
        {**WINDOWS, "notes": ["embedded Python"]},
        {
            **TWO,
            "gpus": [{"name": "RTX 4090"}],
            "notes": ["it hangs while loading", "one GPU works"],
        },
        {**TWO, "notes": ["joined by PCIe, no NVLink"]},
        {"engine": "sglang", "gpus": [{"name": "H100"}], "notes": ["Triton cannot compile it"]},
        {"engine": "tensorrt-llm", "notes": ["importing tensorrt_llm hangs"]},
        {"engine": "vllm-ascend", "notes": ["triton-ascend is of 3.2.0"]},
        {**TWO, "notes": ["hangs after hours of requests", "a restart helps"]},
        {"engine": "vllm", "container": {"runtime": "docker"}, "notes": ["fails after some time"]},
        {"engine": "ollama", "notes": ["user is member of the render group"]},
    ],
)
def test_words_without_the_facts_decide_nothing(report: dict[str, Any]) -> None:
    assert first(report) == ""


def test_words_put_no_warning_before_an_error_by_facts() -> None:
    packages = {"vllm-ascend": "0.9.2rc1", "torch": "2.7.1"}
    report = {"engine": "vllm-ascend", "packages": packages, "notes": ["torch-npu is not found"]}
    assert first(report) == "torch-pin-mismatch"
