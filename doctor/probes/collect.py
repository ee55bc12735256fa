"""All probes in order, and the facts that they fill. One that fails never stops the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from doctor.facts import (
    UNSTATED,
    AscendFacts,
    CambriconFacts,
    FabricManager,
    Facts,
    HostFacts,
    Missing,
    NvidiaFacts,
    Reading,
    RocmFacts,
    Scope,
    missing,
    seen,
)
from doctor.probes import (
    containers,
    cpu,
    kernel,
    limits,
    memory,
    nvidia,
    packages,
    platform,
    ports,
    processes,
    scopes,
    system,
    tools,
)
from doctor.probes.host import Host


def _silently(_: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class Options:
    """What a person asked to be looked at: `pythons` are executables or environment folders.

    `say` is told of work that takes a while.
    """

    pythons: tuple[str, ...] = ()
    say: Callable[[str], None] = _silently


Step = Callable[[Host, Options, Facts], Facts]


@dataclass(frozen=True)
class Probe:
    """One probe: `read` adds to the facts, `fills` names them ("host.cpu", "devices").

    `adds` are fields of records in lists ("devices.gfx"). Later probes may use what earlier
    ones found.
    """

    name: str
    read: Step
    fills: tuple[str, ...]
    adds: tuple[str, ...] = ()


def _of_host(read: Callable[[Host, HostFacts], HostFacts]) -> Step:
    def step(host: Host, _: Options, facts: Facts) -> Facts:
        return replace(facts, host=read(host, facts.host))

    return step


def _containers(host: Host, _: Options, facts: Facts) -> Facts:
    return replace(facts, container_engine=containers.read(host))


def _nvidia(host: Host, _: Options, facts: Facts) -> Facts:
    found = nvidia.read(host, host.environ(), facts.host)
    return replace(facts, nvidia=found.nvidia, devices=found.devices, topology=found.topology)


def _ascend(host: Host, _: Options, facts: Facts) -> Facts:
    if not _has(host, facts, "ascend", ("/dev/davinci_manager", "/usr/local/Ascend")):
        return facts
    from doctor.probes import ascend

    return ascend.read(host, facts)


def _rocm(host: Host, _: Options, facts: Facts) -> Facts:
    if not _has(host, facts, "amd", ("/dev/kfd", "/opt/rocm")):
        return facts
    from doctor.probes import rocm

    return rocm.read(host, facts)


def _others(host: Host, _: Options, facts: Facts) -> Facts:
    if not any(_has(host, facts, maker) for maker in ("intel", "cambricon")):
        return facts
    from doctor.probes import other_accelerators

    return other_accelerators.read(host, facts)


def _apple(host: Host, _: Options, facts: Facts) -> Facts:
    if not facts.host.os.is_absent:
        return facts
    from doctor.probes import apple

    return apple.read(host, facts) if host.stat(apple.VERSION).is_known else facts


def _has(host: Host, facts: Facts, vendor: str, signs: tuple[str, ...] = ()) -> bool:
    """Whether a device of that maker is on the bus, or one of the paths is there.

    What a maker's probe needs is loaded only then: most hosts have devices of one.
    """
    on_bus = any(device.vendor == vendor for device in facts.devices.value or ())
    return on_bus or any(host.stat(path).is_known for path in signs)


def _worlds(host: Host, options: Options, facts: Facts) -> Facts:
    """Environments and running engines, which name environments of their own."""
    running = processes.read(host).value or ()
    pythons = tuple(process.python for process in running if process.python)
    found = scopes.read(host, options.pythons, pythons, facts.host.packages.value or ())
    facts = replace(facts, scopes=(_host_scope(host, facts, found), *found))
    if not running:
        return facts
    from doctor.probes import workloads

    work, boxes = workloads.read(host, running, found)
    return replace(facts, scopes=(*facts.scopes, *boxes), workloads=work)


def _libraries(host: Host, options: Options, facts: Facts) -> Facts:
    """What the libraries of the environments hold and need."""
    from doctor.probes import libraries

    return replace(facts, scopes=libraries.read_all(host, facts, options.say))


def _host_scope(host: Host, facts: Facts, found: tuple[Scope, ...]) -> Scope:
    """The host as a scope: its environment variables, and the Python of the system."""
    private = ("HOME", "PWD")
    env = {name: value for name, value in host.environ().items() if name not in private}
    usual = [s for s in found if s.kind == "system"]
    libc = facts.host.libc
    version = libc.value.version if libc.value else None
    return Scope(
        id="host",
        kind="host",
        root="/",
        env=seen(env, "environment"),
        shm_mib=facts.host.shm_mib,
        libc=seen(version, libc.at) if version else missing(Missing.NOT_STATED, libc.at),
        python=usual[0].python if usual else UNSTATED,
    )


def _all(prefix: str, record: object, *but: str) -> tuple[str, ...]:
    return tuple(f"{prefix}.{name}" for name in vars(record) if name not in but)


def _each(record: str, fields: str) -> tuple[str, ...]:
    return tuple(f"{record}.{name}" for name in fields.split())


_ON_BUS = "pci pci_id subsystem pci_driver name memory_mib link"

PROBES = (
    Probe(
        "system",
        _of_host(system.read),
        _each("host", "os kernel arch libc libstdcxx init boot"),
    ),
    Probe("cpu", _of_host(cpu.read), _each("host.cpu", "model flags count")),
    Probe(
        "memory",
        _of_host(memory.read),
        _each("host", "memory_mib memory_available_mib swap_mib shm_mib disk_free"),
    ),
    Probe("limits", _of_host(limits.read), _each("host.limits", "open_files locked_memory_kib")),
    Probe(
        "packages",
        _of_host(packages.read),
        _each("host", "packages held_packages automatic_upgrades"),
    ),
    Probe(
        "kernel",
        _of_host(kernel.read),
        _each("host", "modules kernel_headers dkms secure_boot iommu"),
    ),
    Probe("platform", _of_host(platform.read), _each("host", "platform l4t jetpack")),
    Probe("ports", _of_host(ports.read), ("host.listening_ports",)),
    Probe("tools", _of_host(tools.read), ("host.absent",)),
    Probe(
        "nvidia",
        _nvidia,
        (
            *_all("nvidia", NvidiaFacts(), "fabric_manager"),
            *_all("nvidia.fabric_manager", FabricManager()),
            "devices",
            "topology",
        ),
        _each("devices", f"{_ON_BUS} memory_free_mib compute_capability mig health processes")
        + _each("devices", "virtual compute_mode uuid brand fabric gsp"),
    ),
    Probe(
        "ascend",
        _ascend,
        _all("ascend", AscendFacts()),
        _each("devices", f"{_ON_BUS} memory_free_mib soc health processes"),
    ),
    Probe(
        "rocm",
        _rocm,
        _all("rocm", RocmFacts()),
        _each("devices", f"{_ON_BUS} memory_free_mib gfx"),
    ),
    Probe(
        "others",
        _others,
        _all("cambricon", CambriconFacts()),
        _each("devices", f"{_ON_BUS} memory_free_mib health processes"),
    ),
    Probe("apple", _apple, (), _each("devices", "name memory_mib")),
    Probe(
        "containers",
        _containers,
        ("container_engine",),
        _each("container_engine", "version runtimes default_runtime context rootless")
        + _each("container_engine", "cgroup_driver cdi cdi_driver config"),
    ),
    Probe(
        "worlds",
        _worlds,
        (),
        _each(
            "scopes", "python packages torch env shm_mib absent libc devices_visible image mounts"
        )
        + _each("workloads", "engine version args env model limits libraries"),
    ),
    Probe("libraries", _libraries, (), ("scopes.binaries", "scopes.libcuda")),
)


def collect(host: Host, options: Options = Options(), probes: tuple[Probe, ...] = PROBES) -> Facts:
    """Ask a host everything. Never raises for what the host is like."""
    facts = Facts()
    for probe in probes:
        try:
            facts = probe.read(host, options, facts)
        except Exception as bug:  # one broken probe must not take the others' facts away
            facts = _failed(facts, probe, bug)
    return facts


def _failed(facts: Facts, probe: Probe, bug: Exception) -> Facts:
    note = f"probe {probe.name} failed: {bug!r}"[:500]
    for path in probe.fills:
        facts = _without(facts, path.split("."), missing(Missing.NOT_READABLE, note))
    return replace(facts, notes=(*facts.notes, note))


def _without(record: Any, path: list[str], reason: Reading[Any]) -> Any:
    """The record with the named field missing for that reason."""
    name, *rest = path
    value = _without(getattr(record, name), rest, reason) if rest else reason
    return replace(record, **{name: value})
