"""`amd-smi`: its table, `static` and `list` as text or JSON, and `version`."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import islice
from typing import Any

from doctor.facts import UNSTATED, Device, Facts, RocmFacts, Version, seen
from doctor.probes.tool_text import LIMIT, indented, integer, reading, value_or_none

AT = "amd-smi"
_BANNER = re.compile(r"AMD-?SMI (?:Tool: )?[\d.]{1,20}")
_ROCM = re.compile(r"ROCm version: {0,4}(\d[\d.]{1,20})")
_DRIVER = re.compile(r"amdgpu version: {0,4}(\d[\d.]{1,20})")
_FIRST = re.compile(
    r"^\| ([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d) {1,30}(\S[^|\n]{1,60}?) {0,9}\|",
    re.MULTILINE | re.IGNORECASE,
)
_SECOND = re.compile(
    r"^\| {1,6}(\d{1,3}) [^|\n]{1,60}\|[^|\n]{0,60}? (\d{1,9})/(\d{1,9}) MB {0,4}\|", re.MULTILINE
)
_STATIC = re.compile(r"^GPU: {0,4}(\d{1,3})[ \t]*$", re.MULTILINE)


def looks_like(text: str) -> bool:
    """Tell by the banner, or by the headings of `static`."""
    return _BANNER.search(text) is not None or (
        ("MARKET_NAME" in text or '"market_name"' in text)
        or (_STATIC.search(text) is not None and "BDF: " in text)
    )


def parse(text: str) -> Facts:
    """ROCm, the driver, and one device each."""
    rocm, driver = _ROCM.search(text), _DRIVER.search(text)
    devices, stated = _json(text) if '"market_name"' in text else _text(text)
    driver_text = driver[1] if driver else stated
    return Facts(
        rocm=RocmFacts(
            version=reading(Version.maybe(rocm[1].rstrip(".")) if rocm else None, AT),
            driver=reading(Version.maybe(driver_text), AT),
        ),
        devices=seen(tuple(devices), AT) if devices else UNSTATED,
    )


def _text(text: str) -> tuple[list[Device], str]:
    parts = _STATIC.split(text[:LIMIT], 1024)
    if len(parts) == 1:
        return _table(text), ""
    devices, driver = [], ""
    for number, body in zip(parts[1::2], parts[2::2]):  # noqa: B905 - Python 3.9
        told = {"/".join(path).lower(): value for path, value in indented(_colons(body))}
        devices.append(_device(int(number), told))
        driver = driver or told.get("driver/version", "")
    return devices, driver


def _colons(body: str) -> str:
    """`KEY: value` with the blank before the colon that indented fields have."""
    return re.sub(r"^([ \t]*[A-Z0-9_ ]{1,60}):", r"\1 :", body, flags=re.MULTILINE)


def _table(text: str) -> list[Device]:
    """Two rows a device: address and name, then number and memory."""
    firsts, seconds = islice(_FIRST.finditer(text), 1024), islice(_SECOND.finditer(text), 1024)
    found = []
    for first, second in zip(firsts, seconds):  # noqa: B905 - Python 3.9
        used, total = int(second[2]), int(second[3])
        device = Device(f"gpu{int(second[1])}", "amd", int(second[1]))
        found.append(
            replace(
                device,
                pci=seen(first[1].lower(), AT),
                name=seen(first[2], AT),
                memory_mib=seen(total, AT),
                memory_free_mib=seen(max(total - used, 0), AT),
            )
        )
    return found


def _json(text: str) -> tuple[list[Device], str]:
    start = min((i for i in (text.find("["), text.find("{")) if i >= 0), default=0)
    try:
        rows = json.loads(text[start : text.rfind("]") + 1 or text.rfind("}") + 1])
    except (ValueError, RecursionError):
        return [], ""
    rows = rows.get("gpu_data", [rows]) if isinstance(rows, dict) else rows
    told = [_flat(row, "") for row in rows[:1024] if isinstance(row, dict)]
    driver = next((row["driver/version"] for row in told if "driver/version" in row), "")
    return [_device(integer(row.get("gpu")) or 0, row) for row in told], driver


def _flat(table: dict[str, Any], where: str) -> dict[str, str]:
    """Fields by path, values as text; a `{value, unit}` pair becomes "value unit"."""
    found: dict[str, str] = {}
    for key, value in list(table.items())[:200]:
        path = f"{where}{str(key).lower()}"
        if isinstance(value, dict) and set(value) == {"value", "unit"}:
            found[path] = f"{value['value']} {value['unit']}"
        elif isinstance(value, dict) and where.count("/") < 4:
            found |= _flat(value, f"{path}/")
        elif isinstance(value, (str, int, float)):
            found[path] = str(value)
    return found


def _device(number: int, told: dict[str, str]) -> Device:
    device_id = told.get("asic/device_id", "").lower().removeprefix("0x")
    gfx = value_or_none(told.get("asic/target_graphics_version"))
    bus = value_or_none(told.get("bus/bdf", told.get("bdf")))
    return Device(
        id=f"gpu{number}",
        vendor="amd",
        index=number,
        pci=reading(bus.lower() if bus else None, AT),
        pci_id=reading(f"1002:{device_id}" if device_id else None, AT),
        name=reading(value_or_none(told.get("asic/market_name")), AT),
        gfx=reading(gfx.lower() if gfx else None, AT),
        memory_mib=reading(integer(told.get("vram/size")), AT),
        uuid=reading(value_or_none(told.get("uuid")), AT),
    )
