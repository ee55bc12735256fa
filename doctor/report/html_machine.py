"""The machine behind the judgement: devices with their memory, environments."""

from __future__ import annotations

from doctor.facts import Device, Facts, Scope
from doctor.report.html_page import esc

_DEVICES_SHOWN, _SCOPES_SHOWN = 64, 40
_MIB = 1024


def devices(facts: Facts) -> str:
    """A card with each device's memory as a bar; "" if none is known."""
    listed = (facts.devices.value or ())[:_DEVICES_SHOWN]
    if not listed:
        return ""
    rows = "".join(_device(device) for device in listed)
    return f'<section class="card"><h2>Devices</h2><div class="memory">{rows}</div></section>'


def _device(device: Device) -> str:
    name = device.name.value or device.pci_id.value or device.vendor
    text = f"<span><b>{esc(device.id)}</b> {esc(name)}</span>"
    head = f'<div class="head">{text}<span>{_memory(device)}</span></div>'
    return f'<div class="row">{head}{_bar(device)}{_details(device)}</div>'


def _details(device: Device) -> str:
    capability = device.compute_capability.value
    link = device.link.value
    parts = [f"compute capability {capability}"] if capability else []
    parts += [str(v) for v in (device.gfx.value, device.soc.value) if v]
    if link and link.gen and link.width:
        parts.append(f"PCIe {link.gen} x{link.width}")
    health = device.health.value
    if health and health.temperature_c is not None:
        parts.append(f"{health.temperature_c} °C")
    return f'<p class="note">{esc(", ".join(parts))}</p>' if parts else ""


def _memory(device: Device) -> str:
    total, free = device.memory_mib.value, device.memory_free_mib.value
    if not total:
        return "memory not known"
    if free is None:
        return f"{total / _MIB:.1f} GiB; how much is free is not known"
    return f"{(total - free) / _MIB:.1f} of {total / _MIB:.1f} GiB in use"


def _bar(device: Device) -> str:
    """Used memory; the words beside it say the same."""
    total, free = device.memory_mib.value, device.memory_free_mib.value
    if not total or free is None:
        return ""
    used = max(0.0, min(100.0, 100 * (total - free) / total))
    return (
        '<svg class="bar" aria-hidden="true"><rect class="used" width='
        f'"{used:.1f}%" height="100%"/></svg>'
    )


def environments(facts: Facts) -> str:
    """A card with the worlds of libraries: Python, torch and what it was built for."""
    listed = [s for s in facts.scopes if s.python.is_known or s.torch.is_known][:_SCOPES_SHOWN]
    if not listed:
        return ""
    rows = "".join(_scope(scope) for scope in listed)
    head = "<tr><th>Environment</th><th>Python</th><th>torch</th><th>built for</th></tr>"
    table = f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>"
    return (
        f'<section class="card"><h2>Environments</h2>{scrolling("Environments", table)}</section>'
    )


def scrolling(label: str, inside: str, kind: str = "scroll") -> str:
    """A box that scrolls, by keyboard too."""
    return f'<div class="{kind}" tabindex="0" role="region" aria-label="{label}">{inside}</div>'


def _scope(scope: Scope) -> str:
    python, torch = scope.python.value, scope.torch.value
    built = ""
    if torch:
        built = f"CUDA {torch.cuda.value}" if torch.cuda.is_known else ""
        built = built or (f"HIP {torch.hip.value}" if torch.hip.is_known else "")
        built = built or ("CPU" if torch.cuda.is_absent else "not known")
    cells = (python.version if python else "", torch.version if torch else "", built)
    texts = "".join(f"<td>{esc(cell)}</td>" for cell in cells)
    return f'<tr><th scope="row">{esc(scope.id)}</th>{texts}</tr>'
