"""Is each device sound: hardware faults, other users of it, limits, its link to the board."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from doctor.facts import Device, DeviceHealth, Missing
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.matrix.catalogue import Xid
from doctor.rules import cards
from doctor.rules.decide import each
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.memory_need import total_gib
from doctor.rules.shared_out import is_shared_out, share_asked_for

# The last two are what a person tells of: a limit beside slow work, clocks that stay low.
_HEAT = ("hw-thermal", "sw-thermal", "hw-slowdown", "hw-power-brake", "reliability", "power-limit",
         "low-clocks")  # fmt: skip
_TOLD = "notes"
_SEVERITY = {"error": Severity.ERROR, "warning": Severity.WARNING, "info": Severity.INFO}
_RESET = Remedy(
    "stop work on the GPU and reset it, or reboot",
    ("sudo nvidia-smi --gpu-reset -i INDEX",),
    risk="running work on it stops",
)
_SERVICE = Remedy("drain the host and have the card tested; keep the log for the vendor")


@rule("DEV111", cause="gpu-unhealthy", severity=Severity.ERROR)
def faults_reported(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A device reports hardware faults.

    What: Xid lines of the kernel log, uncorrected ECC errors, row remapping, and devices
        that the driver lost.
    Why: work on such a device ends in errors that look like software's, or gives wrong
        results.
    How to fix: what the table of Xid numbers advises: restart the application, reset the
        GPU, reboot, or service.
    Silent when: the log was not read, or holds only Xid numbers that an application causes.
    Sources: NVIDIA Xid catalogue and nverror.h (rows in the matrix); GPU memory error
        management guide.
    """
    if case.facts.devices.is_known and not case.nvidia_devices:
        raise NotApplicable("no nvidia device")
    yield from each(
        (lambda: _hangs(case), lambda: _xids(case, matrix), lambda: _health(case, matrix))
    )


def _hangs(case: Case) -> Iterator[Fault]:
    reading = case.facts.nvidia.nvml_devices
    if reading.missing is Missing.TIMED_OUT:
        yield Fault(
            message="the driver does not answer: NVML hung and was given up",
            evidence=(Evidence("NVML: no answer in time", reading.at),),
            remedies=(
                Remedy("read the kernel log, then reboot", ("sudo dmesg | grep -i nvrm",)),
                _SERVICE,
            ),
        )


def _xids(case: Case, matrix: Matrix) -> Iterator[Fault]:
    reading = case.facts.nvidia.xid
    rows: dict[int, tuple[Xid, str]] = {}
    for event in reading.known("nvidia.xid"):
        row = matrix.xid(event.number)
        if row is not None and row.severity != "info" and row.scope != "application":
            rows.setdefault(event.number, (row, event.text or event.pci))
    for number, (row, text) in sorted(rows.items()):
        yield Fault(
            message=f"the kernel log has Xid {number}: {row.meaning}",
            evidence=(Evidence(text[:300], reading.at),),
            remedies=(Remedy(row.advice),),
            sources=tuple(row.source),
            severity=_SEVERITY[row.severity],
        )


def _health(case: Case, matrix: Matrix) -> Iterator[Fault]:
    for device in case.nvidia_devices:
        for what, remedy, severity in _troubles(device.health.known("devices.health")):
            yield Fault(
                message=f"{cards.label(device, matrix)}: {what}",
                evidence=(Evidence(what, device.health.at),),
                remedies=(remedy,),
                sources=("https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/",),
                subject=device.id,
                severity=severity,
            )


def _troubles(health: DeviceHealth) -> Iterator[tuple[str, Remedy, Severity]]:
    if health.remap_failed:
        yield "a memory row could not be remapped", _SERVICE, Severity.ERROR
    if health.remap_pending:
        yield "a row remap waits for a reset", _RESET, Severity.WARNING
    if health.ecc_uncorrected:
        text = f"{health.ecc_uncorrected} uncorrected memory errors since the driver was loaded"
        yield text, _RESET, Severity.ERROR
    if health.nvml_error is not None:
        yield f"the driver lost it (NVML error {health.nvml_error})", _RESET, Severity.ERROR


@rule("DEV151", cause="gpu-busy", severity=Severity.WARNING)
def held_by_another(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Another process holds much of the device's memory, or has it for itself.

    What: compute mode, free memory, and the processes on each device of this target, or other
        work of which somebody tells.
    Why: an engine reserves a share of the whole memory; what others hold is missing then,
        and in exclusive mode a second process gets no context at all.
    How to fix: end the process if it is a left-over, move one of the two, or ask for a
        smaller share.
    Silent when: the target's own process is the only one.
    Sources: NVML, compute mode and processes; CUDA runtime, cudaErrorDevicesUnavailable.
    """
    told = [d for d in case.devices if d.processes.at == _TOLD and d.vendor != "ascend"]
    checks = [
        partial(check, case, matrix, device)
        for device in told or case.need_vendor("nvidia")
        for check in (_exclusive, _taken)
    ]
    yield from each(checks)


def _others(case: Case, device: Device) -> list[str]:
    own = {w.pid for w in case.facts.workloads if case.workload and w.id == case.workload.id}
    found = [p for p in device.processes.known("devices.processes") if p.pid not in own]
    listed = (p for p in found if p.pid)
    shown = [f"{p.name or 'process'} ({p.pid}, {p.memory_mib or '?'} MiB)" for p in listed]
    return [*shown, *(p.name for p in found if not p.pid)]  # of the latter a person tells


def _exclusive(case: Case, matrix: Matrix, device: Device) -> Iterator[Fault]:
    mode = device.compute_mode.known("devices.compute_mode").lower().replace(" ", "_")
    if "prohibited" in mode:
        yield _mode(matrix, device, "no process may use it")
    elif "exclusive" in mode and _others(case, device):
        yield _mode(matrix, device, f"held exclusively by {_others(case, device)[0]}")


def _mode(matrix: Matrix, device: Device, what: str) -> Fault:
    command = f"sudo nvidia-smi -i {device.index or 0} -c DEFAULT"
    name = cards.label(device, matrix)
    return Fault(
        message=f"{name} is in compute mode {device.compute_mode.value}: {what}",
        evidence=(Evidence(f"compute mode {device.compute_mode.value}", device.compute_mode.at),),
        remedies=(Remedy("set the compute mode back to default", (command,)),),
        subject=device.id,
        severity=Severity.ERROR,
    )


def _taken(case: Case, matrix: Matrix, device: Device) -> Iterator[Fault]:
    """A quarter of the memory gone is more than a desktop or a context takes."""
    is_told = device.processes.at == _TOLD
    size = _measured_gib(case) or total_gib(device, matrix)[0] if is_told else None
    others = _others(case, device)
    if is_told and is_shared_out(case, matrix, others):
        return
    if is_told and not device.memory_free_mib.is_known and not _is_figured(device, size):
        yield _held(case, matrix, device, others[0])
        return
    total = round(size * 1024) if size else device.memory_mib.known("devices.memory_mib")
    free = _free(device, total)
    is_ours = case.workload is not None and case.workload.pid is not None
    if not others or is_ours or free >= total * 3 // 4:
        return
    name = cards.label(device, matrix)
    yield Fault(
        message=f"{name} has {free} of {total} MiB free: {', '.join(others[:3])}",
        evidence=(Evidence(f"{free} of {total} MiB free", device.memory_free_mib.at),),
        remedies=(
            Remedy("end the process if it is a left-over", ("nvidia-smi", "sudo kill PID")),
            Remedy("or leave room for it: give the engine a smaller share of the memory"),
        ),
        subject=device.id,
        severity=_severity_of(case, is_told and free < share_asked_for(case, matrix) * total),
    )


def _is_figured(device: Device, size: float | None) -> bool:
    """Somebody tells how much the other work holds, of a device whose size is known."""
    return bool(size) and any(p.memory_mib for p in device.processes.value or ())


def _free(device: Device, total: int) -> int:
    held = sum(p.memory_mib or 0 for p in device.processes.value or ())
    if device.processes.at == _TOLD and held and not device.memory_free_mib.is_known:
        return max(total - held, 0)
    return device.memory_free_mib.known("devices.memory_free_mib")


def _held(case: Case, matrix: Matrix, device: Device, who: str) -> Fault:
    """Other work on the device, of which nobody says how much it holds."""
    return Fault(
        message=f"{cards.label(device, matrix)} is shared with other work: {who}",
        evidence=(Evidence(who, device.processes.at),),
        remedies=(Remedy("see what holds the memory before the start", ("nvidia-smi",)),),
        subject=device.id,
    )


def _measured_gib(case: Case) -> float | None:
    return ((case.workload.measured.value or {}) if case.workload else {}).get("total_gib")


def _severity_of(case: Case, cannot_start: bool) -> Severity | None:
    """Without a target it may be the very work that this host is for."""
    if case.workload is None:
        return Severity.INFO
    return Severity.ERROR if cannot_start else None


@rule("DEV161", cause="gpu-throttled", severity=Severity.WARNING)
def slowed_down(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The device runs slower than it could, for heat or power.

    What: the reasons for reduced clocks that the driver gives now, or heat and limits of power
        at which somebody tells of slow work.
    Why: throughput falls without an error; consumer cards in dense boxes reach their
        thermal limit under steady load.
    How to fix: airflow and dust, the power cables, a higher power limit where the board
        allows it.
    Silent when: clocks are low for idleness or by an application's own setting.
    Sources: NVML, clocks event reasons.
    """
    told = [d for d in case.devices if d.health.at == _TOLD]
    for device in told or case.need_vendor("nvidia"):
        health = device.health.known("devices.health")
        hot = [r for r in health.throttle if r in _HEAT]
        if hot:
            heat = f" at {health.temperature_c} degrees" if health.temperature_c else ""
            yield Fault(
                message=f"{cards.label(device, matrix)} is slowed down ({', '.join(hot)}){heat}",
                evidence=(Evidence(f"clock reasons: {', '.join(hot)}", device.health.at),),
                remedies=(
                    Remedy("look at cooling and power", ("nvidia-smi -q -d PERFORMANCE,POWER",)),
                ),
                subject=device.id,
            )


@rule("DEV171", cause="pcie-degraded", severity=Severity.WARNING)
def narrow_link(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The device's PCIe link is narrower than card and slot can do.

    What: the link's width now against the widest that both ends can do; or a narrow slot, riser
        or cable that somebody tells of.
    Why: loading and traffic between cards slow down by the same factor. A dirty contact,
        a riser or a shared slot is the usual cause.
    How to fix: reseat the card, change riser or slot, look at the firmware's slot setting.
    Silent when: only the generation is lower: idle links rest at a low generation.
    Sources: NVML, current and maximum PCIe link width.
    """
    told = [d for d in case.devices if d.link.at == _TOLD]
    for device in told or case.need_vendor("nvidia"):
        link = device.link.known("devices.link")
        if told and link.gen and link.gen_max and link.gen < link.gen_max:
            yield _slow_link(matrix, device, link.gen)
        if link.width and link.width_max and link.width < link.width_max:
            name = cards.label(device, matrix)
            yield Fault(
                message=f"{name} has {link.width} of {link.width_max} PCIe lanes",
                evidence=(Evidence(f"x{link.width} of x{link.width_max}", device.link.at),),
                remedies=(
                    Remedy(
                        "reseat the card or change riser or slot",
                        (
                            "nvidia-smi --query-gpu=pcie.link.width.current,pcie.link.width.max "
                            "--format=csv",
                        ),
                    ),
                ),
                subject=device.id,
            )


def _slow_link(matrix: Matrix, device: Device, generation: int) -> Fault:
    """A low generation under load, of which a person tells: idle links rest at one."""
    return Fault(
        message=f"the link of {cards.label(device, matrix)} runs at PCIe generation {generation}",
        evidence=(Evidence(f"generation {generation} under load", device.link.at),),
        remedies=(Remedy("look at the firmware's setting of the slot, and at the riser"),),
        subject=device.id,
    )


RULES: tuple[Rule, ...] = (faults_reported, held_by_another, slowed_down, narrow_link)
