"""Rules about the driver and firmware of Ascend devices."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from doctor.facts import Missing, MissingFact, Reading, Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules.decide import missed
from doctor.rules.engine import Case, Fault, NotApplicable, Severity, rule
from doctor.rules.image_facts import known_image, tagged
from doctor.rules.npus import ascend_devices, label
from doctor.rules.settings import applicable, covering, settings
from doctor.rules.software import Software, admits, engine_name, software

# The driver's file may name several: "[7.0.0,8.9.9],[9.0.0,9.9.9]".
_RANGE = re.compile(r"\[\s*([\w.]{1,40})\s*,\s*([\w.]{1,40})\s*\]")
# Parts of the driver's package, as people name them; its nodes and libraries are of NPU202.
_DRIVER_PARTS = re.compile(
    r"npu-smi|(?:ascend|npu)[ -]?(?:hdk[ -]?)?(?:driver|firmware)|hdk(?: driver)?", re.IGNORECASE
)
ASCEND_ENGINES = ("vllm-ascend", "mindie", "torch-npu")


def cann_version(case: Case, matrix: Matrix) -> tuple[Version | None, str]:
    """CANN as read or stated, else the one that the engine's image is built on."""
    stated = case.facts.ascend.cann
    if stated.value is not None and is_of_scope(case, stated):
        return stated.value, stated.at
    image = case.scope.image.ref
    base = tagged(image, matrix)
    if base is not None and base.row.engine == "cann":
        return Version.maybe(base.words.get("version", "")), "image"
    name = engine_name(case, matrix)
    if not image or name not in ASCEND_ENGINES or name not in image:
        return None, ""
    from doctor.rules.software import engine

    found = engine(case, matrix)
    texts = {row.extra.get("cann", "") for row in found.rows}
    return (Version.maybe(texts.pop()) if len(texts) == 1 else None), "image"


def is_of_scope(case: Case, reading: Reading[Any]) -> bool:
    """False for what was read in the host's files, where the target is a container on it."""
    inside = case.scope.kind in ("container", "image")
    return not (inside and reading.at.startswith("/"))


def is_ascend(case: Case, matrix: Matrix) -> None:
    """Raise `NotApplicable` unless the case is about Ascend devices or engines."""
    if any(d.vendor == "ascend" for d in case.devices):
        return
    try:
        if engine_name(case, matrix) in ASCEND_ENGINES:
            return
    except NotApplicable:
        pass
    image = known_image(case.scope, matrix)
    if image is not None and image.vendor == "ascend":
        return
    if case.scope.package("torch-npu") is None:
        raise NotApplicable("no Ascend device or engine")


@rule("NPU101", cause="npu-driver-firmware", severity=Severity.ERROR, gate=True)
def npu_driver_missing(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """An Ascend device is on the bus, and no driver is installed.

    What: Ascend devices by PCI id against the driver's version file.
    Why: without the driver there are no device nodes and no libascend_hal.so.
    How to fix: install the HDK driver, then the firmware (first installation: driver
        first; upgrade: firmware first), and reboot.
    Silent when: there is no Ascend device, or doctor runs in a container, which has of the
        driver what is mounted (npu-driver-not-mounted judges that).
    Sources: Ascend HDK installation guide.
    """
    lost = missed(case, _DRIVER_PARTS)
    if lost and not case.facts.devices.is_known and case.scope.kind not in ("container", "image"):
        is_ascend(case, matrix)
        yield _without_driver(lost[0])
        return
    devices = ascend_devices(case)
    driver = case.facts.ascend.driver
    has_tool = driver.is_known or not case.facts.ascend.smi_error.is_absent
    if case.facts.host.platform.value == "container":
        raise NotApplicable("the driver is the host's: a container has what is mounted")
    if driver.is_absent or not has_tool or lost:
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


def _without_driver(lost: str) -> Fault:
    """No device is told, and what comes with the driver was looked for and is not there."""
    return Fault(
        f"{lost}, which comes with the NPU driver, is not there",
        evidence=(Evidence(f"{lost} is absent", "absent"),),
        remedies=(Remedy("install driver and firmware", role="ascend_driver", reboot=True),),
        severity=Severity.WARNING,
    )


@rule("NPU102", cause="npu-driver-firmware", severity=Severity.ERROR, gate=True)
def npu_driver_below_floor(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The NPU driver is older than this CANN, or the engine release, works with.

    What: the HDK driver against the lowest one that the matrix records for the CANN
        version in use (installed, or inside the engine's image) and for the engine.
    Why: CANN talks to the driver of the host also from a container; too old a one
        answers 207000 or 507033.
    How to fix: raise driver and firmware as one set, or use an older CANN and engine.
    Silent when: the product line is another one, whose numbers cannot be compared (950),
        or no CANN is installed. A warning for a driver of two years before all that the
        release notes name.
    Sources: CANN release notes, MindIE release notes (rows in the matrix).
    """
    is_ascend(case, matrix)
    driver = case.facts.ascend.driver.known("ascend.driver")
    cann, at = cann_version(case, matrix)
    if cann is None and not case.facts.ascend.cann.is_absent:
        cann, at = _cann_of_engine(case, matrix), "engine"
    if cann is None:
        if case.facts.ascend.cann.is_absent:
            raise NotApplicable("no CANN is installed")
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
            return
    named = _named_line(matrix, cann)
    if named is not None and (driver.major or 0) + _YEARS_SERVED < (named.major or 0):
        wanted = f"of about {named}, as its release notes name"
        fault = _driver_fault(
            case, found, driver, wanted, found.rows[0].source if found.rows else ()
        )
        yield replace(fault, severity=Severity.WARNING)
        return
    _need_floor(matrix, found, driver)


_YEARS_SERVED = 1


def _cann_of_engine(case: Case, matrix: Matrix) -> Version | None:
    """The CANN for which the release of an engine is made; none other runs it."""
    if engine_name(case, matrix) not in ASCEND_ENGINES:
        return None
    from doctor.rules.software import engine

    found = engine(case, matrix)
    texts = {row.extra.get("cann", "") for row in found.rows} if found.version else set()
    return Version.maybe(texts.pop()) if len(texts) == 1 else None


def _named_line(matrix: Matrix, cann: Version) -> Version | None:
    """The lowest driver that the notes of this CANN name, or of the next older with any.

    Drivers are numbered by years, and those of the year before still serve. What CANN asks
    for only rises.
    """
    for row, version in matrix.versions("cann"):
        texts = (row.extra.get(key, "") for key in ("hdk_matched", "hdk_also", "hdk_min"))
        named = [Version(spec) for text in texts for spec in text.split("|") if spec]
        if named and version.newer_than(cann) is not True:
            return min(named, key=lambda driver: driver.low)
    return None


def _need_floor(matrix: Matrix, found: Software, driver: Version) -> None:
    """Raise `MissingFact` for a CANN of unknown floor that does not name this driver either."""
    if covering(matrix, found, "npu-driver-floor"):
        return
    named = [row.extra.get(key, "") for row in found.rows for key in ("hdk_matched", "hdk_also")]
    specs = [spec for text in named for spec in text.split("|") if spec]
    if not any(admits(f"=={spec}", driver) for spec in specs):
        raise MissingFact(f"lowest HDK driver of {found.label}", Missing.NOT_STATED)


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
    bounds = [tuple(map(Version.maybe, pair)) for pair in _RANGE.findall(text)]
    ranges = [(low, high) for low, high in bounds if low is not None and high is not None]
    if not ranges:
        raise MissingFact("ascend.firmware_range", Missing.NOT_READABLE)
    if all(_is_outside(firmware, low, high) for low, high in ranges):
        yield Fault(
            f"the driver works with firmware {text}; {firmware} is installed",
            evidence=(Evidence(f"firmware {firmware}", case.facts.ascend.firmware.at),),
            remedies=(
                Remedy("install the firmware of the driver's release", role="ascend_driver"),
            ),
        )


def _is_outside(firmware: Version, low: Version, high: Version) -> bool:
    """The bounds count as many numbers as they have: 7.2.99 ends with all of 7.2.99."""
    whole = ".".join(map(str, firmware.release[: len(high.release)])) or firmware.text
    cut = Version.maybe(whole) or firmware
    return firmware.older_than(low) is True or cut.newer_than(high) is True


RULES = (npu_driver_missing, npu_driver_below_floor, firmware_not_paired)
