"""Rules about AMD ROCm: gfx target, torch build, driver and overrides."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from doctor.facts import Device, Missing, MissingFact, Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import ClaimMatch, Matrix
from doctor.rules import amd_cards
from doctor.rules.engine import Case, Fault, NotApplicable, Severity, rule
from doctor.rules.framework import is_of_torch, runs_on_torch, wants_cpu
from doctor.rules.model_facts import environment
from doctor.rules.software import Software, admits, engine, engine_name, torch_version

_ROCM_LABEL = re.compile(r"rocm(\d+(?:\.\d+)*)")
_OVERRIDE = "HSA_OVERRIDE_GFX_VERSION"


@rule("CUD901", cause="rocm-mismatch", severity=Severity.ERROR, gate=True)
def torch_without_hip(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The devices are AMD's, and the torch that is installed has no HIP.

    What: hip of torch/version.py, the local label of torch, or CUDA's libraries beside it, on a
        host whose GPUs are all AMD's.
    Why: the default index holds CUDA wheels; on an AMD host they find no device. With
        another Python than the ROCm wheels are for, pip takes them without a word.
    How to fix: torch from the index of the ROCm release, with a Python it has wheels for.
    Silent when: torch is not installed or nothing here runs GPUs through it, NVIDIA devices
        are there too, or a CPU run is asked for.
    Sources: PyTorch index layout; vLLM installation page for ROCm.
    """
    devices = case.need_vendor("amd")
    if any(d.vendor == "nvidia" for d in case.devices) or wants_cpu(case):
        raise NotApplicable("not an AMD host, or a CPU run")
    if not (runs_on_torch(case, matrix) or is_of_torch(case, matrix, engine_name(case, matrix))):
        raise NotApplicable("no engine here runs GPUs through torch")
    if not case.scope.torch.is_known and case.scope.lacks("torch"):
        raise NotApplicable("torch is not installed")
    build = case.scope.torch.known("torch")
    label = build.version.local
    is_other = label.startswith(("cu1", "cpu")) if label else amd_cards.has_cuda_libraries(case)
    if build.hip.is_absent or build.cuda.is_known or is_other:
        yield Fault(
            f"torch {build.version} has no HIP, and the GPUs here are AMD's",
            (Evidence(f"torch {build.version}", case.scope.torch.at), _card(devices)),
            remedies=(
                Remedy(
                    "install torch from the ROCm index",
                    ("uv pip install --reinstall torch --torch-backend=auto",),
                    role="python_env",
                ),
            ),
        )
    elif not build.hip.is_known and not label.startswith("rocm"):
        raise MissingFact("torch.hip", build.hip.missing or Missing.NOT_STATED)


def _card(devices: tuple[Device, ...]) -> Evidence:
    """The first GPU, by the name under which it was read."""
    return Evidence(devices[0].name.value or devices[0].id, devices[0].name.at)


@rule("CUD902", cause="rocm-mismatch", severity=Severity.ERROR)
def gfx_not_supported(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The GPU's gfx target is not among those of the installed libraries or the engine.

    What: the gfx of each device, as read or by its PCI id or product name, against the code objects
        in the libraries, the targets that the build's own name, its image or the wheel of torch
        give, and those that the matrix lists for the engine and its version.
    Why: HIP code objects are for one target; another one ends in "invalid device function",
        or the engine leaves the card unused.
    How to fix: a build for the target; HSA_OVERRIDE_GFX_VERSION helps only between close
        relatives and is not supported.
    Silent when: no library was read and the engine lists no targets; or the override names
        a target that is listed. A warning if the target is only missing from a list, or from
        every wheel that torch may be; a note where another card of the host has one.
    Sources: offload bundles of the libraries; build scripts and installation pages (rows in
        the matrix).
    """
    devices = case.need_vendor("amd")
    found = engine(case, matrix)
    held = amd_cards.held(case, matrix, found, runs_on_torch(case, matrix))
    posed = amd_cards.override(environment(case).get(_OVERRIDE, ""))
    # What torch's wheel holds says nothing of the engine's own libraries.
    by_torch = found.name == "torch" or matrix.engine(found.name) is None
    speaks = bool(held.targets) and (not held.of_torch or by_torch)
    known = {} if speaks else amd_cards.listed(matrix, found)
    if not held.targets and not known:
        raise MissingFact("gfx targets of the libraries", Missing.NOT_STATED)
    kinds = {(d.gfx.value or d.pci_id.value or d.name.value): d for d in devices}.values()
    seen = [(device, amd_cards.target(device, matrix)) for device in kinds]
    lacking = [
        (device, fact)
        for device, fact in seen
        if not _has_code(held, known, fact.fact) and not _has_code(held, known, posed)
    ]
    spare = len(lacking) < len(seen)
    for device, fact in lacking:
        fault = _without_code(found, device, fact, held, known)
        yield replace(fault, severity=Severity.INFO) if spare else fault


_Listed = dict[str, tuple[str, tuple[str, ...]]]


def _has_code(held: amd_cards.Held, known: _Listed, gfx: str) -> bool:
    in_build = not held.targets or gfx in held.targets
    return in_build and (not known or known.get(gfx, ("",))[0] == "supported")


def _without_code(
    found: Software, device: Device, seen: Evidence, held: amd_cards.Held, known: _Listed
) -> Fault:
    if held.targets and seen.fact not in held.targets:
        return Fault(
            f"no {held.what} here holds code for {seen.fact}, only for "
            f"{', '.join(sorted(held.targets))}",
            evidence=(seen,),
            remedies=(Remedy("install builds for this target, or build them"),),
            sources=held.sources,
            subject=device.id,
            severity=Severity.WARNING if held.is_any else None,
            extrapolated=held.extrapolated,
        )
    return Fault(
        f"{found.label} does not list {seen.fact}",
        evidence=(seen, found.evidence),
        remedies=(Remedy("build the engine for this target, or use another engine"),),
        sources=next(iter(known.values()))[1],
        subject=device.id,
        severity=Severity.WARNING,
    )


def _gfx_rows(matrix: Matrix, engine_name: str) -> list[ClaimMatch]:
    rows = matrix.claims("rocm", "gfx")
    return [match for match in rows if match.claim.data.get("engine") == engine_name]


@rule("CUD903", cause="rocm-mismatch", severity=Severity.ERROR)
def rocm_below_floor(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """ROCm on the host is older than the engine, the GPU or the torch build needs.

    What: the ROCm version against the engine's and the GPU's floors in the matrix, and
        against the ROCm that torch was built for (another major).
    Why: user space of another major does not find its libraries; new GPUs need a new ROCm.
    How to fix: the ROCm release named, or a build for the ROCm that is there.
    Silent when: the versions are not known; wheels and images that carry their ROCm.
    Sources: vLLM installation page for ROCm (rows in the matrix).
    """
    devices = case.need_vendor("amd")
    rocm = case.facts.rocm.version.known("rocm.version")
    found = engine(case, matrix)
    for what, floor, sources in _rocm_floors(matrix, found, devices):
        if rocm.older_than(Version(floor)) is True:
            yield _rocm_fault(case, f"{what} needs ROCm {floor}", rocm, sources)
    torch = torch_version(case)
    built = _ROCM_LABEL.search(torch.local) if torch is not None else None
    if built and Version(built[1]).major != rocm.major and case.scope.kind != "container":
        yield _rocm_fault(case, f"torch {torch} was built for ROCm {built[1]}", rocm, ())


def _rocm_floors(
    matrix: Matrix, found: Software, devices: tuple[Device, ...]
) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Lowest ROCm of the engine's newer releases, and of it on each target that is here."""
    name = found.name
    for match in matrix.claims("rocm", "rocm-floor", None, name):
        since = Version.maybe(str(match.claim.data.get("since", "")))
        if since is not None and found.version is not None and found.version.at_least(since):
            yield found.label, match.claim.value, match.claim.source
    targets = set(filter(None, (_gfx(device, matrix) for device in devices)))
    of_targets = (m.claim for m in matrix.claims("rocm", "gfx-floor") if m.claim.key in targets)
    yield from ((claim.key, claim.value, claim.source) for claim in of_targets)
    for match in _gfx_rows(matrix, name):
        floor = match.claim.data.get("rocm_min")
        if match.claim.key in targets and floor:
            yield f"{name} on {match.claim.key}", str(floor), match.claim.source


def _gfx(device: Device, matrix: Matrix) -> str:
    """The target of a device, "" where neither its reading nor its name tells it."""
    try:
        return amd_cards.target(device, matrix).fact.partition(":")[0]
    except MissingFact:
        return ""


def _rocm_fault(case: Case, what: str, rocm: Version, sources: tuple[str, ...]) -> Fault:
    return Fault(
        f"{what}; {rocm} is here",
        evidence=(Evidence(f"ROCm {rocm}", case.facts.rocm.version.at),),
        remedies=(Remedy("install that ROCm release, or a build for the one that is here"),),
        sources=sources,
    )


@rule("CUD904", cause="rocm-mismatch", severity=Severity.INFO)
def amdgpu_not_of_rocm(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The amdgpu kernel driver was not tested with this ROCm user space.

    What: the driver and ROCm versions against the pairs that AMD lists.
    Why: driver and user space are released apart; about two releases either way work.
    How to fix: a driver of the list for this ROCm, or a ROCm of the list for this driver.
    Silent when: the driver is the kernel's own, or numbered in another scheme than the
        list. An info: pairs outside of the list are untested, not known bad.
    Sources: ROCm user and kernel-space compatibility (rows in the matrix).
    """
    case.need_vendor("amd")
    rocm = case.facts.rocm.version.known("rocm.version")
    driver = case.facts.rocm.driver.known("rocm.driver")
    for match in matrix.claims("rocm", "driver-pair", rocm, "amdgpu"):
        same_scheme = driver.major == rocm.major
        if same_scheme and admits(match.claim.value, driver) is False:
            yield Fault(
                f"ROCm {rocm} is tested with amdgpu {match.claim.value}; {driver} is loaded",
                evidence=(Evidence(f"amdgpu {driver}", case.facts.rocm.driver.at),),
                remedies=(Remedy("install a driver of that range", reboot=True),),
                sources=match.claim.source,
            )


@rule("CUD905", cause="rocm-mismatch", severity=Severity.WARNING)
def gfx_overridden(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """HSA_OVERRIDE_GFX_VERSION makes the GPU pose as another one.

    What: the variable in the environment of the engine, and the target it names.
    Why: the runtime then loads code for another target; between close relatives it runs,
        otherwise it hangs or computes wrong values. It applies to every GPU of the host.
    How to fix: builds for the real target; unset the variable.
    Silent when: the variable is not set, or names the real target. A note for a relative
        whose code is known to run.
    Sources: ROCm runtime environment variables; LLVM, generic targets; issue threads.
    """
    devices = case.need_vendor("amd")
    value = environment(case, needed=True).get(_OVERRIDE, "")
    if not value:
        return
    named = amd_cards.override(value)
    real = {d.gfx.value.partition(":")[0] for d in devices if d.gfx.value}
    if real != {named}:
        yield Fault(
            f"HSA_OVERRIDE_GFX_VERSION={value} makes {', '.join(sorted(real)) or 'the GPU'} "
            f"pose as {named}",
            evidence=(Evidence(f"HSA_OVERRIDE_GFX_VERSION={value}", case.scope.env.at),),
            remedies=(Remedy("unset it", ("unset HSA_OVERRIDE_GFX_VERSION",)),),
            severity=Severity.INFO if _are_relatives(matrix, named, real) else None,
        )


def _are_relatives(matrix: Matrix, named: str, real: set[str]) -> bool:
    """Whether code for one target is known to run on all the real ones."""
    rows = [m.claim for m in matrix.claims("rocm", "gfx-pose", None, named)]
    return bool(real) and any(real <= {named, *row.value.split("|")} for row in rows)


@rule("DEV142", cause="device-permission", severity=Severity.ERROR)
def amd_nodes_not_open_to_user(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The user may not open the device nodes of the AMD GPUs.

    What: the access rights of /dev/kfd and /dev/dri/renderD* for the user that examines
        the host, by owner, groups and capabilities.
    Why: HIP opens both; without access torch finds no device, though the kernel lists it.
    How to fix: join the group that owns the nodes (render, on some systems video), and log
        in again; in a container give it that group's number.
    Silent when: every node can be opened, or the rights were not read.
    Sources: ROCm installation guide, group permissions; vLLM installation page for ROCm.
    """
    devices = case.need_vendor("amd")
    nodes = case.facts.rocm.nodes
    if nodes.missing is Missing.NOT_PERMITTED:
        yield Fault(
            f"this user may not open {nodes.at}",
            (Evidence("no access", nodes.at), _card(devices)),
            remedies=(
                Remedy(
                    "join the group that owns the nodes, and log in again",
                    ("stat -c '%G %a %n' /dev/kfd", "sudo usermod -aG render,video $USER"),
                ),
                Remedy(
                    "or give the container the group of the nodes",
                    ("docker run --device /dev/kfd --device /dev/dri --group-add render ...",),
                ),
            ),
        )
    elif not nodes.is_known:
        raise MissingFact("rocm.nodes", nodes.missing or Missing.NOT_STATED, nodes.at)


RULES = (
    torch_without_hip,
    gfx_not_supported,
    rocm_below_floor,
    amdgpu_not_of_rocm,
    gfx_overridden,
    amd_nodes_not_open_to_user,
)
