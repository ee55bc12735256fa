"""NVML through the real pynvml and a fake library: refusals, old libraries, hangs, crashes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.facts import DeviceHealth, Link, Mig, Missing, TopologyLink, seen
from doctor.facts.accelerators import DeviceProcess
from doctor.probes.nvml_answers import NvmlAnswers, parse_answers
from doctor.probes.nvml_values import cuda_version, pci_address
from tests.fakes import nvml
from tests.fakes.hosts import HOSTS

pytestmark = pytest.mark.real

ONE = """\
driver=580.95.05
cuda=13000
count=1
0.name=NVIDIA H100 PCIe
0.bus=00000000:18:00.0
0.pci_id=233110de
0.capability=9.0
0.memory=81559 1024
0.processes=7:64
process.7=/opt/venv/bin/python3 serve.py --api-key secret
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return nvml.build(tmp_path_factory.mktemp("nvml"))


class Fake:
    """Asks the fake with a configuration of one test."""

    def __init__(self, library: Path, folder: Path) -> None:
        self._library, self._folder = library, folder

    def raw(self, text: str, timeout_s: float = 20.0) -> dict[str, Any]:
        path = self._folder / "nvml.conf"
        path.write_text(text)
        return nvml.ask(self._library, [path], timeout_s)[0]

    def answers(self, text: str) -> NvmlAnswers:
        return parse_answers(seen(self.raw(text)["answer"]["value"], "NVML"))


@pytest.fixture
def fake(library: Path, tmp_path: Path) -> Fake:
    return Fake(library, tmp_path)


@pytest.mark.parametrize("code", [4, 9, 15, 18, 999])
def test_a_refusal_keeps_its_number(fake: Fake, code: int) -> None:
    found = fake.answers(f"{ONE}fail.nvmlInit={code}\n")
    assert found.error.value == code
    assert found.devices.missing is Missing.NOT_READABLE
    assert found.device_count.at == f"nvmlInit: error {code}"


def test_no_refusal_is_an_absent_error(fake: Fake) -> None:
    found = fake.answers(ONE)
    assert found.error.is_absent
    (device,) = found.devices.known("devices")
    assert device.memory_free_mib.value == 81559 - 1024
    assert device.processes.value == (DeviceProcess(7, 64, "python3"),)


def test_zero_devices(fake: Fake) -> None:
    found = fake.answers("driver=580.95.05\ncount=0\n")
    assert (found.device_count.value, found.devices.value, found.topology.value) == (0, (), ())


def test_a_count_that_fails_is_not_zero_devices(fake: Fake) -> None:
    found = fake.answers(f"{ONE}fail.nvmlDeviceGetCount_v2=999\n")
    assert found.error.value == 999
    assert not found.device_count.is_known
    assert not found.devices.is_known


def test_errors_of_single_questions(fake: Fake) -> None:
    codes = {"nvmlDeviceGetName": 999, "nvmlDeviceGetComputeMode": 4, "nvmlDeviceGetMigMode": 3}
    text = "".join(f"0.fail.{function}={code}\n" for function, code in codes.items())
    (device,) = fake.answers(ONE + text).devices.known("devices")
    assert device.name.missing is Missing.NOT_READABLE
    assert device.compute_mode.missing is Missing.NOT_PERMITTED
    assert device.mig.is_absent
    assert device.memory_mib.value == 81559


def test_what_an_older_library_does_not_know(fake: Fake) -> None:
    functions = (
        "nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlDeviceGetGpuFabricInfoV",
    )
    text = "".join(f"fail.{function}=13\n" for function in functions)
    text += "0.throttle=0x44\n0.fabric=3 0 0\n"
    (device,) = fake.answers(ONE + text).devices.known("devices")
    assert device.processes.value == (DeviceProcess(7, 64, "python3"),)
    assert device.health.value == DeviceHealth(throttle=("power-cap", "hw-thermal"))
    assert device.fabric.value == "completed"


def test_health_link_and_modes(fake: Fake) -> None:
    text = (
        "0.ecc=2\n0.remapped=1 3 1 0\n0.temperature=81\n0.throttle=0x1\n0.width=8\n0.width_max=16\n"
        "0.gen=3\n0.gen_max=5\n0.compute_mode=3\n0.virtualization=2\n0.licensed=0\n0.gsp=1\n"
        "0.persistence=0\n0.fabric=3 999 0\n0.mig=1\n0.mig_most=7\n0.mig2.uuid=MIG-2\n"
        "0.mig2.name=NVIDIA H100 PCIe\n0.mig2.slices=2 1 19968\n"
    )
    found = fake.answers(ONE + text)
    device, instance = found.devices.known("devices")
    assert device.health.value == DeviceHealth(
        ecc_uncorrected=2, remap_pending=True, remap_failed=False, temperature_c=81
    )
    assert device.link.value == Link(width=8, width_max=16, gen=3, gen_max=5)
    assert (device.compute_mode.value, device.virtual.value) == ("exclusive-process", True)
    assert (device.gsp.value, device.fabric.value) == (True, "failed")
    assert (found.persistence.value, found.licensed.value) == (False, False)
    assert instance.mig.value == Mig(enabled=True, parent="gpu0", profile="1c.2g.20gb")
    assert instance.memory_mib.missing is Missing.NOT_READABLE


def test_bridged_cards_and_distant_ones(fake: Fake) -> None:
    buses = ("00000000:17:00.0", "00000000:65:00.0", "00000000:CA:00.0")
    text = "count=3\n" + "".join(f"{n}.bus={bus}\n" for n, bus in enumerate(buses))
    text += f"0.nvlink={buses[1]}*4\n1.nvlink={buses[0]}*4\n2.nvlink_down=4\n"
    text += "ancestor.0.1=20\nancestor.0.2=50\nancestor.1.2=30\np2p.0.1=0\np2p.0.2=5\n"
    found = fake.answers(text)
    assert found.topology.value == (
        TopologyLink("gpu0", "gpu1", "NV4", p2p=True),
        TopologyLink("gpu0", "gpu2", "SYS", p2p=False),
        TopologyLink("gpu1", "gpu2", "PHB"),
    )
    healths = [device.health.known("health") for device in found.devices.known("devices")]
    assert [(h.nvlinks_up, h.nvlinks_down) for h in healths] == [(4, 0), (4, 0), (0, 4)]


@pytest.mark.parametrize("function", ["nvmlInit", "nvmlDeviceGetName"])
def test_a_hang_ends_at_the_deadline(fake: Fake, function: str) -> None:
    found = fake.raw(f"{ONE}hang.{function}=1\n", timeout_s=0.5)
    assert found["answer"] == {"missing": "timed-out", "at": "NVML"}
    assert found["seconds"] < 2


def test_a_crash_is_not_ours(fake: Fake) -> None:
    found = fake.raw(f"{ONE}crash.nvmlDeviceGetUUID=1\n")
    assert found["answer"]["missing"] == "not-readable"
    assert found["answer"]["at"] == "NVML: the reader was ended by signal 6"


def test_no_library_is_the_code_that_pynvml_gives(tmp_path: Path) -> None:
    found = nvml.ask(tmp_path, [tmp_path / "none"])[0]["answer"]
    assert found["value"] == {"init": 12}


def test_without_pynvml(library: Path, tmp_path: Path) -> None:
    (tmp_path / "pynvml.py").write_text("raise ImportError('not here')\n")
    environ = {"PYTHONPATH": str(tmp_path)}
    found = nvml.ask(library, [tmp_path / "none"], environ=environ)[0]["answer"]
    assert found["missing"] == "not-readable"
    assert "not installed" in found["at"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=4,
)
RECORDED = {name: (HOSTS / name / "nvml.json").read_text() for name in ("h100x2-580", "a100-mig")}


@settings(max_examples=150)
@given(st.sampled_from(sorted(RECORDED)), st.data())
def test_no_document_raises(name: str, data: st.DataObject) -> None:
    document = json.loads(RECORDED[name])
    for _ in range(data.draw(st.integers(1, 4))):
        _put(document, data)
    found = parse_answers(seen(document, "NVML"))
    assert found.driver.is_known or found.driver.missing is not None


def _put(node: Any, data: st.DataObject) -> None:
    """Replace something in the document, at any depth."""
    while node:
        keys = sorted(node) if isinstance(node, dict) else range(len(node))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(node[key], (dict, list)) or data.draw(st.booleans()):
            node[key] = data.draw(JSON)
            return
        node = node[key]


def test_numbers_in_words() -> None:
    assert str(cuda_version(13020)) == "13.2"
    assert cuda_version(0) is None
    assert pci_address("0000000F:01:00.0") == "000f:01:00.0"
    assert pci_address("00010000:E1:1F.7") == "10000:e1:1f.7"
