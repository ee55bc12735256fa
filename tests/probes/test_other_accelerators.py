"""Cambricon, Intel and Apple: recognised from files, with what the makers' tools add."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from doctor.facts import DeviceHealth, Facts, Missing, Version
from doctor.facts.accelerators import DeviceProcess
from doctor.probes import apple, cnmon, xpu_smi
from doctor.probes.collect import Options, collect
from tests.probes.test_accelerators import command
from tests.probes.written import write_host

# Two cards as CNMON 5.10.22 prints them, and a process.
CNMON = """\
Wed Nov  8 16:16:45 2023
+------------------------------------------------------------------------------+
| CNMON v5.10.22                                               Driver v5.10.22 |
+-------------------------------+----------------------+-----------------------+
| Card  VF  Name       Firmware |               Bus-Id | Util        Ecc-Error |
| Fan   Temp      Pwr:Usage/Cap |         Memory-Usage | Mode     Compute-Mode |
|===============================+======================+=======================|
| 0     /   MLU370-X8    v1.1.6 |         0000:13:00.0 | 0%                  0 |
|  0%   28C        107 W/ 250 W |     0 MiB/ 20638 MiB | FULL          Default |
+-------------------------------+----------------------+-----------------------+
| 1     /   MLU370-X8    v1.1.6 |         0000:4F:00.0 | 0%                  0 |
|  0%   32C        107 W/ 250 W | 10240 MiB/ 20638 MiB | FULL          Default |
+-------------------------------+----------------------+-----------------------+

+------------------------------------------------------------------------------+
| Processes:                                                                   |
|  Card  VF  PID    Command Line                             MLU Memory Usage  |
|==============================================================================|
|  1     /   4242   /usr/bin/python3                               10240 MiB   |
+------------------------------------------------------------------------------+
"""
XPU_SMI = """\
+-----------+--------------------------------------------------------------------------------------+
| Device ID | Device Information                                                                   |
+-----------+--------------------------------------------------------------------------------------+
| 0         | Device Name: Intel(R) Data Center GPU Flex 170                                       |
|           | Vendor Name: Intel(R) Corporation                                                    |
|           | PCI BDF Address: 0000:4D:00.0                                                        |
|           | DRM Device: /dev/dri/card0                                                           |
+-----------+--------------------------------------------------------------------------------------+
"""
PLIST = """\
<plist version="1.0"><dict>
	<key>ProductName</key>
	<string>macOS</string>
	<key>ProductVersion</key>
	<string>15.2</string>
</dict></plist>
"""
SYSCTL = (
    "machdep.cpu.brand_string: Apple M3 Max\nhw.memsize: 137438953472\nhw.ncpu: 16\n"
    "kern.osrelease: 24.2.0\n"
)


def _bus(address: str, pci_id: str) -> dict[str, str]:
    text = f"PCI_CLASS=120000\nPCI_ID={pci_id}\nPCI_SUBSYS_ID={pci_id}\n"
    return {f"/sys/bus/pci/devices/{address}/uevent": text}


def test_the_table_of_cnmon() -> None:
    facts = cnmon.parse(CNMON)
    assert facts.cambricon.driver.value == Version("5.10.22")
    first, second = facts.devices.known("devices")
    assert (first.id, first.name.value, first.pci.value) == ("mlu0", "MLU370-X8", "0000:13:00.0")
    assert (first.memory_mib.value, first.memory_free_mib.value) == (20638, 20638)
    assert second.memory_free_mib.value == 20638 - 10240
    assert second.health.value == DeviceHealth(temperature_c=32)
    assert second.processes.value == (DeviceProcess(4242, 10240, "python3"),)


def test_cards_of_cambricon_are_files_first_and_the_tool_after(tmp_path: Path) -> None:
    information = "Device name          : MLU370-X8\nDriver Version       : v5.10.13\n"
    files = {
        **_bus("0000:13:00.0", "CABC:0370"),
        **_bus("0000:4f:00.0", "CABC:0370"),
        "/proc/driver/cambricon/mlus/0000:13:00.0/information": information,
    }
    nodes: dict[str, Any] = {"/dev/cambricon_dev0": {}, "/dev/cambricon_ctl": {}}
    host = write_host(tmp_path, files, paths=nodes, commands=[command("cnmon", out=CNMON)])
    facts = collect(host, Options())
    assert facts.cambricon.driver.value == Version("5.10.13")
    assert facts.cambricon.nodes.value == ("/dev/cambricon_ctl", "/dev/cambricon_dev0")
    devices = facts.devices.known("devices")
    assert [(d.id, d.index, d.memory_mib.value) for d in devices] == [
        ("mlu0", 0, 20638),
        ("mlu1", 1, 20638),
    ]
    assert devices[0].name.at.endswith("/information")
    assert devices[1].name.at == "cnmon"


def test_without_the_tool_cards_are_still_recognised(tmp_path: Path) -> None:
    facts = collect(write_host(tmp_path, _bus("0000:13:00.0", "CABC:0370")), Options())
    (device,) = facts.devices.known("devices")
    assert (device.vendor, device.pci_id.value) == ("cambricon", "cabc:0370")
    assert not device.memory_mib.is_known
    assert facts.cambricon.driver.is_absent
    assert facts.notes == ()


def test_names_of_intel_come_from_its_tool(tmp_path: Path) -> None:
    files = {"/sys/bus/pci/devices/0000:4d:00.0/uevent": "PCI_CLASS=38000\nPCI_ID=8086:56C0\n"}
    host = write_host(tmp_path, files, commands=[command("xpu-smi", "discovery", out=XPU_SMI)])
    (device,) = collect(host, Options()).devices.known("devices")
    assert device.name.value == "Intel(R) Data Center GPU Flex 170"
    assert (device.vendor, device.index) == ("intel", 0)
    assert xpu_smi.parse("no table") == Facts()


def test_a_mac(tmp_path: Path) -> None:
    host = write_host(
        tmp_path,
        {apple.VERSION: PLIST},
        commands=[
            command(*apple._COMMAND, out=SYSCTL),
            command("uname", "-m", out="arm64\n"),
        ],
    )
    facts = collect(host, Options())
    assert facts.notes == ()
    system = facts.host.os.known("os")
    assert (system.id, system.version) == ("macos", "15.2")
    assert (facts.host.arch.value, facts.host.memory_mib.value) == ("aarch64", 131072)
    assert (facts.host.cpu.model.value, facts.host.cpu.count.value) == ("Apple M3 Max", 16)
    (device,) = facts.devices.known("devices")
    assert (device.vendor, device.name.value) == ("apple", "Apple M3 Max")
    assert device.memory_mib.missing is Missing.NOT_STATED


def test_a_mac_with_a_chip_of_intel_has_no_gpu_of_apples(tmp_path: Path) -> None:
    out = SYSCTL.replace("Apple M3 Max", "Intel(R) Core(TM) i7-9750H")
    host = write_host(
        tmp_path, {apple.VERSION: PLIST}, commands=[command(*apple._COMMAND, out=out)]
    )
    assert not collect(host, Options()).devices.value


def test_linux_is_asked_nothing_of_a_mac(tmp_path: Path) -> None:
    files = {"/etc/os-release": "ID=debian\n", apple.VERSION: PLIST}
    facts = collect(write_host(tmp_path, files), Options())
    assert facts.host.os.known("os").id == "debian"
