"""What is brought to a Jetson and made for other machines: drivers and images."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules import cards
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.framework import TORCH_ENGINES, is_jetson

_DRIVER = re.compile(
    r"nvidia-(?:driver|headless|dkms|kernel|utils)-\S*|cuda-drivers\S*|libnvidia-compute-\S*"
)
_OWN_IMAGE = re.compile(
    r"l4t|jetson|dustynv|tegra|jetpack|igpu|\br3[2-9]\.\d|\bjp[4-7]\b|orin|xavier", re.IGNORECASE
)
_FRAMEWORKS = re.compile(r"nvcr\.io/nvidia/(?:pytorch|tensorflow|tensorrt|tritonserver|vllm|sglang)\b")
_L4T = "https://docs.nvidia.com/jetson/archives/"


@rule("HST203", cause="jetson-specific", severity=Severity.ERROR)
def desktop_driver_on_jetson(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Packages of the driver for desktop and server cards are installed on a Jetson.

    What: packages of the distribution, on a Jetson.
    Why: the driver of a Jetson is part of its system (L4T) and is not a PCI driver; the other
        one finds no card, and its libraries hide those of the system.
    How to fix: remove the packages, and install the packages of the JetPack again.
    Silent when: the host is no Jetson, or no such package is named.
    Sources: NVIDIA Jetson Linux Developer Guide.
    """
    if not is_jetson(case, matrix):
        raise NotApplicable("not a Jetson")
    reading = case.facts.host.packages
    names = [p.name for p in reading.known("host.packages") if _DRIVER.fullmatch(p.name)]
    if names:
        yield Fault(
            f"{names[0]} is installed on a Jetson, whose driver is part of its system",
            evidence=(Evidence(f"installed: {', '.join(names[:4])}", reading.at),),
            remedies=(
                Remedy(
                    "remove it, and install the libraries of the JetPack again",
                    (
                        f"sudo apt-get purge {names[0]}",
                        "sudo apt-get install --reinstall nvidia-l4t-core nvidia-l4t-cuda",
                    ),
                ),
            ),
            sources=(_L4T,),
        )


@rule("HST204", cause="jetson-specific", severity=Severity.WARNING)
def general_image_on_jetson(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """An image made for servers is started on a Jetson whose system has a driver of its own.

    What: the image's name on modules up to Orin, for engines on PyTorch and for NVIDIA's
        framework images.
    Why: those images hold code for server cards, and talk to a driver of servers; images for
        these modules are made on L4T, or for integrated GPUs.
    How to fix: an image of jetson-containers or one with "igpu" in its tag, for the JetPack.
    Silent when: the module's driver is that of servers (Thor and later), the image is made for
        a Jetson, or its name is not known.
    Sources: jetson-containers; release notes of NVIDIA's framework containers.
    """
    if not is_jetson(case, matrix):
        raise NotApplicable("not a Jetson")
    ref = case.scope.image.ref
    name = case.workload.engine if case.workload is not None else ""
    if not ref or not (_FRAMEWORKS.match(ref) or name in TORCH_ENGINES):
        raise NotApplicable("no image of an engine on PyTorch")
    if _is_like_servers(case, matrix) or _OWN_IMAGE.search(ref):
        return
    yield Fault(
        f"{ref} is made for servers, and this is a Jetson with a driver of its own",
        evidence=(
            Evidence(f"image {ref}", "container"),
            *(cards.evidence(d, matrix) for d in case.nvidia_devices[:1]),
        ),
        remedies=(
            Remedy("use an image made for this JetPack, of jetson-containers or with igpu in its tag"),
        ),
        sources=("https://github.com/dusty-nv/jetson-containers",),
    )


def _is_like_servers(case: Case, matrix: Matrix) -> bool:
    """JetPack 7 has the driver of servers, for the modules that came with it."""
    jetpack = case.facts.host.jetpack.value
    claims = matrix.claims("nvidia-driver", "jetson-server-driver")
    first = next((match.claim.data for match in claims), {})
    if jetpack is not None and (jetpack.major or 0) >= int(first.get("jetpack", 99)):
        return True
    names = " ".join(d.name.value or "" for d in case.nvidia_devices)
    return bool(first) and re.search(str(first["modules"]), names, re.IGNORECASE) is not None


RULES: tuple[Rule, ...] = (desktop_driver_on_jetson, general_image_on_jetson)
