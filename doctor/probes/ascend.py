"""Huawei Ascend devices and what runs them: files, DCMI, npu-smi and the bus put together.

DCMI and npu-smi are asked only where the driver is loaded or has made its nodes, npu-smi not
where DCMI hung, and not again once it did not answer in time. What they say differently is
noted: DCMI counts, npu-smi fills what it left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Optional

from doctor.facts import AscendFacts, Device, Facts, Missing, Reading, missing, seen
from doctor.probes import (
    ascend_files,
    dcmi_answers,
    files,
    npu_smi,
    npu_smi_board,
    npu_smi_failure,
    pci,
)
from doctor.probes.host import CommandResult, Host

_ASK_S, _ASK_DEVICE_S = 10.0, 1.0
_TOOL = "npu-smi"
_UNLOADABLE = "error while loading shared libraries"


def read(host: Host, facts: Facts) -> Facts:
    """Fill `ascend`, and what is known of each Ascend device."""
    told = ascend_files.read(host, host.environ(), facts.host)
    found = [d for d in facts.devices.value or () if d.vendor == "ascend"]
    driver, tool = _ask(host, _is_at_work(told, facts), len(found))
    notes = tuple(_differences(told, driver, tool))
    ascend = _completed(_completed(told, driver.ascend), _second(tool, driver.ascend))
    facts = replace(facts, notes=(*facts.notes, *notes))
    listed = _joined(driver.devices, tool.devices)
    if not found and not listed.value:
        return replace(facts, ascend=ascend)
    others = [d for d in facts.devices.value or () if d.vendor != "ascend"]
    merged = _merged(host, found, listed)
    if merged and merged[0].soc.is_known:
        ascend = replace(ascend, soc=merged[0].soc)
    devices = seen((*others, *merged), facts.devices.at or listed.at)
    return replace(facts, ascend=ascend, devices=devices)


def _is_at_work(ascend: AscendFacts, facts: Facts) -> bool:
    has_nodes = bool(ascend.nodes.value) or ascend.nodes.missing is Missing.NOT_PERMITTED
    return has_nodes or ascend_files.is_loaded(facts.host)


def _ask(host: Host, at_work: bool, devices: int) -> tuple[Facts, Facts]:
    """What DCMI says, and what npu-smi says."""
    if not at_work:
        return _silent("not asked: no NPU driver is loaded")
    timeout_s = _ASK_S + _ASK_DEVICE_S * devices
    folders = ascend_files.libraries(host)
    driver = dcmi_answers.parse(host.dcmi(folders, timeout_s))
    if driver.devices.missing is Missing.TIMED_OUT:
        return driver, _silent("not asked: DCMI hangs")[1]
    return driver, _Asked(host, timeout_s).read(folders)


def _silent(why: str) -> tuple[Facts, Facts]:
    gone = missing(Missing.NOT_STATED, why)
    driver = Facts(ascend=AscendFacts(dcmi_error=gone), devices=gone)
    return driver, Facts(ascend=AscendFacts(smi_error=gone), devices=gone)


def _second(tool: Facts, driver: AscendFacts) -> AscendFacts:
    """What npu-smi adds; where it is not installed, DCMI's refusal stands for its own."""
    devices, ascend = tool.devices, tool.ascend
    count = files.relay(devices) if devices.value is None else seen(len(devices.value), devices.at)
    refusal = driver.dcmi_error
    if ascend.smi_error.is_absent and devices.value is None and refusal.value is not None:
        said = f"{refusal.at}: ret is {refusal.value}"
        ascend = replace(ascend, smi_error=seen(said, refusal.at))
    return replace(ascend, smi_driver=ascend.driver, smi_devices=count)


def _differences(told: AscendFacts, driver: Facts, tool: Facts) -> Iterator[str]:
    """What the sources say differently: after an upgrade without a reboot, or of a lost NPU."""
    versions = [r for r in (told.driver, driver.ascend.driver, tool.ascend.driver) if r.value]
    texts = dict.fromkeys(f"{r.value} ({r.at})" for r in versions)
    first = versions[0].value if versions else None
    if first is not None and any(first.same_as(r.value) is False for r in versions[1:] if r.value):
        yield f"ascend.driver is {' or '.join(texts)}: took the first"
    counts = [(len(f.devices.value), f.devices.at) for f in (driver, tool) if f.devices.value]
    if len({count for count, _ in counts}) > 1:
        said = " or ".join(f"{count} ({at})" for count, at in counts)
        yield f"the number of NPUs is {said}: took the first"


def _joined(
    first: Reading[tuple[Device, ...]], second: Reading[tuple[Device, ...]]
) -> Reading[tuple[Device, ...]]:
    """DCMI's devices with what only npu-smi knows of them; npu-smi's where DCMI lists none."""
    if not first.value:
        return second if second.value or not first.is_known else first
    told = {device.id: device for device in second.value or ()}
    return seen(tuple(_filled(d, told.get(d.id)) for d in first.value), first.at)


def _filled(device: Device, other: Optional[Device]) -> Device:
    """The device with what another reader adds, unless that one speaks of another place."""
    if other is None or (other.pci.value or device.pci.value) != (
        device.pci.value or other.pci.value
    ):
        return device
    unread = (n for n, v in vars(device).items() if isinstance(v, Reading) and not v.is_known)
    return replace(device, **{n: getattr(other, n) for n in unread if getattr(other, n).is_known})


class _Asked:
    """npu-smi with a deadline for each question; silent after the first that was late."""

    def __init__(self, host: Host, timeout_s: float) -> None:
        self._host = host
        self._timeout_s = timeout_s
        self._prefix: tuple[str, ...] = ()
        self._path = ""

    def read(self, folders: tuple[str, ...]) -> Facts:
        """Table and boards, or why there are none; `folders` hold the driver's libraries."""
        self._path = ":".join(folders)
        answer = self._ask("info")
        if answer.value is None:
            reason = missing(answer.missing or Missing.NOT_READABLE, answer.at)
            return Facts(ascend=AscendFacts(smi_error=reason), devices=reason)
        text = answer.value.stdout
        facts = npu_smi.parse(text)
        if not facts.devices.value:
            return npu_smi_failure.parse(f"{text}\n{answer.value.stderr}")
        return self._with_board(facts)

    def _ask(self, *words: str) -> Reading[CommandResult]:
        answer = self._host.run((*self._prefix, _TOOL, *words), self._timeout_s)
        if not self._prefix and answer.value and _UNLOADABLE in answer.value.stderr:
            self._prefix = ("env", f"LD_LIBRARY_PATH={self._path}")
            return self._ask(*words)
        return answer

    def _with_board(self, facts: Facts) -> Facts:
        """Firmware, pairing and SoC of the first board: one host, one driver, one firmware."""
        answered: Reading[str] = missing(Missing.NOT_THERE, npu_smi.AT)
        ascend = replace(facts.ascend, smi_error=answered)
        number = npu_smi_board.first_id(self._text("info", "-l"))
        if number is None:
            return replace(facts, ascend=ascend)
        board = ("info", "-t", "board", "-i", str(number))
        ascend = _completed(ascend, npu_smi_board.parse(self._text(*board)).ascend)
        devices = facts.devices.value or ()
        if not all(device.soc.is_known for device in devices):
            soc = npu_smi_board.parse(self._text(*board, "-c", "0")).ascend.soc
            devices = tuple(d if d.soc.is_known else replace(d, soc=soc) for d in devices)
        return replace(facts, ascend=ascend, devices=seen(devices, facts.devices.at))

    def _text(self, *words: str) -> str:
        answer = self._ask(*words)
        return answer.value.stdout if answer.value is not None else ""


def _completed(first: AscendFacts, second: AscendFacts) -> AscendFacts:
    """The first, with what only the second knows."""
    added = {
        name: value
        for name, value in vars(second).items()
        if not getattr(first, name).is_known and (value.is_known or value.at)
    }
    return replace(first, **added)


def _merged(
    host: Host, found: list[Device], listed: Reading[tuple[Device, ...]]
) -> tuple[Device, ...]:
    """Devices that npu-smi lists, with their place on the bus; then those that it does not."""
    by_address = {device.pci.value: device for device in found}
    known = listed.value or ()
    claimed = {device.pci.value for device in known}
    left = [device for device in found if device.pci.value not in claimed]
    first = max((d.index for d in known if d.index is not None), default=-1) + 1
    devices = [_placed(host, d, by_address.get(d.pci.value)) for d in known]
    return (*devices, *(_unlisted(host, d, first + n, listed) for n, d in enumerate(left)))


def _placed(host: Host, device: Device, function: Optional[Device]) -> Device:
    if function is None or function.pci.value is None:
        return device
    return replace(
        device,
        pci_id=function.pci_id,
        subsystem=function.subsystem,
        pci_driver=function.pci_driver,
        link=pci.read_link(host, function.pci.value),
    )


def _unlisted(
    host: Host, device: Device, number: int, listed: Reading[tuple[Device, ...]]
) -> Device:
    """A device on the bus that npu-smi does not list, or could not be asked about."""
    reason = listed.missing or Missing.NOT_READABLE
    unread: Reading[int] = missing(reason, listed.at if listed.missing else "npu-smi lacks it")
    link = pci.read_link(host, device.pci.value or "")
    return replace(device, id=f"npu{number}", memory_mib=unread, link=link)
