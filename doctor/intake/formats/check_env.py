"""`python -m sglang.check_env` and `lmdeploy check_env`: names and versions, one a line."""

from __future__ import annotations

import re
from dataclasses import replace

from doctor.facts import (
    UNSTATED,
    ComputeCapability,
    CudaToolkit,
    Device,
    Facts,
    HostFacts,
    Limits,
    NvidiaFacts,
    Package,
    Reading,
    RocmFacts,
    Version,
    seen,
)
from doctor.intake.card_names import vendor_of
from doctor.intake.environment import environment, package
from doctor.intake.stated import driver_version
from doctor.probes.stated_version import version
from doctor.probes.tool_text import fields, integer, reading

AT = "check_env"
_GPU = re.compile(r"^GPU ([\d,]{1,200})( Compute Capability)?: ([^\n]{1,120})$", re.MULTILINE)
_RELEASE = re.compile(r"release \d{1,2}\.\d{1,2}, V([\d.]{3,20})")
_NAME = re.compile(r"[A-Za-z][\w.-]{1,60}")
# Fields that are not distributions.
_OTHERS = frozenset({"python", "numpy-random-seed", "cuda-home", "nvcc", "gcc", "msvc"})


def looks_like(text: str) -> bool:
    """Tell by fields that both tools begin with."""
    return "\nPyTorch: " in text and re.search(r"^Python: \d", text, re.MULTILINE) is not None


def parse(text: str) -> Facts:
    """Devices, driver, toolkit and distributions."""
    told = fields(text)
    release = _RELEASE.search(told.get("NVCC", ""))
    toolkit = CudaToolkit("", Version.maybe(release[1]), nvcc=True) if release else None
    driver = driver_version(told.get("CUDA Driver Version", ""))
    hip = re.search(r"HIP version: (\d{1,3}\.\d{1,3})", told.get("HIPCC", ""))
    files = integer(told.get("ulimit soft"))
    vm = "Hypervisor vendor" in told
    python = told.get("Python", "").split(" ")[0]
    return replace(
        environment(_packages(told), AT, partial=True, python=python),
        host=HostFacts(
            platform=reading("vm" if vm else None, AT),
            limits=Limits(open_files=reading(files, AT)),
        ),
        nvidia=NvidiaFacts(
            driver=reading(driver, AT),
            toolkits=seen((toolkit,), AT, partial=True) if toolkit else UNSTATED,
        ),
        rocm=RocmFacts(version=reading(version(hip[1]) if hip else None, AT)),
        devices=_devices(text),
    )


def _packages(told: dict[str, str]) -> list[Package]:
    """Lines of a name and a version; PyTorch and TorchVision are so called there."""
    found = []
    for key, value in told.items():
        name = package(key, value)
        if _NAME.fullmatch(key) and name.version and name.name not in _OTHERS:
            found.append(name)
    return found


def _devices(text: str) -> Reading[tuple[Device, ...]]:
    """Lines that speak of several devices at once: "GPU 0,1,2: NAME"."""
    found: dict[str, Device] = {}
    for match in list(_GPU.finditer(text))[:256]:
        for number in (int(n[:4]) for n in match[1].split(",") if n):
            name = f"gpu{number}"
            device = found.get(name) or Device(id=name, vendor=vendor_of(match[3]), index=number)
            found[name] = _told(device, match)
    return seen(tuple(found.values()), AT) if found else UNSTATED


def _told(device: Device, match: re.Match[str]) -> Device:
    if not match[2]:
        return replace(device, name=seen(match[3].strip(), AT))
    try:
        capability = ComputeCapability.parse(match[3])
    except ValueError:
        return device
    return replace(device, compute_capability=seen(capability, AT))
