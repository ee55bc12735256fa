"""What was observed at each rung, in a few words: the ladder that every report begins with."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from doctor.facts import Device, Facts, Reading, Scope, Version
from doctor.facts.engines import ENGINE_ORDER, carriers
from doctor.findings import Diagnosis, Finding, Rung


@dataclass(frozen=True)
class Step:
    """One rung: its state ("ok", "error", "warning", "info", "-") and what was observed."""

    rung: Rung
    state: str
    observed: str


def ladder(facts: Facts, diagnosis: Diagnosis) -> tuple[Step, ...]:
    """The rungs of which something was observed or found, from the bottom up."""
    worst = _worst(diagnosis)
    steps = []
    for rung in Rung:
        finding = worst.get(rung)
        # Where nothing was observed, what was found says why the rung is there.
        observed = _OBSERVED.get(rung, _nothing)(facts) or (finding.cause if finding else "")
        if observed:
            state = finding.severity.value if finding else "ok"
            steps.append(Step(rung, state if diagnosis.targets else "-", observed))
    return tuple(steps)


def _worst(diagnosis: Diagnosis) -> dict[Rung, Finding]:
    """The first finding of the highest severity on each rung."""
    worst: dict[Rung, Finding] = {}
    for target in diagnosis.targets:
        for finding in target.findings:
            known = worst.get(finding.rung)
            if known is None or finding.severity.weight > known.severity.weight:
                worst[finding.rung] = finding
    return worst


def _nothing(_facts: Facts) -> str:
    return ""


def os_in_words(facts: Facts) -> str:
    """The system and its version, such as "ubuntu 22.04"; "" if it is not known."""
    os = facts.host.os.value
    return f"{os.id} {os.version}".strip() if os else ""


def _host(facts: Facts) -> str:
    host = facts.host
    libc = host.libc.value
    parts = [
        os_in_words(facts),
        f"kernel {host.kernel.value}" if host.kernel.is_known else "",
        host.arch.value or "",
        f"{libc.kind} {libc.version or ''}".strip() if libc else "",
        host.platform.value if host.platform.value != "bare" and host.platform.value else "",
        f"{(host.memory_mib.value or 0) / 1024:.0f} GiB RAM" if host.memory_mib.is_known else "",
    ]
    return ", ".join(part for part in parts if part)


def _driver(facts: Facts) -> str:
    nvidia = facts.nvidia
    parts = []
    if nvidia.driver.is_known:
        parts.append(f"NVIDIA {nvidia.driver.value}")
        parts += [f"{nvidia.module_flavour.value} module"] if nvidia.module_flavour.value else []
    elif facts.host.l4t.is_known:
        parts.append(f"L4T {facts.host.l4t.value}")
    elif nvidia.driver.is_absent and (_has(facts, "nvidia") or nvidia.nvml_error.is_known):
        parts.append("no NVIDIA kernel module loaded")
    parts += [f"CUDA {nvidia.cuda_driver_api.value}"] if nvidia.cuda_driver_api.is_known else []
    parts += [f"Ascend {facts.ascend.driver.value}"] if facts.ascend.driver.is_known else []
    parts += [f"ROCm {facts.rocm.version.value}"] if facts.rocm.version.is_known else []
    return ", ".join(parts)


def _has(facts: Facts, vendor: str) -> bool:
    return any(device.vendor == vendor for device in facts.devices.value or ())


def devices_in_words(facts: Facts, with_details: bool = True) -> str:
    """Equal devices counted: "8 x NVIDIA H200 (compute 9.0, 140 GiB)"; "" if none is known of."""
    if facts.devices.is_known and not facts.devices.value:
        return "no accelerator"
    names = Counter(_device_name(d, with_details) for d in facts.devices.value or ())
    return ", ".join(f"{n} x {name}" if n > 1 else name for name, n in names.items())


def _device_name(device: Device, with_details: bool) -> str:
    name = device.name.value or f"{device.vendor} {device.pci_id.value or 'device'}"
    if not with_details:
        return name
    capability = device.compute_capability.value
    code = f"compute {capability}" if capability else device.gfx.value or device.soc.value
    memory = device.memory_mib.value
    extra = [code] if code and code not in name else []
    extra += [f"{memory / 1024:.0f} GiB"] if memory else []
    return f"{name} ({', '.join(extra)})" if extra else name


def _cuda(facts: Facts) -> str:
    found = [f"toolkit {t.version}" for t in facts.nvidia.toolkits.value or () if t.version]
    for scope in facts.scopes:
        if scope.torch.value and scope.torch.value.cuda.is_known:
            found.append(f"torch built for {scope.torch.value.cuda.value}")
    found += [f"CANN {facts.ascend.cann.value}"] if facts.ascend.cann.is_known else []
    return ", ".join(dict.fromkeys(found))


def _container(facts: Facts) -> str:
    engine = facts.container_engine.value
    if engine is None:
        return ""
    version = _text(engine.version)
    runtimes = ", ".join(engine.runtimes.value or ())
    return " ".join(p for p in (engine.name, version, f"({runtimes})" if runtimes else "") if p)


def _python(facts: Facts) -> str:
    found = []
    for scope in facts.scopes:
        if scope.python.value:
            found.append(f"{scope.python.value.version} ({scope.id})")
    return ", ".join(found[:3]) + (f", {len(found) - 3} more" if len(found) > 3 else "")


def _framework(facts: Facts) -> str:
    found = [f"torch {s.torch.value.version}" for s in facts.scopes if s.torch.value]
    return ", ".join(dict.fromkeys(found))


def engines_in_words(facts: Facts) -> str:
    """The engines that run or are wanted, with their versions."""
    found = [f"{w.engine} {_text(w.version)}".strip() for w in facts.workloads]
    found = found or [text for scope in facts.scopes for text in _installed(scope)]
    return ", ".join(dict.fromkeys(found))


def _installed(scope: Scope) -> list[str]:
    """Engines among the distributions of a scope; frameworks have a rung of their own."""
    packages = [scope.package(*carriers(name)) for name in ENGINE_ORDER if "torch" not in name]
    return [f"{p.name} {p.version or ''}".strip() for p in packages if p is not None]


def _text(reading: Reading[Version]) -> str:
    return str(reading.value) if reading.is_known else ""


_OBSERVED = {
    Rung.HOST: _host,
    Rung.DRIVER: _driver,
    Rung.DEVICE: devices_in_words,
    Rung.CUDA: _cuda,
    Rung.CONTAINER: _container,
    Rung.PYTHON: _python,
    Rung.FRAMEWORK: _framework,
    Rung.ENGINE: engines_in_words,
}
