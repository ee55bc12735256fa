"""Libraries of the driver that are mounted into a container and not found there."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules.container_runtime import GUIDE
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule

_LIBRARY = r"lib(?:cuda|nvidia-ml|nvidia-\w{2,20})\.so[.\d]{0,12}"
_EMPTY = re.compile(
    rf"\b{_LIBRARY}[^.;\n]{{0,60}}(?:\.so\S{{0,10}}[^.;\n]{{0,40}})?\b(?:empty|0 bytes|zero bytes|"
    r"too short|size 0)\b",
    re.IGNORECASE,
)
_LDCONFIG = re.compile(
    r"\bldconfig\b[^.;\n]{0,20}\b(?:in|inside|within) (?:of )?(?:the |a )?(?:container|pod)\b"
    r"[^.;\n]{0,15}\b(?:mends?|fixes|fixed|helps?|helped|solves?|solved|works?)\b|"
    r"\b(?:links?|symlinks?)\b[^;\n]{0,40}\b(?:missing|not (?:created|made|there))\b[^.;\n]{0,20}"
    r"\b(?:in|inside|within) (?:the |a )?(?:containers?|pods?)\b",
    re.IGNORECASE,
)
_SETTING = re.compile(r"\bldconfig\s?=\s?[\"']?@?(/\S{0,60}?)[\"'\s]", re.IGNORECASE)
_USUAL = ("/sbin/ldconfig", "/sbin/ldconfig.real", "/usr/sbin/ldconfig")


@rule("CTR109", cause="container-runtime", severity=Severity.WARNING)
def mounted_and_not_found(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The driver's libraries are handed to the container, and its loader does not find them.

    What: what is told of the container: that ldconfig inside mends it, that links are missing,
        a setting ldconfig of the toolkit that names no such program, or empty files in the
        image in the place of the libraries.
    Why: NVIDIA's runtime mounts the libraries by their full names and runs the host's ldconfig
        for the links; with a wrong path it does not run. An image that was made from a running
        container keeps empty files under those names, over which nothing can be mounted.
    How to fix: ldconfig = "@/sbin/ldconfig" (on Ubuntu "@/sbin/ldconfig.real") in the toolkit's
        configuration, or a newer toolkit; remove the empty files from the image.
    Silent when: nothing of this is told.
    Sources: NVIDIA Container Toolkit documentation, configuration; libnvidia-container issues
        67 and 117.
    """
    if case.scope.kind not in ("container", "image"):
        raise NotApplicable("no container")
    texts = (case.scope.runtime.value or "", *case.facts.notes)
    words = (_EMPTY, _LDCONFIG)
    said = next((m[0] for t in texts for w in words if (m := w.search(t)) is not None), "")
    paths = (m[1] for t in texts if (m := _SETTING.search(f"{t} ")) is not None)
    said = said or next((f"ldconfig = {path}" for path in paths if path not in _USUAL), "")
    if said:
        yield Fault(
            "the driver's libraries are mounted into the container, and its loader does not "
            "find them",
            evidence=(Evidence(said, "stated"),),
            remedies=(
                Remedy(
                    "name the host's ldconfig in the toolkit's configuration",
                    (
                        "sudo nvidia-ctk config --set nvidia-container-cli.ldconfig=@/sbin/ldconfig"
                        " --in-place",
                    ),
                    role="container_toolkit",
                ),
                Remedy("or remove empty libcuda and libnvidia-* files from the image"),
            ),
            sources=(GUIDE, "https://github.com/NVIDIA/libnvidia-container/issues/117"),
        )


RULES: tuple[Rule, ...] = (mounted_and_not_found,)
