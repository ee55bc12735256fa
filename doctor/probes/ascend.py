"""Huawei Ascend devices and what runs them: files, npu-smi and the bus put together.

npu-smi is asked only where the driver is loaded or has made its nodes, and not again once
it did not answer in time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Optional

from doctor.facts import AscendFacts, Device, Facts, Missing, Reading, missing, seen
from doctor.probes import ascend_files, npu_smi, npu_smi_board, npu_smi_failure, pci
from doctor.probes.host import CommandResult, Host

_SMI_S, _SMI_DEVICE_S = 10.0, 1.0
_TOOL = "npu-smi"
# A container sets the loader's path only in its shells.
_LIBRARIES = ":".join(
    f"{ascend_files.ROOT}/driver/lib64{part}" for part in ("", "/common", "/driver")
)
_UNLOADABLE = "error while loading shared libraries"


def read(host: Host, facts: Facts) -> Facts:
    """Fill `ascend`, and what is known of each Ascend device."""
    ascend = ascend_files.read(host, host.environ(), facts.host)
    found = [d for d in facts.devices.value or () if d.vendor == "ascend"]
    told = _Asked(host, _SMI_S + _SMI_DEVICE_S * len(found)).read(_is_at_work(ascend, facts))
    ascend = _completed(ascend, told.ascend)
    listed = told.devices
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


class _Asked:
    """npu-smi with a deadline for each question; silent after the first that was late."""

    def __init__(self, host: Host, timeout_s: float) -> None:
        self._host = host
        self._timeout_s = timeout_s
        self._prefix: tuple[str, ...] = ()

    def read(self, at_work: bool) -> Facts:
        """Table and boards, or why there are none."""
        if not at_work:
            gone = missing(Missing.NOT_STATED, "not asked: no NPU driver is loaded")
            return Facts(ascend=AscendFacts(smi_error=gone), devices=gone)
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
            self._prefix = ("env", f"LD_LIBRARY_PATH={_LIBRARIES}")
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
