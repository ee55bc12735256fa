"""What DCMI answered of the driver and its NPUs, as facts. Pure.

A function that a chip does not support is absent. Memory is not: what is not told of it
stays unknown.
"""

from __future__ import annotations

from typing import Any, Optional

from doctor.facts import AscendFacts, Device, DeviceHealth, Facts, Missing, Reading, missing, seen
from doctor.facts.accelerators import DeviceProcess
from doctor.probes.dcmi import AT
from doctor.probes.dcmi_questions import error_of
from doctor.probes.npu_smi import driver_version
from doctor.probes.nvml_values import natural, records

_HEALTH = {0: "OK", 1: "Warning", 2: "Alarm", 3: "Critical"}
_COMPATIBILITY = {1: "OK", 2: "NOK", 3: "UNKNOWN"}
_REASONS = {
    -8002: Missing.NOT_PERMITTED,
    -8006: Missing.TIMED_OUT,
    -8255: Missing.NOT_THERE,
}
_LARGEST_MIB = 1 << 30


def parse(document: Reading[dict[str, object]]) -> Facts:
    """Driver, pairing and devices; without an answer, why there is none.

    `ascend.dcmi_error` is absent where DCMI started, else the code with which it refused.
    """
    raw: dict[str, Any] = document.value or {}
    code = raw.get("init")
    if not isinstance(code, int) or isinstance(code, bool):
        # No library is no answer: absent is what stands for DCMI that started.
        late = document.missing is Missing.TIMED_OUT
        gone = missing(Missing.TIMED_OUT if late else Missing.NOT_READABLE, document.at or AT)
        return Facts(ascend=AscendFacts(dcmi_error=gone), devices=gone)
    if code:
        gone = missing(Missing.NOT_READABLE, f"dcmi_init: ret is {code}")
        return Facts(ascend=AscendFacts(dcmi_error=seen(code, "dcmi_init")), devices=gone)
    listed = records(raw.get("devices"))
    devices = tuple(_device(item, place) for place, item in enumerate(listed))
    uncounted = natural(raw.get("count")) is None
    ascend = AscendFacts(
        driver=_driver(raw.get("driver")),
        dcmi_error=missing(Missing.NOT_THERE, "dcmi_init"),
        compatibility=_pairing(listed),
        soc=next((d.soc for d in devices if d.soc.is_known), missing(Missing.NOT_STATED, AT)),
    )
    unread = _refusal(raw.get("count"), "dcmi_get_card_list")
    return Facts(ascend=ascend, devices=unread if uncounted else seen(devices, AT))


def _driver(answer: Any) -> Reading[Any]:
    at = "dcmi_get_driver_version"
    found = driver_version(answer) if isinstance(answer, str) else None
    return seen(found, at) if found is not None else _refusal(answer, at)


def _pairing(listed: list[dict[str, Any]]) -> Reading[str]:
    """The driver's own verdict on its firmware: the worst of all devices."""
    at = "dcmi_get_device_compatibility"
    codes = [item.get("compatibility") for item in listed]
    known = [code for code in codes if isinstance(code, int) and code in _COMPATIBILITY]
    if not known:
        return _refusal(codes[0] if codes else None, at)
    return seen(_COMPATIBILITY[2 if 2 in known else max(known)], at)


def _refusal(answer: Any, at: str) -> Reading[Any]:
    code = error_of(answer)
    if code is None:
        return missing(Missing.NOT_READABLE, at)
    return missing(_REASONS.get(code, Missing.NOT_READABLE), f"{at}: ret is {code}")


def _device(raw: dict[str, Any], place: int) -> Device:
    logic = natural(raw.get("logic"))
    number = place if logic is None else logic
    chip, bus = _table(raw.get("chip")), _table(raw.get("pci"))
    size, free = _memory(raw)
    name = _name(chip)
    at = f"{AT} device {number}"
    return Device(
        id=f"npu{number}",
        vendor="ascend",
        index=number,
        pci=_text(bus.get("address"), raw.get("pci"), at),
        pci_id=_text(bus.get("id"), raw.get("pci"), at),
        subsystem=_text(bus.get("subsystem"), raw.get("pci"), at),
        name=_text(name, raw.get("chip"), at),
        soc=_text(_soc(chip), raw.get("chip"), at),
        memory_mib=_size(size, at),
        memory_free_mib=_size(free, at),
        health=_health(raw, at),
        processes=_processes(raw.get("processes"), at),
    )


def _table(answer: Any) -> dict[str, Any]:
    return answer if isinstance(answer, dict) and "error" not in answer else {}


def _text(value: Any, answer: Any, at: str) -> Reading[str]:
    plain = isinstance(value, str) and value.isprintable() and value.strip()
    return seen(value[:100], at) if plain else _refusal(answer, at)


def _name(chip: dict[str, Any]) -> str:
    """As npu-smi prints it: without the kind, where the library gives that apart."""
    name = chip.get("name")
    return name.strip() if isinstance(name, str) else ""


def _soc(chip: dict[str, Any]) -> Optional[str]:
    """What the toolkit calls a chip: Ascend910B3, Ascend310P3, Ascend910_9391.

    Chips of two dies have a name of the NPU, which stands behind that of the family.
    """
    name, npu = _name(chip), str(chip.get("npu") or "").strip()
    if not name:
        return None
    family = name if name.startswith("Ascend") else f"Ascend{name}"
    return f"{family}_{npu}" if npu and "_" not in family else family


def _memory(raw: dict[str, Any]) -> tuple[Optional[int], Optional[int]]:
    """Size and free part in MiB: that of the stacked memory, else of the card's."""
    stacked, plain = _table(raw.get("hbm")), _table(raw.get("memory"))
    size, used = natural(stacked.get("size")), natural(stacked.get("used"))
    if size:
        return size, None if used is None else max(size - used, 0)
    return natural(plain.get("size")) or None, natural(plain.get("available"))


def _size(value: Optional[int], at: str) -> Reading[int]:
    if value is None or value > _LARGEST_MIB:
        return missing(Missing.NOT_READABLE, f"{at} memory")
    return seen(value, f"{at} memory")


def _health(raw: dict[str, Any], at: str) -> Reading[DeviceHealth]:
    code, celsius = raw.get("health"), natural(raw.get("temperature"))
    word = _HEALTH.get(code) if isinstance(code, int) else None
    if word is None and celsius is None:
        return _refusal(code, at)
    return seen(DeviceHealth(temperature_c=celsius, status=word or "UNKNOWN"), at)


def _processes(answer: Any, at: str) -> Reading[tuple[DeviceProcess, ...]]:
    if not isinstance(answer, list):
        return _refusal(answer, at)
    found = ((natural(row.get("pid")), natural(row.get("memory"))) for row in records(answer))
    return seen(tuple(DeviceProcess(p, None if m is None else m >> 20) for p, m in found if p), at)
