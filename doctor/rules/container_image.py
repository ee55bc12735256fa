"""Does an image let this driver in."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.facts import Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules.cuda_level import level
from doctor.rules.driver_choice import install_branch
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.image_facts import (
    REST_UNKNOWN,
    brands_of,
    image_cuda,
    requirement,
    satisfied,
)


@rule("CTR111", cause="container-requirement-unsatisfied", severity=Severity.ERROR)
def image_refuses_driver(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The image's own requirement refuses this driver, and the container does not start.

    What: NVIDIA_REQUIRE_CUDA of the image, or of the CUDA base that its tag is known to
        have or a note names, against the driver's CUDA version, the driver and the card's brand.
    Why: the container toolkit checks it before start: "unsatisfied condition: cuda>=...".
        Data-centre cards on certain branches are let in with a compat library.
    How to fix: an image for an older CUDA, or a newer driver on the host. Turning the
        check off (NVIDIA_DISABLE_REQUIRE) does not make the code run.
    Silent when: one alternative is met, the check is turned off, or nvidia-smi is said to
        work inside, where the container has started.
    Sources: NVIDIA_REQUIRE_CUDA of CUDA base images (rows in the matrix);
        libnvidia-container, requirement syntax.
    """
    _need_check(case)
    found = requirement(case.scope, matrix) or _told(case)
    if found is None:
        case.scope.image.require_cuda.known("scope.image.require_cuda")
        return
    text, fact, sources = found
    driver = case.facts.nvidia.driver
    offered = level(case, matrix)
    if offered is None:
        driver.known("nvidia.driver")
        return
    brands = brands_of(case.nvidia_devices, matrix)
    answer = satisfied(text, offered.cuda, driver.value, brands)
    if answer is True:
        return
    first = text.split()[0]
    if answer is None and _is_met(first, offered.cuda) is not False:
        case.facts.nvidia.cuda_driver_api.known("nvidia.cuda_driver_api")
    yield Fault(
        message=f"the image asks for {first}, and the driver offers CUDA {offered.cuda}"
        + ("" if answer is False else "; only some data-centre cards would be let in"),
        evidence=(fact, offered.evidence),
        remedies=(
            Remedy("use an image made for a CUDA version that the driver offers"),
            *install_branch(case, matrix, _wanted(case, matrix)),
        ),
        sources=(*sources, *offered.sources),
        severity=None if answer is False else Severity.WARNING,
    )


def _told(case: Case) -> tuple[str, Evidence, tuple[str, ...]] | None:
    """The CUDA that a note says the image is made for; more alternatives are not known."""
    match = next(filter(None, map(_IMAGE_OF_CUDA.search, case.facts.notes)), None)
    if match is None:
        return None
    return f"cuda>={match[1]} {REST_UNKNOWN}", Evidence(match[0], "notes"), ()


_IMAGE_OF_CUDA = re.compile(
    r"\bimage\b[^.;\n]{0,25}\b(?:is|of|for|on|has|holds|uses|with)\b[^.;\n]{0,12}"
    r"\bCUDA[ -]?(\d{1,2}\.\d)\b",
    re.IGNORECASE,
)


def _need_check(case: Case) -> None:
    """Raise NotApplicable where the toolkit checks nothing."""
    if case.scope.kind not in ("container", "image"):
        raise NotApplicable("not a container")
    if case.facts.devices.value and not case.nvidia_devices:
        raise NotApplicable("no nvidia device")
    env = case.scope.env.value or {}
    if env.get("NVIDIA_DISABLE_REQUIRE", "").lower() in ("1", "true"):
        raise NotApplicable("the check is turned off")
    if has_started(case):
        raise NotApplicable("the container has started")


def has_started(case: Case) -> bool:
    """Somebody tells that nvidia-smi works inside the container: its requirement let it start."""
    return any(map(_WORKS_INSIDE.search, case.facts.notes))


def _is_met(term: str, offered: Version) -> bool | None:
    return satisfied(term, offered, None, ())


def _wanted(case: Case, matrix: Matrix) -> Version | None:
    found = image_cuda(case.scope, matrix)
    return found.cuda if found else None


_WORKS_INSIDE = re.compile(
    r"\bnvidia-smi\b[^.;\n]{0,20}\b(?:works?|runs|shows|lists|sees|is fine)\b[^.;\n]{0,60}"
    r"\b(?:inside|in|within) (?:of )?(?:the |a |that )?(?:container|pod|image)\b",
    re.IGNORECASE,
)

RULES: tuple[Rule, ...] = (image_refuses_driver,)
