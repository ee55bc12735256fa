"""Rules about Ascend chips: those that a release supports, and those a build was made for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from doctor.facts import Device, Missing, MissingFact, seen
from doctor.findings import Evidence, Remedy
from doctor.matrix import ClaimMatch, Matrix
from doctor.matrix.ranges import covers
from doctor.rules.engine import Case, Fault, NotApplicable, Severity, rule
from doctor.rules.image_facts import tagged
from doctor.rules.model_facts import environment
from doctor.rules.npu import is_of_scope
from doctor.rules.npus import ascend_devices, generation, label, words
from doctor.rules.settings import Setting, holds, settings
from doctor.rules.software import Software, admits, engine, installed


@rule("NPU401", cause="npu-soc-not-in-binary", severity=Severity.ERROR, gate=True)
def chip_not_supported(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The engine release does not support this Ascend chip.

    What: the chip, or its generation, against those that the matrix records for the
        release of the engine.
    Why: operators are built for the chips of the release; others are refused by
        soc_version or end in a missing operator.
    How to fix: the first release that supports the chip, with the image of that chip.
    Silent when: the name fits chips of several generations. A warning where the version is not
        known and most releases refuse such a model on the chip.
    Sources: vllm-ascend hardware.py, Dockerfiles and threads (rows in the matrix).
    """
    devices = ascend_devices(case)
    found = engine(case, matrix)
    if not any(True for _ in matrix.claims(found.name, "npu")):
        raise NotApplicable(f"the matrix lists no chips for {found.name}")
    if found.version is None and found.name == "vllm-ascend":
        found = _by_vllm(case, matrix, found)
    setting = settings(case, matrix)[0]
    for device in _distinct(devices):
        yield from _unsupported(matrix, found, device, setting)


def _distinct(devices: tuple[Device, ...]) -> list[Device]:
    return list({label(device): device for device in devices}.values())


def _by_vllm(case: Case, matrix: Matrix, found: Software) -> Software:
    """Leave only releases of the plug-in that pin the vllm that is installed."""
    vllm = installed(case, matrix, "vllm")
    if vllm is None or vllm.version is None:
        return found
    version = vllm.version
    rows = [r for r in found.rows if admits(r.pins.get("vllm", ""), version) is not False]
    return Software(found.name, None, tuple(rows) or found.rows, at=found.at)


def _unsupported(
    matrix: Matrix, found: Software, device: Device, setting: Setting
) -> Iterator[Fault]:
    mine = words(device, matrix)
    if not mine:
        raise MissingFact("SoC name", Missing.NOT_STATED, device.name.at)
    claims = [m for m in matrix.claims(found.name, "npu") if m.claim.key in mine]
    refusing = [m for m in claims if m.claim.value == "unsupported" and holds(m.claim, setting)]
    is_unknown = False
    for match in refusing:
        answers = [covers(match.claim, version) for version in found.versions]
        is_ranged = bool(match.claim.since or match.claim.until)
        if all(answers) and not (is_ranged and not answers):
            yield _chip_fault(found, device, match)
            return
        if match.claim.when and 2 * answers.count(True) > len(answers):
            yield replace(_chip_fault(found, device, match), severity=Severity.WARNING)
            return
        is_unknown = is_unknown or any(answers) or not answers
    if is_unknown:
        raise found.unknown()


def _chip_fault(found: Software, device: Device, match: ClaimMatch) -> Fault:
    claim = match.claim
    return Fault(
        f"{found.label} does not support {label(device)}{': ' if claim.text else ''}{claim.text}",
        evidence=(Evidence(label(device), device.soc.at or device.name.at), found.evidence),
        remedies=(Remedy(claim.remedy or "use another release, engine or chip"),),
        sources=claim.source,
        subject=device.id,
        severity=Severity.WARNING if claim.data.get("level") == "warning" else None,
    )


@rule("NPU402", cause="npu-soc-not-in-binary", severity=Severity.ERROR)
def built_for_other_chip(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The image, the operator package or a library was made for another Ascend chip.

    What: the suffix of the image's tag, the chip of the operator package, the SoC names inside
        libraries, SOC_VERSION and what a package is said to be built for, against the chips of
        the host. Where none of these is told, the chips of the wheels of the package index, as
        a warning.
    Why: operators are machine code for one chip: "socversion of bin package does not match".
    How to fix: the image with the suffix of the chip, its operator package, or a build with
        the right SOC_VERSION.
    Silent when: the chip is not known, or the image is none of the engine's own.
    Sources: vllm-ascend image naming (row in the matrix); vllm-ascend issue 6676.
    """
    devices = ascend_devices(case)
    kinds = {generation(device, matrix) for device in devices}
    mine = frozenset().union(*(words(device, matrix) for device in devices))
    if "" in kinds or len(kinds) != 1 or not mine:
        raise MissingFact("SoC name", Missing.NOT_STATED)
    checked = False
    for what, chip, at in _built_for(case, matrix, mine):
        checked = True
        if chip not in kinds and chip not in mine:
            yield Fault(
                f"{what} is for {chip}; this host has {label(devices[0])}",
                evidence=(Evidence(what, at), Evidence(label(devices[0]), devices[0].name.at)),
                remedies=(Remedy(f"use the image or build for {kinds.copy().pop()}"),),
            )
    if not checked:
        yield _of_index(case, matrix, kinds, devices[0])


def _of_index(case: Case, matrix: Matrix, kinds: set[str], device: Device) -> Fault:
    """A stated release of which nothing tells an image or a build: a wheel of the index."""
    package = case.scope.package("vllm-ascend")
    is_built = case.workload is not None and case.workload.building.is_known
    if package is not None and not is_built and not case.scope.image.ref:
        for match in matrix.claims("vllm-ascend", "index-wheel", package.version):
            claim = match.claim
            if kinds.isdisjoint(claim.value.split("|")):
                return Fault(
                    f"vllm-ascend {package.version} is stated without an image: {claim.text}",
                    evidence=(Evidence(label(device), device.name.at),),
                    remedies=(Remedy("the image with the suffix of the chip, or a build for it"),),
                    sources=claim.source,
                    severity=Severity.WARNING,
                )
    raise MissingFact("chip of the image or operators", Missing.NOT_STATED)


def _built_for(case: Case, matrix: Matrix, mine: frozenset[str]) -> Iterator[tuple[str, str, str]]:
    """What was built for a chip, as (name, generation or SoC, where read)."""
    reference = case.scope.image.ref
    repository, _, tag = reference.partition("@")[0].rpartition(":")
    yield from _operators(case, matrix, mine)
    yield from _stated_chip(case, matrix, mine)
    base = tagged(reference, matrix)
    if base is not None and base.row.engine == "cann" and base.words.get("soc"):
        chip = str(base.row.extra.get(base.words["soc"], ""))
        yield f"image {reference}", chip or base.words["soc"], "image"
    for match in matrix.claims("vllm-ascend", "image"):
        if repository.endswith(match.claim.key.rpartition("/")[2]) and "ascend" in repository:
            yield f"image {reference}", _suffix_chip(match, tag), "image"
            break
    for binary in case.scope.binaries.value or ():
        if binary.soc:
            held = [soc.removeprefix("Ascend") for soc in binary.soc]
            fitting = [soc for soc in held if soc in mine]
            name = binary.package or binary.path
            yield name, (fitting or held)[0], binary.path


def _stated_chip(
    case: Case, matrix: Matrix, mine: frozenset[str]
) -> Iterator[tuple[str, str, str]]:
    """The chip that a build was told of: SOC_VERSION, or what somebody states of a package."""
    told = {name: text for name, text in case.scope.built_for.items() if "ascend" in text.lower()}
    told["SOC_VERSION"] = environment(case).get("SOC_VERSION", "")
    for name, text in told.items():
        named = Device(id="", vendor="ascend", name=seen(_spaced(text), name)) if text else None
        chip = generation(named, matrix) if named is not None else ""
        socs = [device.soc.value.lower() for device in case.devices if device.soc.value]
        if text and not chip and socs and _FAMILY.fullmatch(text.lower()):
            fits = all(soc.startswith(text.lower()) for soc in socs)
            chip = min(mine) if fits else text
        if chip:
            yield f"{name} {text}", chip, "env" if name == "SOC_VERSION" else "built_for"


_FAMILY = re.compile(r"ascend\d{3}[a-z]?(?:_\d\d)?")  # as operators are named, without the model


def _spaced(text: str) -> str:
    """The name of a chip as people write it: "Ascend 910B1" for "ASCEND910B1"."""
    return re.sub(r"ascend[_-]?", "Ascend ", text, flags=re.IGNORECASE)


def _operators(case: Case, matrix: Matrix, mine: frozenset[str]) -> Iterator[tuple[str, str, str]]:
    """The chip of a package, or the chip families whose operators CANN has installed."""
    kernels = case.facts.ascend.kernels
    if not kernels.value or not is_of_scope(case, kernels):
        return
    names = kernels.value.lower().split(",")
    families = [name for name in names if name.startswith("ascend")]
    socs = [device.soc.value.lower() for device in case.devices if device.soc.value]
    if families and socs:
        # "ascend910b" is the family of Ascend910B1 to B4.
        fits = all(any(soc.startswith(family) for family in families) for soc in socs)
        yield f"operators for {kernels.value}", min(mine) if fits else families[0], kernels.at
        return
    for row in matrix.npus:
        if names[0] in {name.lower() for name in (row.key, *row.names)}:
            yield f"operator package {kernels.value}", row.generation, kernels.at
            return


def _suffix_chip(match: ClaimMatch, tag: str) -> str:
    suffixes = {str(k): str(v) for k, v in dict(match.claim.data.get("suffix", {})).items()}
    for chip, suffix in suffixes.items():
        if suffix and suffix in tag:
            return chip
    return next((chip for chip, suffix in suffixes.items() if not suffix), "")


RULES = (chip_not_supported, built_for_other_chip)
