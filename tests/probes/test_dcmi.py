"""DCMI through ctypes and a fake library: both families, refusals, hangs, missing parts."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.facts import DeviceHealth, Facts, HostFacts, Missing, Version, seen
from doctor.facts.accelerators import DeviceProcess
from doctor.probes import ascend, dcmi
from doctor.probes.dcmi_answers import parse
from doctor.probes.recorded import RecordedHost
from tests.fakes import dcmi as fake
from tests.fakes import hosts
from tests.probes.test_accelerators import NODES, command, sample
from tests.probes.written import write_host

ONE = """\
driver=25.2.0
cards=2
2.0.type=Ascend
2.0.name=910B4
2.0.logic=0
2.0.health=1
2.0.temperature=52
2.0.hbm=32768 30710
2.0.memory=0 0
2.0.compatibility=1
2.0.pci=19e5 19e5 d802 4000 0 c2 0 0
2.0.processes=4242:1073741824 17:1048576
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake.build(tmp_path_factory.mktemp("dcmi"))


class Asked:
    """Asks the fake with a configuration of one test."""

    def __init__(self, library: Path, folder: Path) -> None:
        self.made, self.configuration = library, folder / "dcmi.conf"

    def raw(self, text: str, timeout_s: float = 20.0) -> dict[str, Any]:
        self.configuration.write_text(text)
        return fake.ask(self.configuration, self.made, timeout_s=timeout_s)

    def facts(self, text: str) -> Facts:
        return parse(seen(self.raw(text)["value"], "DCMI"))


@pytest.fixture
def asked(library: Path, tmp_path: Path) -> Asked:
    return Asked(library, tmp_path)


@pytest.mark.real
def test_a_card_with_one_chip(asked: Asked) -> None:
    facts = asked.facts(ONE)
    assert facts.ascend.dcmi_error.is_absent
    assert (facts.ascend.driver.value, facts.ascend.compatibility.value) == (
        Version("25.2.0"),
        "OK",
    )
    (device,) = facts.devices.known("devices")
    assert (device.id, device.name.value, device.soc.value) == ("npu0", "910B4", "Ascend910B4")
    assert (device.pci.value, device.pci_id.value) == ("0000:c2:00.0", "19e5:d802")
    assert (device.memory_mib.value, device.memory_free_mib.value) == (32768, 32768 - 30710)
    assert device.health.value == DeviceHealth(temperature_c=52, status="Warning")
    assert device.processes.value == (DeviceProcess(4242, 1024), DeviceProcess(17, 1))


@pytest.mark.real
def test_two_dies_of_a_card_beside_its_controller(asked: Asked) -> None:
    """The kinds 1 and 2 are a controller and a processor: no devices."""
    text = "driver=25.5.1\ncards=0 1\n"
    for card in (0, 1):
        text += f"{card}.chips=3\n{card}.types=0 0 1\n"
        for die in (0, 1):
            place = f"{card}.{die}"
            text += f"{place}.name=Ascend910\n{place}.npu=9391\n{place}.logic={2 * card + die}\n"
            text += f"{place}.hbm=65536 2870\n{place}.health=0\n"
    devices = asked.facts(text).devices.known("devices")
    assert [(d.id, d.soc.value, d.memory_mib.value) for d in devices] == [
        (f"npu{n}", "Ascend910_9391", 65536) for n in range(4)
    ]


@pytest.mark.real
def test_a_chip_without_stacked_memory(asked: Asked) -> None:
    text = "driver=25.0.rc1\ncards=2\n2.0.type=Ascend\n2.0.name=310P3\n2.0.memory=44280 42717\n"
    facts = asked.facts(text)
    (device,) = facts.devices.known("devices")
    assert (device.soc.value, device.memory_mib.value) == ("Ascend310P3", 44280)
    assert device.memory_free_mib.value == 42717
    assert device.health.is_absent
    assert facts.ascend.compatibility.is_absent


@pytest.mark.real
def test_the_newer_family_knows_no_cards(asked: Asked) -> None:
    text = (
        "family=2\ndriver=25.7.rc1\ncards=0 1\n0.0.name=Ascend950PR\n0.0.npu=9579\n"
        "0.0.hbm=86016 41\n0.0.health=0\n0.1.name=Ascend950PR\n0.1.npu=9579\n0.1.hbm=86016 7\n"
    )
    facts = asked.facts(text)
    devices = facts.devices.known("devices")
    assert [(d.id, d.soc.value, d.memory_mib.value) for d in devices] == [
        ("npu0", "Ascend950PR_9579", 86016),
        ("npu1", "Ascend950PR_9579", 86016),
    ]
    assert facts.ascend.driver.value == Version("25.7.rc1")


@pytest.mark.real
@pytest.mark.parametrize("code", [-8005, -8020, -8002])
def test_a_refusal_keeps_its_number(asked: Asked, code: int) -> None:
    facts = asked.facts(f"{ONE}fail.dcmi_init={code}\n")
    assert facts.ascend.dcmi_error.value == code
    assert facts.devices.missing is Missing.NOT_READABLE


@pytest.mark.real
def test_a_list_that_fails_is_not_zero_devices(asked: Asked) -> None:
    facts = asked.facts(f"{ONE}fail.dcmi_get_card_list=-8002\n")
    assert facts.devices.missing is Missing.NOT_PERMITTED
    assert facts.ascend.driver.is_known


@pytest.mark.real
def test_errors_of_single_questions(asked: Asked) -> None:
    names = ("chip_info", "hbm_info", "health", "temperature", "resource_info")
    facts = asked.facts(ONE + "".join(f"fail.dcmi_get_device_{n}=-8009\n" for n in names))
    (device,) = facts.devices.known("devices")
    assert device.pci.is_known
    readings = (device.name, device.memory_mib, device.health, device.processes)
    assert {reading.missing for reading in readings} == {Missing.NOT_READABLE}


@pytest.mark.real
@pytest.mark.parametrize("function", ["dcmi_init", "dcmi_get_device_hbm_info"])
def test_a_hang_ends_at_the_deadline(asked: Asked, function: str) -> None:
    started = time.monotonic()
    assert asked.raw(f"{ONE}hang.{function}=1\n", 0.5) == {"missing": "timed-out", "at": "DCMI"}
    assert time.monotonic() - started < 10


@pytest.mark.real
def test_a_crash_is_not_ours(asked: Asked) -> None:
    found = asked.raw(f"{ONE}crash.dcmi_get_device_hbm_info=1\n")
    assert found["missing"] == "not-readable"
    assert found["at"].endswith("ended by signal 6")


@pytest.mark.real
def test_no_library_and_a_broken_one(tmp_path: Path) -> None:
    assert "cannot open shared object file" in fake.ask(tmp_path / "none", tmp_path)["at"]
    (tmp_path / dcmi.LIBRARY).write_text("no library")
    found = fake.ask(tmp_path / "none", tmp_path)
    assert found["missing"] == "not-readable"


@pytest.mark.real
def test_parts_that_the_loader_does_not_find(tmp_path: Path) -> None:
    folder = fake.build_in_parts(tmp_path)
    (tmp_path / "conf").write_text(ONE)
    alone = fake.ask(tmp_path / "conf", folder / "driver")
    assert fake.PART in alone["at"]
    whole = fake.ask(tmp_path / "conf", folder / "driver", folder / "common")
    assert whole["value"]["init"] == 0


@pytest.mark.real
@pytest.mark.parametrize("folder", hosts.with_fake_dcmi(), ids=lambda folder: folder.name)
def test_recorded_answers_are_what_the_reader_reads(library: Path, folder: Path) -> None:
    found = fake.ask(folder / "dcmi.conf", library)["value"]
    assert found == json.loads((folder / "dcmi.json").read_text()), "python -m tests.fakes.hosts"


def _host(folder: Path, document: object, *commands: dict[str, Any], **files: str) -> RecordedHost:
    texts = {f"/usr/local/Ascend/{name}/version.info": text for name, text in files.items()}
    return write_host(folder, texts, paths=NODES, commands=list(commands), dcmi=document)


DOCUMENT = {
    "init": 0,
    "driver": "25.2.0",
    "count": 1,
    "devices": [
        {"logic": 0, "chip": {"name": "910B4"}, "hbm": {"size": 32768, "used": 1}, "health": 0}
    ],
}


def test_npu_smi_fills_what_dcmi_leaves_out(tmp_path: Path) -> None:
    table = command("npu-smi", "info", out=sample("info_1x910B4.txt"))
    facts = ascend.read(_host(tmp_path, DOCUMENT, table), Facts())
    (device,) = facts.devices.known("devices")
    assert (device.memory_mib.at, device.pci.value) == ("DCMI device 0 memory", "0000:c2:00.0")
    assert (facts.ascend.smi_devices.value, str(facts.ascend.smi_driver.value)) == (1, "24.1.rc3")


def test_what_they_say_differently_is_noted(tmp_path: Path) -> None:
    table = command("npu-smi", "info", out=sample("info_8x910B3_25.2.0.txt"))
    host = _host(tmp_path, DOCUMENT, table, driver="Version=24.1.0\npackage_version=24.1.0\n")
    facts = ascend.read(host, Facts())
    assert facts.notes == (
        "ascend.driver is 24.1.0 (/usr/local/Ascend/driver/version.info) or "
        "25.2.0 (dcmi_get_driver_version) or 25.2.0 (npu-smi info): took the first",
        "the number of NPUs is 1 (DCMI) or 8 (npu-smi info): took the first",
    )


def test_agreement_is_silent() -> None:
    facts = json.loads((hosts.HOSTS / "ascend-910b3x8" / "facts.json").read_text())
    assert "notes" not in facts
    assert facts["ascend"]["smi_devices"]["value"] == len(facts["devices"]["value"])


def test_where_dcmi_hangs_npu_smi_is_not_asked(tmp_path: Path) -> None:
    table = command("npu-smi", "info", out=sample("info_1x910B4.txt"))
    facts = ascend.read(_host(tmp_path, {"missing": "timed-out"}, table), Facts())
    assert not facts.devices.is_known
    assert facts.ascend.dcmi_error.missing is Missing.TIMED_OUT
    assert facts.ascend.smi_error.at == "not asked: DCMI hangs"


def test_without_the_tool_its_refusal_speaks(tmp_path: Path) -> None:
    facts = ascend.read(_host(tmp_path, {"init": -8020}), Facts(host=HostFacts()))
    assert facts.ascend.smi_error.value == "dcmi_init: ret is -8020"


def test_without_a_library_npu_smi_stands_alone(tmp_path: Path) -> None:
    table = command("npu-smi", "info", out=sample("info_1x910B4.txt"))
    host = write_host(tmp_path, paths=NODES, commands=[table])
    facts = ascend.read(host, Facts())
    assert [device.name.value for device in facts.devices.value or ()] == ["910B4"]
    assert facts.ascend.dcmi_error.missing is Missing.NOT_READABLE


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=4,
)
KEYS = ("init", "driver", "count", "devices", "chip", "hbm", "pci", "processes", "health", "error")


@given(st.dictionaries(st.sampled_from(KEYS), JSON), st.dictionaries(st.sampled_from(KEYS), JSON))
def test_no_document_raises(document: dict[str, Any], device: dict[str, Any]) -> None:
    for raw in (document, {**DOCUMENT, "devices": [device]}):
        found = parse(seen(raw, "DCMI"))
        assert found.devices.is_known or found.devices.missing is not None
