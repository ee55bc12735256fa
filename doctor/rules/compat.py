"""Forward compatibility: may a newer libcuda talk to this kernel driver on this card."""

from __future__ import annotations

from enum import Enum

from doctor.facts import Device, DriverLibrary, Version
from doctor.matrix import Matrix
from doctor.matrix.model import ForwardCompat
from doctor.rules import cards
from doctor.rules.cuda_level import effective_library, two_parts
from doctor.rules.engine import Case
from doctor.rules.model_facts import environment

# NVML's brand numbers (nvmlBrandType_t) that stand for a product class of the matrix.
_BRAND_OF_CLASS = {"geforce": 5, "titan": 6}
_CONTAINERS = ("container", "image")


class Compat(Enum):
    """The answer of the driver stack to a forward-compatibility libcuda."""

    ALLOWED = "allowed"
    OLDER = "older than the kernel driver"
    BRANCH = "not made for the kernel driver's branch"
    CARD = "not made for this class of card"


def verdict(
    library: DriverLibrary, driver: Version | None, devices: tuple[Device, ...], matrix: Matrix
) -> Compat | None:
    """Judge a compat library by its own note, else by the matrix row of its CUDA version.

    None if too little is known.
    """
    row = matrix.forward_compat(library.cuda) if library.cuda else None
    if library.version is None and _is_of_older_branch(library.cuda, driver, matrix):
        return Compat.OLDER
    if driver is not None and library.version is not None:
        if library.version.older_than(driver) is True:
            return Compat.OLDER
        branches = library.branches or (row.branches if row else ())
        if branches and driver.major not in branches:
            return Compat.BRANCH
    # Which classes of cards are served has not changed between the libraries that were read.
    classes = row or _nearest(matrix)
    answers = [_card_allowed(device, library.brands, classes, matrix) for device in devices]
    if False in answers:
        return Compat.CARD
    return None if None in answers or not answers or driver is None else Compat.ALLOWED


def _is_of_older_branch(cuda: Version | None, driver: Version | None, matrix: Matrix) -> bool:
    """Tell whether that CUDA came with a driver branch before the host's."""
    toolkit = matrix.toolkit(two_parts(cuda)) if cuda is not None else None
    if toolkit is None or driver is None or driver.major is None:
        return False
    own = toolkit.min_branch or int((toolkit.min_driver or "0").partition(".")[0])
    return 0 < own < driver.major


def _card_allowed(
    device: Device, brands: tuple[int, ...] | None, row: ForwardCompat | None, matrix: Matrix
) -> bool | None:
    kind = cards.gpu_class(device, matrix)
    brand = device.brand.value if device.brand.is_known else _BRAND_OF_CLASS.get(kind)
    if brands is not None and brand is not None:
        return brand in brands
    if row is not None and row.classes and kind:
        return kind not in row.classes
    return None


def eligible(case: Case, runtime: Version, matrix: Matrix) -> bool | None:
    """Tell whether a compat library of that CUDA version could serve every card of the case.

    None if the matrix or the facts do not say.
    """
    own = matrix.forward_compat(two_parts(runtime))
    row = own or _nearest(matrix)
    driver = case.facts.nvidia.driver.value
    if row is None or not case.nvidia_devices:
        return None
    answers = [_card_allowed(device, None, row, matrix) for device in case.nvidia_devices]
    if False in answers:
        return False
    if driver is None or None in answers:
        return None
    if row.branches and driver.major not in row.branches:
        # Another library's list admits branches, but does not exclude any.
        return False if own else None
    return True


def unserved_card(case: Case, cuda: Version, matrix: Matrix) -> Device | None:
    """The first card of a class that compat libraries are known not to serve."""
    row = matrix.forward_compat(two_parts(cuda)) or _nearest(matrix)
    refused = (
        d
        for d in case.nvidia_devices
        if _card_allowed(d, None, row, matrix) is False or _is_dropped(d, cuda, matrix)
    )
    return next(refused, None)


def _is_dropped(device: Device, cuda: Version, matrix: Matrix) -> bool:
    """The driver branch that the library is a part of does not know the card any more."""
    toolkit = matrix.toolkit(two_parts(cuda))
    if toolkit is None:
        return False
    own = toolkit.min_branch or int((toolkit.min_driver or "0").partition(".")[0])
    last = cards.branch_span(device, matrix).last
    return last is not None and own > last


def admits_branch(case: Case, cuda: Version, matrix: Matrix) -> bool | None:
    """Tell whether an image of that CUDA admits an older driver: by its cards, else its branch."""
    if case.nvidia_devices:
        return eligible(case, cuda, matrix)
    row, driver = matrix.forward_compat(two_parts(cuda)), case.facts.nvidia.driver.value
    if row is None or driver is None or not row.branches:
        return None
    return driver.major in row.branches


def may_be_brought(case: Case, cuda: Version, matrix: Matrix) -> bool:
    """Images and toolkits may bring a forward-compatibility libcuda; a bare host has none."""
    if not case.nvidia_devices or eligible(case, cuda, matrix) is False:
        return False
    boxed = case.scope.kind in ("container", "image") or bool(case.scope.image.ref)
    versions = (t.version for t in case.facts.nvidia.toolkits.value or ())
    return boxed or any(v is not None and v.major == cuda.major for v in versions)


def _nearest(matrix: Matrix) -> ForwardCompat | None:
    """The newest library whose rules are known: rules have changed little between them."""
    rows = matrix.cuda.forward_compat
    return max(rows, key=lambda row: Version(row.cuda).low, default=None)


def may_be_active(case: Case, runtime: Version, matrix: Matrix) -> bool:
    """Tell whether an unseen compat library of the image may be in use.

    Images made from NVIDIA's carry one, and the container toolkit puts it first where
    card and branch allow it.
    """
    seen = effective_library(case) is not None or case.facts.nvidia.cuda_driver_api.is_known
    inside = case.scope.kind in _CONTAINERS and not _is_switched_off(case, matrix)
    return inside and not seen and eligible(case, runtime, matrix) is True


def _is_switched_off(case: Case, matrix: Matrix) -> bool:
    """Tell whether the engine's own variable leaves the library of its image unused."""
    env = environment(case)
    name = case.workload.engine if case.workload is not None else ""
    switches = (m.claim for m in matrix.claims(matrix.canonical(name) or name, "env-var"))
    return any(
        claim.data.get("switches") == "forward-compatibility" and env.get(claim.key) == "0"
        for claim in switches
    )
