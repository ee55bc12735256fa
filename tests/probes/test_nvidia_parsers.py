"""Readers of single NVIDIA sources: texts as drivers and tools write them, and any text at all."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.facts import Missing, Version, seen
from doctor.facts.accelerators import XidEvent
from doctor.probes import (
    access,
    nvidia_driver,
    nvidia_kernel_log,
    nvidia_libraries,
    nvidia_module,
    nvidia_services,
    nvidia_smi,
    nvidia_toolkits,
    pci,
)
from doctor.probes.host import CommandResult
from tests.probes.written import write_host

OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.14  Release Build  (dvs)\n"
CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  390.157  Wed Oct 12 09:18:15 UTC 2022\n"
JETSON = "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  540.4.0  Release Build  (build)"


@pytest.mark.parametrize(
    ("text", "version", "flavour"),
    [
        (OPEN, "550.54.14", "open"),
        (CLOSED + "GCC version:  gcc version 12.3.0\n", "390.157", "proprietary"),
        (JETSON, "540.4.0", "open"),
    ],
)
def test_both_wordings_of_the_driver(text: str, version: str, flavour: str) -> None:
    assert nvidia_driver.parse_version(seen(text)).value == Version(version)
    assert nvidia_driver.parse_flavour(seen(text)).value == flavour


def test_a_version_of_a_compiler_is_not_the_drivers() -> None:
    text = seen("NVRM version: none\nGCC version:  gcc version 112.3.0\n")
    assert nvidia_driver.parse_version(text).missing is Missing.NOT_READABLE
    assert not nvidia_driver.parse_flavour(text).is_known


def test_a_module_that_only_sysfs_knows(tmp_path: Path) -> None:
    host = write_host(tmp_path, {"/sys/module/nvidia/version": "535.261.03\n"})
    assert nvidia_driver.read(host).driver.value == Version("535.261.03")
    silent = write_host(tmp_path / "silent", paths={"/sys/module/nvidia": []})
    assert nvidia_driver.read(silent).driver.missing is Missing.NOT_READABLE
    assert nvidia_driver.read(write_host(tmp_path / "none")).driver.is_absent


KERNEL = {"/proc/sys/kernel/osrelease": "6.1.0-41-amd64\n"}
FOLDER = "/lib/modules/6.1.0-41-amd64"


@pytest.mark.parametrize(
    ("listed", "found"),
    [
        (
            "updates/nvidia-uvm.ko.zst: updates/nvidia.ko.zst\nupdates/nvidia.ko.zst:",
            1,
        ),
        ("updates/dkms/nvidia-current-drm.ko:\nupdates/dkms/nvidia-current.ko:", 1),
        ("kernel/nvidia-580srv-open/nvidia.ko:\n", 1),
        (
            "kernel/drivers/platform/x86/nvidia-wmi-ec-backlight.ko:\nkernel/fbdev/nvidia/nvidiafb.ko:",
            0,
        ),
    ],
)
def test_the_module_among_its_siblings(tmp_path: Path, listed: str, found: int) -> None:
    host = write_host(tmp_path, {**KERNEL, f"{FOLDER}/modules.dep": listed})
    path = nvidia_module.find(host)
    assert path.is_known == bool(found)
    assert path.is_absent != bool(found)
    if path.value:
        assert path.value.rpartition("/")[2].partition(".")[0] in ("nvidia", "nvidia-current")


def test_a_container_has_no_list_of_modules(tmp_path: Path) -> None:
    found = nvidia_module.read(write_host(tmp_path, KERNEL))
    assert found.version.missing is Missing.NOT_READABLE


@pytest.mark.real
@pytest.mark.parametrize("signed", [True, False])
def test_an_uncompressed_module_is_read_without_a_program(tmp_path: Path, signed: bool) -> None:
    host = write_host(tmp_path, {**KERNEL, f"{FOLDER}/modules.dep": "updates/dkms/nvidia.ko:\n"})
    fields = r"version=580.95.05\0license=Dual MIT/GPL\0alias=pci:v000010DEd*\0"
    source = f'__attribute__((section(".modinfo"), used)) static const char info[] = "{fields}";'
    module = tmp_path / "files" / FOLDER.lstrip("/") / "updates/dkms/nvidia.ko"
    module.parent.mkdir(parents=True)
    command = ["gcc", "-c", "-x", "c", "-o", str(module), "-"]
    subprocess.run(command, input=source, text=True, check=True)
    if signed:
        with module.open("ab") as file:
            file.write(b"signature~Module signature appended~\n")
    found = nvidia_module.read(host)
    assert (found.version.value, found.flavour.value) == (Version("580.95.05"), "open")
    assert found.signed.value is signed


LOG = """\
[    0.000000] Linux version 6.8.0
[    6.113204] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.95.05
[    6.2] nvidia-uvm: Loaded the UVM driver, major device number 511.
[82733.118201] NVRM: GPU at PCI:0000:0f:00: GPU-6b0c
[82733.118202] NVRM: GPU Board Serial Number: 1650522003820
[82733.118206] NVRM: Xid (PCI:0000:0F:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off
Nov 29 10:00:01 node1 kernel: NVRM: Xid (PCI:0000:18:00.0): 31, pid=1, MMU Fault
[82733.2] nvidia: disagrees about version of symbol module_layout
[82734.0] usb 1-1: Key was rejected by service
"""


def test_the_kernel_log() -> None:
    events, messages = nvidia_kernel_log.parse_log(LOG)
    assert events == (
        XidEvent(79, "0000:0f:00.0", "pid='<unknown>', name=<unknown>, GPU has fallen off"),
        XidEvent(31, "0000:18:00.0", "pid=1, MMU Fault"),
    )
    assert messages == (
        "nvidia: disagrees about version of symbol module_layout",
        "usb 1-1: Key was rejected by service",
    )


def test_a_long_log_keeps_its_end() -> None:
    text = "".join(f"[{n}.1] NVRM: Xid (PCI:0000:18:00): 31, n={n}\n" for n in range(5000))
    events, _ = nvidia_kernel_log.parse_log(text)
    assert len(events) == 100
    assert events[-1].text == "n=4999"


def test_rows_of_nvidia_smi() -> None:
    text = (
        "580.95.05, 00000000:18:00.0, 81559, NVIDIA H100, 80GB\n"
        "580.95.05, [N/A], [N/A], NVIDIA GB10\nNo devices were found\n"
    )
    first, second = nvidia_smi.parse_rows(CommandResult(0, text, "")).known("rows")
    assert (first.pci, first.memory_mib, first.name) == ("0000:18:00.0", 81559, "NVIDIA H100, 80GB")
    assert (second.driver, second.pci, second.memory_mib) == (Version("580.95.05"), None, None)
    failed = nvidia_smi.parse_rows(CommandResult(18, "Failed to initialize NVML: ...\n", ""))
    assert failed.at == "nvidia-smi: exit 18"


@pytest.mark.parametrize(
    ("pci_id", "code", "vendor"),
    [
        ("10DE:2330", "30200", "nvidia"),
        ("10DE:22BA", "40300", ""),  # the sound of a display card
        ("1002:74A1", "120000", "amd"),
        ("19E5:D802", "120000", "ascend"),
        ("19E5:1711", "30000", ""),  # the display of a management controller
        ("8086:E20B", "30000", "intel"),
        ("8086:7D1D", "120000", ""),
        ("CABC:0370", "120000", "cambricon"),
        ("1A03:2000", "30000", ""),
    ],
)
def test_makers_of_accelerators(pci_id: str, code: str, vendor: str) -> None:
    function = pci.parse_uevent("0000:01:00.0", f"PCI_CLASS={code}\nPCI_ID={pci_id}\n")
    assert function is not None
    assert (function.vendor, function.id, function.driver) == (vendor, pci_id.lower(), "")


def test_a_switch_is_no_accelerator(tmp_path: Path) -> None:
    text = "DRIVER=nvidia\nPCI_CLASS=68000\nPCI_ID=10DE:22A3\n"
    bridge = "PCI_CLASS=60400\nPCI_ID=10DE:1AE8\n"
    files = {"0000:05:00.0": text, "0000:06:00.0": bridge, "10000:01:00.0": text}
    host = write_host(tmp_path, {f"{pci.DEVICES}/{a}/uevent": t for a, t in files.items()})
    found = pci.read(host).known("pci")
    assert [function.address for function in found] == ["0000:05:00.0", "10000:01:00.0"]
    assert all(function.is_nvswitch and not function.vendor for function in found)


def test_the_link_of_a_card_without_a_driver(tmp_path: Path) -> None:
    files = {
        "current_link_width": "8\n",
        "max_link_width": "16\n",
        "max_link_speed": "32.0 GT/s PCIe\n",
    }
    folder = f"{pci.DEVICES}/0000:01:00.0"
    host = write_host(tmp_path, {f"{folder}/{name}": text for name, text in files.items()})
    link = pci.read_link(host, "0000:01:00.0").known("link")
    assert (link.width, link.width_max, link.gen, link.gen_max) == (8, 16, None, 5)


PARSERS = (
    lambda text: nvidia_driver.parse_version(seen(text)),
    lambda text: nvidia_driver.parse_flavour(seen(text)),
    lambda text: nvidia_module.parse(seen(text)),
    lambda text: nvidia_smi.parse_rows(CommandResult(0, text, "")),
    lambda text: pci.parse_uevent("0000:01:00.0", text),
    nvidia_kernel_log.parse_log,
    nvidia_libraries.parse_conf,
    nvidia_libraries.parse_version,
    access.parse_identity,
    nvidia_services.parse_stated,
    nvidia_services.parse_upstream,
    nvidia_toolkits.parse_header,
    nvidia_toolkits.parse_version_json,
    nvidia_toolkits.parse_version_text,
)
PIECES = st.sampled_from(
    (
        OPEN,
        CLOSED,
        LOG,
        "PCI_ID=10DE:2330\n",
        "PCI_CLASS=30200\n",
        "Uid:\t1\t1\n",
        "version: 5",
        "{",
    )
)


@given(st.lists(PIECES | st.text(max_size=20), max_size=5).map("".join))
def test_no_text_raises(text: str) -> None:
    for parse in PARSERS:
        parse(text)


def test_ten_megabytes_take_no_time() -> None:
    for text in ("NVRM: " * 1_700_000, "version " + "1" * 10_000_000, "[" * 10_000_000):
        for parse in PARSERS:
            parse(text)
