"""A host in one line: what is understood, and what is refused."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.errors import UsageError
from doctor.examine import Sources, gather
from doctor.facts import Version
from doctor.intake.host_line import parse_host


def test_everything_that_can_be_said() -> None:
    facts = parse_host(
        "H100x8,driver=550.54,python=3.11,ubuntu=22.04,arch=amd64,module=open,glibc=2.35,"
        "docker=yes,fabric_manager=550.54.15,ram=1024,flags=avx2+amx_tile,kernel=5.15.0"
    )
    devices = facts.devices.value or ()
    assert len(devices) == 8
    assert {d.name.value for d in devices} == {"H100"}
    assert str(facts.nvidia.driver.value) == "550.54.*"
    assert facts.nvidia.module_flavour.value == "open"
    assert facts.nvidia.fabric_manager.version.value == Version("550.54.15")
    assert facts.host.arch.value == "x86_64"
    assert facts.host.memory_mib.value == 1024 * 1024
    assert facts.host.cpu.flags.value == ("avx2", "amx_tile")
    python, system, box = facts.scopes[0].python.value, facts.host.os.value, facts.container_engine
    assert python is not None
    assert str(python.version) == "3.11.*"
    assert system is not None
    assert (system.id, system.version) == ("ubuntu", "22.04")
    assert box.value is not None
    assert box.value.runtimes.value == ("nvidia", "runc")


def test_what_is_not_said_is_not_known() -> None:
    facts = parse_host("H100")
    assert not facts.nvidia.driver.is_known
    assert not facts.nvidia.driver.is_absent
    assert not facts.container_engine.is_known
    assert not facts.host.libc.is_known


def test_what_is_said_to_be_absent_is_absent() -> None:
    facts = parse_host("H100,driver=none,docker=no")
    assert facts.nvidia.driver.is_absent
    assert facts.container_engine.is_absent
    assert parse_host("cpu,arch=x86_64").devices.value == ()


@pytest.mark.parametrize(
    ("text", "name", "count"),
    [
        ("RTX 4090", "RTX 4090", 1),
        ("RTX 4090x2", "RTX 4090", 2),
        ("8x H100 80GB HBM3", "H100 80GB HBM3", 8),
        ("T4 x 2", "T4", 2),
        ("MI300Xx8", "MI300X", 8),
        ("NVIDIA Thorx1", "NVIDIA Thor", 1),
        ("Jetson TX2", "Jetson TX2", 1),
        ("GTX 1080", "GTX 1080", 1),
        ("L40S*4", "L40S", 4),
    ],
)
def test_names_and_counts(text: str, name: str, count: int) -> None:
    devices = parse_host(text).devices.value or ()
    assert (devices[0].name.value, len(devices)) == (name, count)


def test_a_chip_of_ascend_and_its_driver() -> None:
    facts = parse_host("npu=910B3x8,soc=Ascend910B3,driver=25.2.0,cann=8.2.RC1")
    device = (facts.devices.value or ())[0]
    assert (device.vendor, device.soc.value) == ("ascend", "Ascend910B3")
    assert facts.ascend.driver.value == Version("25.2.0")
    assert facts.ascend.cann.value == Version("8.2.RC1")
    assert not facts.nvidia.driver.is_known


def test_cards_of_several_kinds() -> None:
    devices = parse_host("Quadro P2000,cc=6.1,RTX A5000x2").devices.value or ()
    assert [d.id for d in devices] == ["gpu0", "gpu1", "gpu2"]
    assert str(devices[0].compute_capability.value) == "6.1"
    assert not devices[1].compute_capability.is_known


def refusal(text: str) -> UsageError:
    with pytest.raises(UsageError) as fault:
        gather(Sources(host=text))
    assert fault.value.hint
    return fault.value


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("H100,pyton=3.11", "python"),
        ("H100,drivr=550", "driver"),
        ("H100,ubunt=22.04", "ubuntu"),
        ("H200Z", "h200"),
        ("H100,arch=x86", "x86_64"),
        ("H100,os=ubunto-22.04", "ubuntu"),
    ],
)
def test_the_nearest_names_are_given(text: str, near: str) -> None:
    assert near in refusal(text).hint


@pytest.mark.parametrize(
    "text",
    [
        ",",
        "H100x0",
        "H100x99999",
        "H100,driver=new",
        "H100,driver=580.95,driver=550.54",
        "H100,ubuntu=22.04,debian=12",
        "H100,docker=28,podman=5",
        "H100,python=3.11,Python=3.12",
        "H100,driver=",
        "H100,python=2.7",
        "H100,module=secret",
        "H100,os=voodoo-1",
        "cc=8.0,H100",
        "RTX5000",
        "Voodoo 2",
        "npu=910Z9",
        "H100," + "a" * 3000,
    ],
)
def test_what_says_nothing_is_refused(text: str) -> None:
    refusal(text)


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=120) | st.text(alphabet="H100x,=driver5.804 ", max_size=60))
def test_no_text_raises_anything_but_a_usage_error(text: str) -> None:
    with contextlib.suppress(UsageError):
        parse_host(text)
