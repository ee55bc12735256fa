"""The table that `nvidia-smi` prints, with the banner of before and since R610."""

from __future__ import annotations

import re
from dataclasses import replace

from doctor.facts import (
    UNSTATED,
    Device,
    DeviceHealth,
    Facts,
    Mig,
    NvidiaFacts,
    Reading,
    Version,
    seen,
)
from doctor.facts.accelerators import DeviceProcess
from doctor.intake.formats import nvidia_values
from doctor.probes.tool_text import integer, lines, reading

AT = "nvidia-smi"
_DRIVER = re.compile(r"\b(?:Driver|KMD) Version: {0,9}([\d.]{3,30})")
_CUDA = re.compile(r"\bCUDA(?: UMD)? Version: {0,9}(\d{1,2}\.\d{1,2})")
_FIRST = re.compile(
    r"\| {1,4}(\d{1,3}) {1,4}(\S[^|]{1,60}?) {1,30}(On|Off|N/A|WDDM|TCC|MCDM) {0,4}\| {0,4}"
    r"([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)[^|]{0,20}\| {0,30}(\S{1,12}) {0,4}\|"
)
_SECOND = re.compile(
    r"\|[^|]{0,60}\| {0,12}(\d{1,8})MiB {0,4}/ {0,8}(\d{1,8})MiB {0,4}\|[^|]{0,12}?"
    r" {1,8}(Default|E\. Process|Prohibited)? {0,4}\|"
)
_TEMPERATURE = re.compile(r"\b(\d{1,3})C\b")
_MIG = re.compile(r"\|[ |]{20,90}(Enabled|Disabled)\*? {0,4}\|")
_INSTANCE = re.compile(
    r"\| {1,6}(\d{1,3}) {1,6}(\d{1,3}) {1,6}\d{1,3} {1,6}(\d{1,3}) {0,4}\| {0,30}"
    r"(\d{1,8})MiB {0,4}/ {0,8}(\d{1,8})MiB"
)
_NO_INSTANCES = "No MIG devices found"
_PROCESS = re.compile(
    r"\| {1,6}(\d{1,3}) {1,8}\S{1,4} {1,8}\S{1,4} {1,12}(\d{1,10}) {1,8}[CGM+]{1,3} {1,4}"
    r"(\S[^|]{0,60}?) {1,40}(?:(\d{1,8})MiB|N/A) {0,4}\|"
)


def looks_like(text: str) -> bool:
    """Tell by the banner, which names the tool and a driver version in one line."""
    return "NVIDIA-SMI " in text and _DRIVER.search(text) is not None


def parse(text: str) -> Facts:
    """Driver, CUDA of the driver, and one device a row."""
    driver, cuda = _DRIVER.search(text), _CUDA.search(text)
    return Facts(
        nvidia=NvidiaFacts(
            driver=reading(Version.maybe(driver[1]) if driver else None, AT),
            cuda_driver_api=reading(Version.maybe(cuda[1]) if cuda else None, AT),
        ),
        devices=_devices(text[text.find("NVIDIA-SMI ") :]),
    )


def _devices(text: str) -> Reading[tuple[Device, ...]]:
    found: dict[str, Device] = {}
    current = ""
    for line in lines(text):
        if not line.startswith("|"):
            continue
        first = _FIRST.match(line)
        if first:
            current = f"gpu{int(first[1])}"
            found[current] = _first_row(first)
        elif current:
            _add_row(found, current, line)
    if _NO_INSTANCES in text:
        found = {name: _without_instances(device) for name, device in found.items()}
    return seen(tuple(found.values()), AT) if found else UNSTATED


def _without_instances(device: Device) -> Device:
    mig = device.mig.value
    if mig is None or not mig.enabled:
        return device
    return replace(device, mig=seen(replace(mig, instances=0), AT))


def _first_row(match: re.Match[str]) -> Device:
    uncorrected = integer(match[5])
    health = None if uncorrected is None else DeviceHealth(ecc_uncorrected=uncorrected)
    return Device(
        id=f"gpu{int(match[1])}",
        vendor="nvidia",
        index=int(match[1]),
        pci=reading(nvidia_values.pci_address(match[4]), AT),
        name=seen(match[2], AT),
        health=reading(health, AT),
    )


def _add_row(found: dict[str, Device], current: str, line: str) -> None:
    """Add what a row below the first says of its device, of an instance or of a process."""
    device = found[current]
    second, mig = _SECOND.match(line), _MIG.fullmatch(line)
    instance, process = _INSTANCE.match(line), _PROCESS.match(line)
    if instance:
        _add_instance(found, instance)
    elif process:
        _add_process(found, process)
    elif second:
        found[current] = _second_row(device, second, line)
    elif mig:
        found[current] = replace(device, mig=seen(Mig(enabled=mig[1] == "Enabled"), AT))


def _second_row(device: Device, match: re.Match[str], line: str) -> Device:
    used, total = int(match[1]), int(match[2])
    temperature = _TEMPERATURE.search(line)
    health = device.health.value or DeviceHealth()
    if temperature:
        health = replace(health, temperature_c=int(temperature[1]))
    return replace(
        device,
        memory_mib=seen(total, AT),
        memory_free_mib=seen(max(total - used, 0), AT),
        health=seen(health, AT),
        compute_mode=reading(nvidia_values.compute_mode(match[3]), AT),
    )


def _add_instance(found: dict[str, Device], match: re.Match[str]) -> None:
    parent = f"gpu{int(match[1])}"
    used, total = int(match[4]), int(match[5])
    instance = Device(
        id=f"{parent}/mig{int(match[3])}",
        vendor="nvidia",
        index=int(match[3]),
        memory_mib=seen(total, AT),
        memory_free_mib=seen(max(total - used, 0), AT),
        mig=seen(Mig(enabled=True, parent=parent), AT),
    )
    if parent in found:
        found[instance.id] = replace(instance, name=found[parent].name)


def _add_process(found: dict[str, Device], match: re.Match[str]) -> None:
    device = found.get(f"gpu{int(match[1])}")
    if device is None:
        return
    memory = int(match[4]) if match[4] else None
    process = DeviceProcess(int(match[2]), memory, match[3])
    listed = (*(device.processes.value or ()), process)
    found[device.id] = replace(device, processes=seen(listed, AT))
