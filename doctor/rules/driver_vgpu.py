"""Virtual GPUs: their licence, and what their type leaves out."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.facts import REPORTED, Device
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules import cards
from doctor.rules.decide import is_absent, missed
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule

_LICENCE_SERVICE = "nvidia-gridd"
_ITS_FILES = re.compile(
    r"(?:nvidia[- ])?gridd(?:\.conf|\.service)?|(?:/etc/nvidia/)?(?:gridd\.conf|"
    r"ClientConfigToken\S*)|"
    r"(?:client_configuration_token|client config(?:uration)? token|licen[cs]e token)\S*|"
    r"(?:vgpu |grid |valid )*licen[cs]e(?: file| server)?",
    re.IGNORECASE,
)
# Series of a type that have no CUDA: for applications and for desktops.
_NO_CUDA = re.compile(r"-(?:\d-)?\d{1,3}[AB](?:ME)?$")
_GUIDE = "https://docs.nvidia.com/vgpu/latest/grid-licensing-user-guide/"
_TYPES = "https://docs.nvidia.com/vgpu/latest/grid-vgpu-user-guide/"
_OTHER_DRIVER = re.compile(
    r"\bno (?:grid|vgpu|virtual gpu)(?: guest)? drivers?\b|"
    r"\b(?:data ?cent(?:er|re)|cuda|tesla|geforce|regular|public|stock|standard|normal|plain)"
    r"[^.;,\n]{0,25}\bdrivers?\b[^.;\n]{0,40}\b(?:instead|in place|not|without)\b"
    r"[^.;\n]{0,20}\b(?:grid|vgpu|guest)\b",
    re.IGNORECASE,
)
# What reports about the driver itself name in place of an engine.
_NO_ENGINES = ("driver", "gpu-operator", "container-toolkit")


@rule("DRV171", cause="vgpu-unlicensed", severity=Severity.ERROR)
def vgpu_without_licence(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A virtual GPU has no licence, or the service that fetches it is missing.

    What: for vGPU devices, the series of their type, the licence state and the licence
        service of the guest.
    Why: without a licence a vGPU is slowed down after minutes and then refuses CUDA work,
        while nvidia-smi goes on to look healthy. Types of the A and B series offer no CUDA.
    How to fix: install the guest driver with its licence service, give it the licence
        token, and start it; for CUDA, a type of the Q or C series. The public driver of a whole
        card does not start a virtual one: a warning where somebody tells of it.
    Silent when: the device is a whole GPU, passed through or not. A warning where somebody
        tells of an engine on a virtual GPU and nothing of its licence.
    Sources: NVIDIA Virtual GPU Software, client licensing guide and user guide; Azure/AKS
        issue 4880.
    """
    virtual = _virtual(case, matrix)
    bare = next((d for d in virtual if _NO_CUDA.search((d.name.value or "").strip())), None)
    if bare is not None and _is_engine(case):
        yield _no_cuda(bare, matrix)
        return
    nvidia = case.facts.nvidia
    other = next(filter(None, map(_OTHER_DRIVER.search, case.facts.notes)), None)
    if other is not None:
        yield _wrong_driver(virtual[0], matrix, other[0])
        return
    lost = missed(case, _ITS_FILES)
    if lost or is_absent(case, _LICENCE_SERVICE):
        name = lost[0] if lost else _LICENCE_SERVICE
        yield _unlicensed(virtual[0], matrix, f"{name} is not there", "absent", None)
    elif not nvidia.licensed.is_known and _is_engine(case) and case.scope.id == REPORTED:
        told = "nothing tells of its licence"
        yield _unlicensed(virtual[0], matrix, told, "", Severity.WARNING)
    elif nvidia.licensed.known("nvidia.licensed") is False:
        at = nvidia.licensed.at
        yield _unlicensed(virtual[0], matrix, "the licence is not granted", at, None)


def _virtual(case: Case, matrix: Matrix) -> list[Device]:
    found = cards.desktop_cards(case, matrix)
    virtual = [d for d in found if d.virtual.value]
    if not virtual:
        for device in found:
            device.virtual.known("devices.virtual")
        raise NotApplicable("no virtual GPU")
    return virtual


def _is_engine(case: Case) -> bool:
    return case.workload is not None and case.workload.engine not in _NO_ENGINES


def _no_cuda(device: Device, matrix: Matrix) -> Fault:
    return Fault(
        message=f"{cards.label(device, matrix)} is a virtual GPU of a series without CUDA",
        evidence=(cards.evidence(device, matrix),),
        remedies=(Remedy("give the virtual machine a type of the Q or C series"),),
        sources=(_TYPES,),
    )


def _wrong_driver(device: Device, matrix: Matrix, told: str) -> Fault:
    return Fault(
        message=f"{cards.label(device, matrix)} is a virtual GPU, and the driver is not the guest "
        "driver of its vGPU software",
        evidence=(Evidence(told, "notes"), cards.evidence(device, matrix)),
        remedies=(
            Remedy(
                "install the guest driver that goes with the host's vGPU software (on Azure the "
                "GRID driver), in place of the public one",
                ("nvidia-smi -q | grep -iE 'license|virtualization'",),
            ),
        ),
        sources=(
            _TYPES,
            "https://learn.microsoft.com/en-us/azure/virtual-machines/linux/n-series-driver-setup",
        ),
        severity=Severity.WARNING,
    )


def _unlicensed(
    device: Device, matrix: Matrix, fact: str, at: str, severity: Severity | None
) -> Fault:
    return Fault(
        message=f"{cards.label(device, matrix)} is a virtual GPU, and {fact}",
        evidence=(Evidence(fact, at), cards.evidence(device, matrix)),
        remedies=(
            Remedy(
                action="install the vGPU guest driver with its licence service, "
                "put the licence token in place and start the service",
                commands=(
                    f"sudo systemctl enable --now {_LICENCE_SERVICE}",
                    "nvidia-smi -q | grep -A2 -i license",
                ),
            ),
        ),
        sources=(_GUIDE,),
        severity=severity,
    )


RULES: tuple[Rule, ...] = (vgpu_without_licence,)
