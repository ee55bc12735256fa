"""A forward-compatibility libcuda of an image, or one whose work shows, on cards that refuse it."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.facts import Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules import cards, compat
from doctor.rules.container_image import has_started
from doctor.rules.cuda_level import Load, is_windows_driver, level, relation
from doctor.rules.driver_choice import install_branch
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.image_facts import (
    CUDA_BASE,
    brands_of,
    image_cuda,
    requirement,
    satisfied,
    tagged,
)


@rule("DRV132", cause="forward-compat-unsupported-hw", severity=Severity.WARNING)
def compat_library_of_image(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The image's forward-compatibility libcuda is used on a card that does not allow it.

    What: the CUDA version that is offered inside against that of the driver's own libcuda; or
        an image made on NVIDIA's CUDA base, or one of unknown base that has started, for a newer
        CUDA of the same major than the driver's, on cards of which one is not served by forward
        compatibility.
    Why: these images bring a libcuda of their own CUDA version, and the container toolkit, or
        the image itself, puts it before that of the host. Alone, such a build would run by
        minor-version compatibility; with that libcuda the first CUDA call fails with 804.
    How to fix: raise the host's driver to the CUDA version of the image, or take an image for
        the driver's; or put the host's libcuda first in the container.
    Silent when: the driver offers the CUDA version of the image itself, every card is served,
        or the image refuses the driver anyway.
    Sources: CUDA Compatibility guide, forward compatibility; vLLM issue 5510 and its
        Dockerfile (ldconfig of the compat folder).
    """
    if case.facts.host.platform.value == "jetson" or is_windows_driver(case, matrix):
        raise NotApplicable("its driver follows other rules")
    case.need_vendor("nvidia")
    case.facts.nvidia.driver.known("nvidia.driver")
    found = _in_use(case, matrix) or _brought(case, matrix)
    if found is None:
        raise NotApplicable("nothing brings a newer libcuda")
    cuda, fact = found
    card = compat.unserved_card(case, cuda, matrix)
    if card is not None:
        driver = case.facts.nvidia.driver
        yield Fault(
            message=f"a libcuda for CUDA {cuda} is used with driver {driver.value}, and forward "
            f"compatibility does not serve {cards.label(card, matrix)}",
            evidence=(fact, Evidence(f"driver {driver.value}", driver.at)),
            remedies=(
                Remedy("use an image made for a CUDA version that the driver offers"),
                *install_branch(case, matrix, cuda),
            ),
            sources=("https://github.com/vllm-project/vllm/issues/5510",),
        )


def _in_use(case: Case, matrix: Matrix) -> tuple[Version, Evidence] | None:
    """A CUDA version above that of the driver's branch comes from another libcuda."""
    nvidia = case.facts.nvidia
    api, driver = nvidia.cuda_driver_api.value, nvidia.driver.value
    row = matrix.branch(driver) if driver is not None else None
    if api is None or row is None or not row.cuda:
        return None
    if api.newer_than(Version(row.cuda)) is not True:
        return None
    return api, Evidence(f"CUDA {api} beside a driver for {row.cuda}", nvidia.cuda_driver_api.at)


def _brought(case: Case, matrix: Matrix) -> tuple[Version, Evidence] | None:
    """An image on NVIDIA's CUDA base for a newer minor than the driver's, which lets it in."""
    scope = case.scope
    known, image, offered = tagged(scope.image.ref, matrix), image_cuda(scope, matrix), None
    is_based = (known is None and scope.image.cuda.is_known and has_started(case)) or (
        known is not None and CUDA_BASE in (known.row.repository, known.row.base.split(":")[0])
    )
    if is_based and image is not None:
        offered = level(case, matrix)
    if image is None or offered is None or offered.compat:
        return None
    driver = case.facts.nvidia.driver.value
    if relation(image.cuda, offered.cuda, driver, matrix) is not Load.MINOR:
        return None
    asked = None if has_started(case) else requirement(scope, matrix)
    brands = brands_of(case.nvidia_devices, matrix)
    if asked and satisfied(asked[0], offered.cuda, driver, brands) is False:
        return None
    return image.cuda, image.evidence


@rule("DRV104", cause="driver-too-old", severity=Severity.WARNING)
def driver_below_image_branch(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """An image of NVIDIA is made for a newer driver branch, and these cards are no exception.

    What: the CUDA version of the image, the driver and the cards, for images whose entry
        script checks the driver and knows no minor-version compatibility.
    Why: the release notes of such an image name a driver branch; older branches are admitted
        on data-centre cards only. Elsewhere its script says that the compatibility mode is
        unavailable, and the first CUDA call fails with 804. Later images run on.
    How to fix: raise the driver to the branch of the image's CUDA, or take an older release.
    Silent when: the driver offers the image's CUDA, or card and branch are admitted; or the
        card is not known and the branch is.
    Sources: release notes of NVIDIA's framework containers (rows in the matrix).
    """
    if case.facts.host.platform.value == "jetson" or is_windows_driver(case, matrix):
        raise NotApplicable("its driver follows other rules")
    known, image = tagged(case.scope.image.ref, matrix), image_cuda(case.scope, matrix)
    if known is None or image is None or known.row.extra.get("minor") != "refused":
        raise NotApplicable("no image whose script refuses older drivers of the same major")
    offered = level(case, matrix)
    if offered is None or offered.compat:
        case.facts.nvidia.driver.known("nvidia.driver")
        return
    driver = case.facts.nvidia.driver
    if relation(image.cuda, offered.cuda, driver.value, matrix) is not Load.MINOR:
        return
    if compat.admits_branch(case, image.cuda, matrix) is False:
        yield Fault(
            message=f"{case.scope.image.ref} is made for the drivers of CUDA {image.cuda}, and "
            f"this one offers {offered.cuda}; older ones are admitted on data-centre cards only",
            evidence=(image.evidence, offered.evidence),
            remedies=(
                *install_branch(case, matrix, image.cuda),
                Remedy("or use the release of the image for the CUDA that the driver offers"),
            ),
            sources=image.sources,
        )


RULES: tuple[Rule, ...] = (driver_below_image_branch, compat_library_of_image)
