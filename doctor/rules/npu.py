"""Rules about Ascend devices: driver and firmware, access, and who holds them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.facts import Missing, MissingFact, Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules.engine import Case, Fault, NotApplicable, Severity, rule
from doctor.rules.npus import ascend_devices, label
from doctor.rules.settings import applicable, settings
from doctor.rules.software import Software, admits, engine_name, software

ASCEND_ENGINES = ("vllm-ascend", "mindie", "torch-npu")
# What npu-smi and DCMI answer: the device is held by another container; start failed.
_BUSY = re.compile(r"-8020\b|device is used", re.IGNORECASE)
_NO_START = re.compile(r"-8005\b", re.IGNORECASE)
_CAPABILITIES = re.compile(r"CapEff\s*[:=]\s*(?:0x)?0+\b", re.IGNORECASE)
_MODE = re.compile(r"\bmode\s*0?([0-7]{3})\b|\b0?([0-7]{3}) (?:\d+|\w+):(?:\d+|\w+)", re.IGNORECASE)


def cann_version(case: Case, matrix: Matrix) -> tuple[Version | None, str]:
    """CANN as read or stated, else the one that the engine's image is built on."""
    stated = case.facts.ascend.cann
    if stated.value is not None:
        return stated.value, stated.at
    name = engine_name(case, matrix)
    image = case.scope.image.ref
    if not image or name not in ASCEND_ENGINES or name not in image:
        return None, ""
    from doctor.rules.software import engine

    found = engine(case, matrix)
    texts = {row.extra.get("cann", "") for row in found.rows}
    return (Version.maybe(texts.pop()) if len(texts) == 1 else None), "image"


def is_ascend(case: Case, matrix: Matrix) -> None:
    """Raise `NotApplicable` unless the case is about Ascend devices or engines."""
    if any(d.vendor == "ascend" for d in case.devices):
        return
    try:
        if engine_name(case, matrix) in ASCEND_ENGINES:
            return
    except NotApplicable:
        pass
    if case.scope.package("torch-npu") is None:
        raise NotApplicable("no Ascend device or engine")


@rule("NPU101", cause="npu-driver-firmware", severity=Severity.ERROR, gate=True)
def npu_driver_missing(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """An Ascend device is on the bus, and no driver is installed.

    What: Ascend devices by PCI id against the driver's version file.
    Why: without the driver there are no device nodes and no libascend_hal.so.
    How to fix: install the HDK driver, then the firmware (first installation: driver
        first; upgrade: firmware first), and reboot.
    Silent when: there is no Ascend device.
    Sources: Ascend HDK installation guide.
    """
    devices = ascend_devices(case)
    driver = case.facts.ascend.driver
    if driver.is_absent:
        yield Fault(
            f"{len(devices)} Ascend devices and no NPU driver",
            evidence=(
                Evidence(label(devices[0]), devices[0].pci_id.at),
                Evidence("no driver", driver.at),
            ),
            remedies=(Remedy("install driver and firmware", role="ascend_driver", reboot=True),),
        )
    elif not driver.is_known:
        raise MissingFact("ascend.driver", driver.missing or Missing.NOT_STATED, driver.at)


@rule("NPU102", cause="npu-driver-firmware", severity=Severity.ERROR)
def npu_driver_below_floor(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The NPU driver is older than this CANN, or the engine release, works with.

    What: the HDK driver against the lowest one that the matrix records for the CANN
        version in use (installed, or inside the engine's image) and for the engine.
    Why: CANN talks to the driver of the host also from a container; too old a one
        answers 207000 or 507033.
    How to fix: raise driver and firmware as one set, or use an older CANN and engine.
    Silent when: the product line is another one, whose numbers cannot be compared (950).
    Sources: CANN release notes, MindIE release notes (rows in the matrix).
    """
    is_ascend(case, matrix)
    driver = case.facts.ascend.driver.known("ascend.driver")
    cann, at = cann_version(case, matrix)
    if cann is None:
        raise MissingFact("ascend.cann", case.facts.ascend.cann.missing or Missing.NOT_STATED)
    found = software(matrix, "cann", cann, at)
    for row in found.rows[:1]:
        refused = [s for s in row.extra.get("hdk_refused", "").split("|") if s]
        if found.is_settled and any(admits(f"=={spec}", driver) for spec in refused):
            yield _driver_fault(case, found, driver, f"not {' and not '.join(refused)}", row.source)
            return
    setting = settings(case, matrix)[0]
    for match in applicable(matrix, found, "npu-driver-floor", setting):
        if driver.older_than(Version(match.claim.value)) is True:
            wanted = f"{match.claim.value} or newer"
            yield _driver_fault(case, found, driver, wanted, match.claim.source)


def _driver_fault(
    case: Case, found: Software, driver: Version, wanted: str, sources: tuple[str, ...]
) -> Fault:
    return Fault(
        f"CANN {found.version} needs HDK driver {wanted}; {driver} is loaded",
        evidence=(
            Evidence(f"NPU driver {driver}", case.facts.ascend.driver.at),
            Evidence(f"CANN {found.version}", found.at),
        ),
        remedies=(
            Remedy("upgrade driver and firmware together", role="ascend_driver", reboot=True),
        ),
        sources=sources,
    )


@rule("NPU103", cause="npu-driver-firmware", severity=Severity.ERROR)
def firmware_not_paired(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The firmware is outside the range that the driver itself says it works with.

    What: the firmware version against compatible_version_fw of the driver's version.info.
    Why: driver and firmware are released as a pair; outside of it features answer 207000
        and memory sharing fails.
    How to fix: install the firmware of the driver's release; firmware first on an upgrade.
    Silent when: the driver's file states no range.
    Sources: Ascend HDK version.info; Ascend/pytorch NPUErrorCodes.
    """
    ascend_devices(case)
    firmware = case.facts.ascend.firmware.known("ascend.firmware")
    text = case.facts.ascend.firmware_range.known("ascend.firmware_range")
    bounds = re.fullmatch(r"\s*\[\s*([\w.]+)\s*,\s*([\w.]+)\s*\]\s*", text)
    low, high = (Version.maybe(bounds[n]) for n in (1, 2)) if bounds else (None, None)
    if low is None or high is None:
        raise MissingFact("ascend.firmware_range", Missing.NOT_READABLE)
    if firmware.older_than(low) is True or firmware.newer_than(high) is True:
        yield Fault(
            f"the driver works with firmware {text}; {firmware} is installed",
            evidence=(Evidence(f"firmware {firmware}", case.facts.ascend.firmware.at),),
            remedies=(
                Remedy("install the firmware of the driver's release", role="ascend_driver"),
            ),
        )


@rule("NPU201", cause="npu-permission", severity=Severity.ERROR)
def npu_nodes_not_accessible(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The process may not open the NPU's device nodes.

    What: the nodes that were found, the rights on them, and the capabilities of the
        process: root without CAP_DAC_OVERRIDE is bound by modes like anyone else.
    Why: DCMI answers -8005 and torch_npu finds no device.
    How to fix: add the user to HwHiAiUser; in a container give the group of the nodes, or
        CAP_DAC_OVERRIDE.
    Silent when: rights and capabilities were not looked at.
    Sources: Project-HAMi/ascend-device-plugin issue 139; capabilities(7).
    """
    is_ascend(case, matrix)
    nodes = case.facts.ascend.nodes
    runtime = case.scope.runtime.value or ""
    if nodes.missing is Missing.NOT_PERMITTED:
        yield _no_access(case, f"the nodes may not be opened ({nodes.at})")
    elif _CAPABILITIES.search(runtime) and _is_closed_to_others(runtime):
        yield _no_access(case, "no capabilities, and the nodes are closed to others")
    elif not nodes.is_known and not runtime:
        raise MissingFact("ascend.nodes", nodes.missing or Missing.NOT_STATED)


def _is_closed_to_others(text: str) -> bool:
    modes = [match[1] or match[2] for match in _MODE.finditer(text)]
    return any(mode.endswith("0") for mode in modes)


def _no_access(case: Case, why: str) -> Fault:
    return Fault(
        f"the NPU cannot be opened: {why}",
        evidence=(Evidence(why, case.scope.runtime.at or case.facts.ascend.nodes.at),),
        remedies=(
            Remedy("add the user to the group of the nodes", ("usermod -aG HwHiAiUser $USER",)),
            Remedy(
                "or give the container that group, or the capability",
                ("docker run --group-add HwHiAiUser ...", "docker run --cap-add DAC_OVERRIDE ..."),
            ),
        ),
    )


@rule("NPU202", cause="npu-permission", severity=Severity.ERROR)
def npu_driver_not_mounted(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The container lacks device nodes or folders of the host's NPU driver.

    What: the devices and mounts of the container against those that the engine's
        documentation asks for.
    Why: libascend_hal.so belongs to the host's driver and is not part of any image;
        without /dev/davinci_manager nothing can be opened.
    How to fix: the documented --device and -v options, or Ascend Docker Runtime.
    Silent when: the container's options are not known, or it runs with the Ascend runtime
        or privileged with its mounts.
    Sources: vllm-ascend installation page (row in the matrix); vllm-ascend issue 1440.
    """
    is_ascend(case, matrix)
    if case.scope.kind != "container":
        raise NotApplicable("no container")
    runtime = case.scope.runtime.value or ""
    mounts = case.scope.mounts
    if not mounts.is_known and "--device" not in runtime:
        raise MissingFact("mounts of the container", mounts.missing or Missing.NOT_STATED)
    found = software(matrix, "vllm-ascend", None)
    for match in applicable(matrix, found, "container", settings(case, matrix)[0], "device-nodes"):
        held = (*(mounts.value or ()), runtime)
        wanted = (*match.claim.data.get("devices", ()), *_driver_folders(match.claim.data))
        absent = [w for w in wanted if not _is_held(w, held, mounts.is_known)]
        if absent:
            yield Fault(
                f"the container lacks {', '.join(absent)}",
                evidence=(Evidence(f"{len(absent)} missing", mounts.at or case.scope.runtime.at),),
                remedies=(Remedy("give it devices and driver", _options(absent)),),
                sources=match.claim.source,
            )


def _driver_folders(data: dict[str, object]) -> list[str]:
    listed = data.get("mounts", ())
    return [str(m) for m in listed if "driver" in str(m)] if isinstance(listed, list) else []


def _is_held(path: str, held: tuple[str, ...], complete: bool) -> bool:
    """A device is stated by its name; folders only count as absent where mounts were read."""
    name = path.rpartition("/")[2].removesuffix("N")
    if path.startswith("/dev/"):
        return any(name in text for text in held) or name == "davinci"
    parts = path.split("/")
    return not complete or any("/".join(parts[:n]) in held for n in range(2, len(parts) + 1))


def _options(absent: list[str]) -> tuple[str, ...]:
    devices = [f"--device {path}" for path in absent if path.startswith("/dev/")]
    folders = [f"-v {path}:{path}:ro" for path in absent if not path.startswith("/dev/")]
    return (f"docker run {' '.join((*devices, *folders))} ...",)


@rule("NPU203", cause="npu-device-busy", severity=Severity.ERROR)
def npu_held_by_another(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Another container or process holds the NPU.

    What: what npu-smi or DCMI answered (-8020), and processes on the devices wanted.
    Why: a device is given to one container at a time; a second start is refused.
    How to fix: stop the other container, or choose another device.
    Silent when: npu-smi answered well. An answer of -8005, which has several reasons, is
        a warning.
    Sources: Ascend/cann-container-image issue 46; DCMI error codes.
    """
    is_ascend(case, matrix)
    error = case.facts.ascend.smi_error
    if error.is_absent:
        return
    text = error.known("ascend.smi_error")
    sure = _BUSY.search(text)
    if sure or _NO_START.search(text):
        yield Fault(
            "another container holds the NPU"
            if sure
            else "DCMI did not start: the NPU is held, closed to this user, or needs a reboot",
            evidence=(Evidence(text[:200], error.at),),
            remedies=(
                Remedy(
                    "find the other user of the device, and stop it or take another device",
                    ("npu-smi info", "docker ps"),
                ),
            ),
            severity=None if sure else Severity.WARNING,
        )


RULES = (
    npu_driver_missing,
    npu_driver_below_floor,
    firmware_not_paired,
    npu_nodes_not_accessible,
    npu_driver_not_mounted,
    npu_held_by_another,
)
