"""`nvidia-smi -q`, as text and as XML (`-q -x`): everything NVML tells of each device."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.etree import ElementTree

from doctor.facts import UNSTATED, Device, DeviceHealth, Facts, Link, Mig, NvidiaFacts, seen
from doctor.facts.accelerators import DeviceProcess
from doctor.intake.formats import nvidia_values
from doctor.probes.tool_text import (
    LIMIT,
    indented,
    integer,
    reading,
    value_or_none,
    version_or_none,
)

AT = "nvidia-smi -q"
_DEVICE = re.compile(
    r"^GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)[ \t]*$", re.MULTILINE
)
_XML_HEAD = "<nvidia_smi_log>"
_MAX_DEVICES = 256


@dataclass
class Answers:
    """What the tool says of one device: fields by path, and repeated groups of them."""

    fields: dict[str, str] = field(default_factory=dict)
    instances: list[dict[str, str]] = field(default_factory=list)
    processes: list[dict[str, str]] = field(default_factory=list)

    def add(self, path: str, value: str) -> None:
        """Keep a field; the first of a repeated group begins a new record."""
        path = path.replace("processes/process id/", "processes/", 1)
        for prefix, first, records in (
            ("mig device/", "index", self.instances),
            ("processes/", "process id", self.processes),
        ):
            if path.startswith(prefix):
                name = path[len(prefix) :]
                if name == first:
                    records.append({})
                if records:
                    records[-1].setdefault(name, value)
                return
        self.fields.setdefault(path, value)

    def get(self, *paths: str) -> str | None:
        """The first of these fields that has a value."""
        values = (value_or_none(self.fields.get(path)) for path in paths)
        return next((value for value in values if value), None)


def looks_like(text: str) -> bool:
    """Tell by the title of the log, or by the root of the XML."""
    return "NVSMI LOG" in text or _XML_HEAD in text


def parse(text: str) -> Facts:
    """Driver, CUDA of the driver, licence, and every device with its instances."""
    head, devices = _read_xml(text) if _XML_HEAD in text else _read_text(text)
    persistence = [nvidia_values.enabled(d.get("persistence mode")) for d in devices]
    licences = [d.get("vgpu software licensed product/license status") for d in devices]
    rows = [row for i, answers in enumerate(devices) for row in _devices(i, answers)]
    return Facts(
        nvidia=NvidiaFacts(
            driver=reading(version_or_none(head.get("driver version", "kmd version")), AT),
            cuda_driver_api=reading(
                version_or_none(head.get("cuda version", "cuda umd version")), AT
            ),
            persistence=reading(next((p for p in persistence if p is not None), None), AT),
            licensed=reading(_licensed(licences), AT),
        ),
        devices=seen(tuple(rows), AT) if rows else UNSTATED,
    )


def _licensed(stated: list[str | None]) -> bool | None:
    known = [text for text in stated if text]
    return all(text.lower().startswith("licensed") for text in known) if known else None


def _read_text(text: str) -> tuple[Answers, list[Answers]]:
    """Split the log at the lines that name a device."""
    parts = _DEVICE.split(text[text.find("NVSMI LOG") :][:LIMIT], _MAX_DEVICES)
    head = Answers()
    for path, value in indented(parts[0]):
        head.add("/".join(path), value)
    devices = []
    for bus, body in zip(parts[1::2], parts[2::2], strict=False):
        device = Answers()
        for path, value in indented(body):
            device.add("/".join(path), value)
        device.fields.setdefault("pci/bus id", bus)
        devices.append(device)
    return head, devices


# Names of the XML that differ from those of the text, by more than their underscores.
_XML_NAMES = {
    "processes/pid": "processes/process id",
    "mig mode/current mig": "mig mode/current",
    "pci/pci bus id": "pci/bus id",
    "pci/pci device id": "pci/device id",
    "pci/pci sub system id": "pci/sub system id",
    "pci/pci gpu link info/pcie gen/max link gen": "pci/gpu link info/pcie generation/max",
    "pci/pci gpu link info/pcie gen/current link gen": "pci/gpu link info/pcie generation/current",
    "pci/pci gpu link info/link widths/max link width": "pci/gpu link info/link width/max",
    "pci/pci gpu link info/link widths/current link width": "pci/gpu link info/link width/current",
    "remapped rows/remapped row pending": "remapped rows/pending",
    "remapped rows/remapped row failure": "remapped rows/remapping failure occurred",
    "temperature/gpu temp": "temperature/gpu current temp",
}


def _read_xml(text: str) -> tuple[Answers, list[Answers]]:
    """Read the XML. Entities are refused: the tool writes none, and they can explode."""
    body = text[text.find(_XML_HEAD) :]
    body = body[: body.find("</nvidia_smi_log>") + len("</nvidia_smi_log>")][: 2 * LIMIT]
    head = Answers()
    try:
        root = ElementTree.fromstring(body)  # noqa: S314 - cut from its root on: it has no DTD
    except ElementTree.ParseError:
        return head, []
    for node in root:
        head.add(_words(node.tag), (node.text or "").strip())
    return head, [_xml_device(node) for node in root.findall("gpu")[:_MAX_DEVICES]]


def _xml_device(node: ElementTree.Element) -> Answers:
    device = Answers()
    for found, value in _walk(node, "", 0):
        path = found.removeprefix("mig devices/")
        path = path.replace("processes/process info/", "processes/", 1)
        device.add(_XML_NAMES.get(path, path), value)
    return device


def _walk(node: ElementTree.Element, where: str, depth: int) -> Iterator[tuple[str, str]]:
    for child in node:
        path = f"{where}{_words(child.tag)}"
        yield path, (child.text or "").strip()
        if depth < 6:
            yield from _walk(child, f"{path}/", depth + 1)


def _words(tag: str) -> str:
    return tag.replace("_", " ").lower()


def _devices(number: int, answers: Answers) -> Iterator[Device]:
    """The device and its MIG instances."""
    get = answers.get
    mig = nvidia_values.enabled(get("mig mode/current"))
    mode = get("gpu virtualization mode/virtualization mode")
    device = Device(
        id=f"gpu{number}",
        vendor="nvidia",
        index=number,
        pci=reading(nvidia_values.pci_address(get("pci/bus id")), AT),
        pci_id=reading(nvidia_values.pci_pair(get("pci/device id")), AT),
        subsystem=reading(nvidia_values.pci_pair(get("pci/sub system id")), AT),
        name=reading(get("product name"), AT),
        memory_mib=reading(integer(get("fb memory usage/total")), AT),
        memory_free_mib=reading(integer(get("fb memory usage/free")), AT),
        mig=reading(None if mig is None else _mig(mig, answers), AT),
        link=reading(_link(answers), AT),
        health=seen(_health(answers), AT),
        processes=reading(_processes(answers), AT),
        virtual=reading(mode.upper() == "VGPU" if mode else None, AT),
        compute_mode=reading(nvidia_values.compute_mode(get("compute mode")), AT),
        uuid=reading(get("gpu uuid", "uuid"), AT),
        fabric=reading(_fabric(answers), AT),
    )
    yield device
    for instance in answers.instances:
        yield _instance(device, instance)


def _mig(enabled: bool, answers: Answers) -> Mig:
    return Mig(enabled=enabled, instances=len(answers.instances) if enabled else None)


def _link(answers: Answers) -> Link | None:
    gen, width = "pci/gpu link info/pcie generation/", "pci/gpu link info/link width/"
    link = Link(
        width=integer((answers.get(f"{width}current") or "").rstrip("x")),
        width_max=integer((answers.get(f"{width}max") or "").rstrip("x")),
        gen=integer(answers.get(f"{gen}current")),
        gen_max=integer(answers.get(f"{gen}max")),
    )
    return link if link != Link() else None


def _health(answers: Answers) -> DeviceHealth:
    reasons: dict[str, str] = {}
    for path, value in answers.fields.items():
        group, _, name = path.partition("/")
        if group in ("clocks throttle reasons", "clocks event reasons"):
            reasons[name.replace(f"{group[:-1]} ", "").split("/")[-1]] = value
    return nvidia_values.health(
        uncorrected=tuple(
            value
            for path, value in answers.fields.items()
            if path.startswith("ecc errors/volatile/") and "uncorrectable" in path
        ),
        pending=answers.get("remapped rows/pending", "retired pages/pending page blacklist"),
        failed=answers.get("remapped rows/remapping failure occurred"),
        reasons=reasons,
        temperature=answers.get("temperature/gpu current temp"),
    )


def _fabric(answers: Answers) -> str | None:
    """The fabric's state; one that ended with an error is "failed"."""
    state = (answers.get("fabric/state") or "").lower().replace(" ", "-")
    status = (answers.get("fabric/status") or "success").lower()
    if not state:
        return None
    return "failed" if state == "completed" and status != "success" else state


def _processes(answers: Answers) -> tuple[DeviceProcess, ...] | None:
    found = tuple(
        DeviceProcess(
            pid,
            integer(record.get("used gpu memory", record.get("used memory"))),
            record.get("name", record.get("process name", "")),
        )
        for record in answers.processes
        if (pid := integer(record.get("process id"))) is not None
    )
    return found or None


def _instance(device: Device, record: dict[str, str]) -> Device:
    number = integer(record.get("index")) or 0
    return Device(
        id=f"{device.id}/mig{number}",
        vendor="nvidia",
        index=number,
        pci=device.pci,
        pci_id=device.pci_id,
        name=device.name,
        memory_mib=reading(integer(record.get("fb memory usage/total")), AT),
        memory_free_mib=reading(integer(record.get("fb memory usage/free")), AT),
        mig=seen(Mig(enabled=True, parent=device.id), AT),
    )
