"""What NVML answered of the driver, all devices and how they are linked, as facts. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

from doctor.facts import UNSTATED, Device, Missing, Reading, TopologyLink, Version, missing, seen
from doctor.probes.nvml_devices import parse_device
from doctor.probes.nvml_values import (
    cuda_version,
    error_code,
    natural,
    pci_address,
    reading,
    records,
    refusal,
    value,
    version,
)

# nvmlGpuTopologyLevel in the words of `nvidia-smi topo -m`; one board counts as one switch.
_ANCESTORS = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
_P2P_WORKS = 0


class NvmlAnswers(NamedTuple):
    """What NVML says. `error`: the code with which it refused, absent if it did not.

    `devices` is missing where NVML did not come as far as listing them.
    """

    error: Reading[int] = UNSTATED
    driver: Reading[Version] = UNSTATED
    cuda: Reading[Version] = UNSTATED
    device_count: Reading[int] = UNSTATED
    persistence: Reading[bool] = UNSTATED
    licensed: Reading[bool] = UNSTATED
    devices: Reading[tuple[Device, ...]] = UNSTATED
    topology: Reading[tuple[TopologyLink, ...]] = UNSTATED


def parse_answers(document: Reading[dict[str, object]]) -> NvmlAnswers:
    """Read the document of `probes.nvml_questions`; what is odd in it is not readable."""
    raw: dict[str, Any] = document.value or {}
    init = natural(raw.get("init"))
    if init is None:
        gone = missing(document.missing or Missing.NOT_READABLE, document.at)
        return NvmlAnswers(gone, gone, gone, gone, gone, gone, gone, gone)
    if init:
        gone = missing(Missing.NOT_READABLE, f"nvmlInit: error {init}")
        return NvmlAnswers(seen(init, "nvmlInit"), gone, gone, gone, gone, gone, gone, gone)
    return _answers(raw, records(raw.get("devices")))


def _answers(raw: dict[str, Any], listed: list[dict[str, Any]]) -> NvmlAnswers:
    count = reading(raw.get("count"), "nvmlDeviceGetCount", natural)
    uncounted = missing(Missing.NOT_READABLE, count.at)
    devices = tuple(part for item in listed for part in parse_device(item))
    return NvmlAnswers(
        error=_first_error(raw, listed),
        driver=reading(raw.get("driver"), "nvmlSystemGetDriverVersion", version),
        cuda=reading(raw.get("cuda"), "nvmlSystemGetCudaDriverVersion", cuda_version),
        device_count=count,
        persistence=_all_say(listed, "persistence", "nvmlDeviceGetPersistenceMode"),
        licensed=_all_say(listed, "licensed", "nvmlDeviceGetGridLicensableFeatures"),
        devices=seen(devices, "NVML") if count.is_known else uncounted,
        topology=seen(_topology(raw, listed), "NVML") if count.is_known else uncounted,
    )


def _first_error(raw: dict[str, Any], listed: list[dict[str, Any]]) -> Reading[int]:
    """The code with which counting or opening a device failed; absent if none did."""
    codes = [error_code(item) for item in (raw.get("count"), *listed)]
    found = next((code for code in codes if code is not None), None)
    return missing(Missing.NOT_THERE, "nvmlInit") if found is None else seen(found, "NVML")


def _all_say(listed: list[dict[str, Any]], key: str, at: str) -> Reading[bool]:
    """True if all devices that answer say yes; missing if none answers."""
    answers = [item[key] for item in listed if isinstance(item.get(key), int)]
    if answers:
        return seen(all(answers), at)
    codes = [code for code in (error_code(item.get(key)) for item in listed) if code]
    return refusal(codes[0], at) if codes else missing(Missing.NOT_STATED, at)


def _topology(raw: dict[str, Any], listed: list[dict[str, Any]]) -> tuple[TopologyLink, ...]:
    links = {natural(item.get("index")): _NvLinks(item) for item in listed}
    found = []
    for pair in records(raw.get("links")):
        first, second = natural(pair.get("a")), natural(pair.get("b"))
        if first in links and second in links and first != second:
            link = links[first].to(links[second]) or value(pair.get("ancestor"), _ANCESTORS.get)
            p2p = value(pair.get("p2p"), lambda status: bool(status == _P2P_WORKS))
            found.append(TopologyLink(f"gpu{first}", f"gpu{second}", link or "", p2p))
    return tuple(found)


class _NvLinks:
    """The NVLinks of one device that are up: to a switch, or to peers by their PCI address."""

    def __init__(self, item: dict[str, Any]) -> None:
        self.address = value(item.get("pci"), lambda pci: pci_address(pci["bus"]))
        self.switch = value(item.get("nvlink"), lambda links: natural(links["switch"])) or 0
        self.peers = value(item.get("nvlink"), _peers) or {}

    def to(self, other: _NvLinks) -> Optional[str]:
        """How many links lead from one to the other ("NV4"), or None."""
        direct = self.peers.get(other.address, 0) or other.peers.get(self.address, 0)
        number = direct or min(self.switch, other.switch)
        return f"NV{number}" if number else None


def _peers(links: Any) -> dict[Optional[str], int]:
    return {pci_address(bus): natural(number) or 0 for bus, number in links["peers"].items()}
