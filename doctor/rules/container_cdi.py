"""Devices asked for by their CDI names, of an engine whose version does not know such names."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.facts import Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules.container_runtime import CDI_AGAIN, GUIDE, TOOLKIT_DOMAIN
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule

_CDI_NAME = re.compile(r"nvidia\.com/gpu=\S{1,40}", re.IGNORECASE)
_ENGINE = re.compile(
    r"\b(docker|podman)\b(?: ?(?:engine|version|v)? ?(\d{1,2}\.\d{1,2}(?:\.\d{1,2})?))?", re.I
)

_BY_RUNTIME = Remedy(
    "or let NVIDIA's runtime hand the devices over",
    ("sudo nvidia-ctk runtime configure --runtime=docker",),
    role="container_toolkit",
)


@rule("CTR108", cause="container-runtime", severity=Severity.ERROR)
def engine_without_cdi(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A device is asked for by its CDI name, and this version of the engine knows no CDI.

    What: the option --device nvidia.com/gpu=... in what is told of the container, against the
        version of Docker or Podman.
    Why: older engines take the name for a file: "stat nvidia.com/gpu=0: no such file or
        directory", or "error gathering device information".
    How to fix: a newer engine; or the runtime of NVIDIA's toolkit (--gpus, --runtime=nvidia),
        which can be put into the mode cdi.
    Silent when: the version is not told, or knows CDI, or no such name is asked for.
    Sources: Podman 4.1 release notes; Docker documentation, dockerd, CDI devices (claims in
        the matrix).
    """
    text = case.scope.runtime.value or ""
    asked, engine = _CDI_NAME.search(text), _ENGINE.search(text)
    if asked is None or engine is None:
        raise NotApplicable("no device is asked for by a CDI name")
    box = case.facts.container_engine.value
    told = Version.maybe(engine[2] or "") or (box.version.value if box is not None else None)
    if told is None:
        case.facts.container_engine.known("container_engine.version")
        return
    for match in matrix.claims(TOOLKIT_DOMAIN, "cdi-since"):
        since = Version(match.claim.value)
        if match.claim.key == engine[1].lower() and told.older_than(since) is True:
            yield Fault(
                f"{engine[1]} {told} knows no CDI devices, which came with {since}",
                evidence=(Evidence(asked[0], case.scope.runtime.at),),
                remedies=(
                    Remedy(f"use {engine[1]} {since} or newer"),
                    *((_BY_RUNTIME,) if match.claim.key == "docker" else ()),
                ),
                sources=(*match.claim.source, GUIDE),
            )


_STALE = re.compile(
    r"\b(?:cdi|nvidia\.yaml)\b[^;\n]{0,60}\b(?:(?:not|never) (?:been )?(?:re-?)?(?:generated|made|"
    r"written|refreshed|updated)|(?:is |was )?(?:stale|out ?dated|out of date)|before the (?:driver"
    r" )?(?:upgrade|update)|old driver|(?:still )?(?:lists?|names?|points? to) (?:the )?(?:old|"
    r"files|libraries)\b[^;\n]{0,30}\b(?:gone|removed|old))|"
    r"\b(?:stale|out ?dated|old) (?:\S{1,12} )?(?:cdi|nvidia\.yaml)\b|"
    r"\bnvidia\.yaml\b[^;\n]{0,40}\b(?:does not exist|no longer exists?|is gone|are gone)\b|"
    r"\b(?:until|only after|unless) (?:\w+ ){0,3}nvidia-ctk cdi generate\b|"
    r"\bnvidia-ctk cdi generate (?:was |is )?(?:not|never) (?:run|called)\b[^;\n]{0,20}"
    r"\b(?:since|after)\b",
    re.IGNORECASE,
)


@rule("CTR110", cause="container-runtime", severity=Severity.WARNING)
def cdi_not_made_again(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The CDI description was not made again after the driver was upgraded.

    What: notes that say so, or that it works only once nvidia-ctk cdi generate was run.
    Why: the description lists the driver's files by name, and an upgrade gives them new ones:
        the container does not start ("no such file or directory"), or finds no libcuda.
    How to fix: make it again after each upgrade; newer toolkits bring a unit of systemd
        (nvidia-cdi-refresh) that does.
    Silent when: nobody says so, or the driver of the description is known: another rule judges.
    Sources: NVIDIA Container Toolkit documentation, CDI support.
    """
    box = case.facts.container_engine.value
    if box is not None and box.cdi_driver.is_known:
        raise NotApplicable("the driver of the description is known")
    texts = (case.scope.runtime.value or "", *case.facts.notes)
    if not any(texts):
        raise NotApplicable("nothing is told of a CDI description")
    said = next(filter(None, map(_STALE.search, texts)), None)
    if said is None:
        return
    yield Fault(
        "the CDI description is older than the driver: the files that it lists are gone",
        evidence=(Evidence(said[0], "notes"),),
        remedies=(CDI_AGAIN,),
        sources=(GUIDE,),
    )


RULES: tuple[Rule, ...] = (engine_without_cdi, cdi_not_made_again)
