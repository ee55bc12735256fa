"""Put a candidate in the terms in which people act: what to install, from where, with what."""

from __future__ import annotations

from dataclasses import replace

from doctor.facts import Device, Facts, Version
from doctor.matrix import Matrix
from doctor.rules.cards import branch_span
from doctor.stack.judge import Judge
from doctor.stack.model import REFUSED, Ask, Candidate, Judged, Stack
from doctor.stack.torch_choice import exact_pin

_HALF = "float16"


def summed_up(judged: Judged, facts: Facts, matrix: Matrix, ask: Ask, flags: bool) -> Judged:
    """The judged candidate with its stack; `flags` also finds out which must be set."""
    stack = stack_of(judged.candidate, facts, matrix)
    if flags:
        stack = replace(stack, flags=_flags(judged.candidate, facts, matrix, ask))
    return replace(judged, stack=stack)


def stack_of(candidate: Candidate, facts: Facts, matrix: Matrix) -> Stack:
    """The stack of a candidate on a host."""
    release = candidate.release
    torch = candidate.torch if _is_settled(candidate) else None
    devices = _devices(candidate, facts)
    low, high = _branches(facts.devices.value or (), matrix)
    return Stack(
        engine=candidate.engine,
        version=candidate.version.public if candidate.version else "",
        kind=candidate.kind,
        artifact=candidate.artifact,
        cuda=_two(candidate.cuda),
        torch=str(torch.version) if torch else "",
        torch_build=torch.build if torch else "",
        python=str(candidate.python or "").removesuffix(".*"),
        pythons=_pythons(candidate),
        index=candidate.index or (torch.index if torch else ""),
        extra_index=candidate.extra_index,
        env=(*candidate.env, *_visible(candidate, facts)),
        devices=tuple(_label(device) for device in devices) if candidate.devices else (),
        driver_floor=_floor(candidate, matrix, low),
        driver_ceiling=str(high or ""),
        parts=_parts(candidate) if release else (),
    )


def _is_settled(candidate: Candidate) -> bool:
    """False for the torch of an image whose release takes a range: it may be any of it."""
    pin = candidate.release.pins.get("torch", "") if candidate.release else ""
    return candidate.kind != "image" or exact_pin(pin) is not None


def _devices(candidate: Candidate, facts: Facts) -> tuple[Device, ...]:
    every = facts.devices.value or ()
    return tuple(d for d in every if not candidate.devices or d.id in candidate.devices)


def _label(device: Device) -> str:
    return device.name.value or device.pci_id.value or device.id


def _two(cuda: Version | None) -> str:
    """CUDA by major and minor: that is what decides."""
    return ".".join(map(str, cuda.release[:2])) if cuda else ""


def _pythons(candidate: Candidate) -> str:
    """Interpreters that the artefact accepts; those of an image are its own affair."""
    if candidate.release is None or candidate.kind == "image":
        return ""
    tags = [tag.removeprefix("cp") for tag in candidate.release.pythons if not tag.endswith("t")]
    listed = ", ".join(f"{tag[:1]}.{tag[1:]}" for tag in tags)
    return candidate.release.requires_python or listed


def _visible(candidate: Candidate, facts: Facts) -> tuple[tuple[str, str], ...]:
    """Which devices the engine may see, where it must not see all."""
    if not candidate.devices or candidate.vendor != "nvidia":
        return ()
    chosen = [d for d in facts.devices.value or () if d.id in candidate.devices]
    names = [d.uuid.value or str(d.index if d.index is not None else d.id) for d in chosen]
    return (("CUDA_VISIBLE_DEVICES", ",".join(names)),)


def _branches(devices: tuple[Device, ...], matrix: Matrix) -> tuple[int | None, int | None]:
    """Driver branches that drive all cards of the host, used or not: from, to."""
    spans = [branch_span(d, matrix) for d in devices if d.vendor == "nvidia"]
    low = max((s.first for s in spans if s.first is not None), default=None)
    high = min((s.last for s in spans if s.last is not None), default=None)
    return low, high


def _floor(candidate: Candidate, matrix: Matrix, branch: int | None) -> str:
    """The lowest driver that runs the build: of its CUDA major, and of the cards."""
    if candidate.vendor == "ascend":
        return _npu_floor(candidate, matrix)
    cuda = (candidate.torch.cuda if candidate.torch else None) or candidate.cuda
    family = matrix.family(cuda) if cuda is not None and candidate.vendor == "nvidia" else None
    if family is None:
        return ""
    card = Version(str(branch or 0))
    row = matrix.forward_compat(candidate.compat) if candidate.compat is not None else None
    own = Version(str(min(row.branches))) if row and row.branches else Version(family.min_driver)
    return str(card if card.newer_than(own) is True else own)


def _npu_floor(candidate: Candidate, matrix: Matrix) -> str:
    cann = Version.maybe(dict(candidate.extra).get("cann"))
    for match in matrix.claims("cann", "npu-driver-floor", cann) if cann is not None else ():
        return match.claim.value
    return ""


def _parts(candidate: Candidate) -> tuple[tuple[str, str], ...]:
    """What else belongs to it, such as the toolkit of an Ascend release."""
    return tuple((name, value.removeprefix("==")) for name, value in candidate.extra)


def _flags(candidate: Candidate, facts: Facts, matrix: Matrix, ask: Ask) -> tuple[str, ...]:
    """Arguments without which the engine would not run here: half precision instead of bfloat16."""
    row = matrix.launch(candidate.engine, candidate.version)
    words = row.arguments.get("dtype", ()) if row else ()
    args = dict(ask.args)
    if not words or "dtype" in args:
        return ()
    asked = replace(ask, args=tuple({**args, "dtype": "bfloat16"}.items()))
    judged = Judge(facts, matrix, asked).judge(candidate)
    if judged.state != REFUSED:
        return ()
    return (*words, _HALF)
