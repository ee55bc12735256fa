"""What a tool says instead of its table names the cause, though it lists no device."""

from __future__ import annotations

import pytest

from doctor.diagnose import diagnose
from doctor.intake import parse_input
from doctor.matrix import load_matrix

MATRIX = load_matrix()
NVML = "Failed to initialize NVML: "
REFUSALS = (
    ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure "
     "that the latest NVIDIA driver is installed and running.", "driver-not-loaded"),
    (f"{NVML}Driver/library version mismatch\nNVML library version: 550.144",
     "driver-library-mismatch"),
    (f"{NVML}Driver Not Loaded", "driver-not-loaded"),
    (f"{NVML}Unknown Error", "cgroup-device-lost"),
    (f"{NVML}Insufficient Permissions", "device-permission"),
    (f"{NVML}GPU is lost", "gpu-unhealthy"),
    ("Unable to determine the device handle for GPU0000:41:00.0: Unknown Error", "gpu-unhealthy"),
    (f"{NVML}GPU access blocked by the operating system", "wsl-specific"),
    ("No devices were found", "gpu-not-visible"),
    ("dcmi model initialized failed, because the device is used. ret is -8020",
     "npu-device-busy"),
    ("dcmi module initialize failed. ret is -8005", "npu-permission"),
    ("npu-smi: error while loading shared libraries: libdcmi.so: cannot open shared object file: "
     "No such file or directory", "npu-permission"),
)  # fmt: skip


@pytest.mark.parametrize(("text", "cause"), REFUSALS, ids=[text[:60] for text, _ in REFUSALS])
@pytest.mark.parametrize("around", ["{}", "$ nvidia-smi\n{}\n", "It broke:\n```\n{}\n```\nHelp!"])
def test_a_refusal_names_its_cause(text: str, cause: str, around: str) -> None:
    facts = parse_input(around.format(text)).facts
    assert not facts.devices.is_known
    found = [t.primary.cause if t.primary else "" for t in diagnose(facts, MATRIX).targets]
    assert found == [cause]
