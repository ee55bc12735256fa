"""What an engine needs of memory that WSL does not offer, or that the engine leaves off there."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.model_facts import environment
from doctor.rules.settings import possible, settings
from doctor.rules.software import engine


@rule("HST199", cause="wsl-specific", severity=Severity.WARNING)
def engine_part_off_in_wsl(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A part of the engine that runs by default cannot run in WSL as it is.

    What: in WSL, parts of the releases that the engine may be of which the matrix records
        that they do not start there, unless the variable that helps is set.
    Why: pinned memory, which the GPU reads in place, costs more under WSL and is limited
        there; engines leave it off, and parts that are built on it stop at start.
    How to fix: turn the part off, or pinned memory on, as the finding says.
    Silent when: not WSL, or one of the variables is set. A note where no variable at all is
        stated, for those who run the engine in WSL have mostly set them, or where only some
        of the releases that it may be are concerned.
    Sources: issue threads of the engine (rows in the matrix).
    """
    if case.facts.host.platform.known("host.platform") != "wsl2":
        raise NotApplicable("not WSL")
    found = engine(case, matrix)
    env = environment(case)
    for match, is_sure in possible(matrix, found, "wsl", settings(case, matrix)[0]):
        claim = match.claim
        switches = claim.data.get("unless_env", {})
        if any(env.get(name) == str(value) for name, value in switches.items()):
            continue
        which = "" if is_sure else f" of {claim.since} to before {claim.until}"
        yield Fault(
            f"{claim.key} of {found.label}{which} does not start in WSL: {claim.text}",
            evidence=(found.evidence, Evidence("WSL 2", case.facts.host.platform.at)),
            remedies=(Remedy(claim.remedy),),
            sources=claim.source,
            extrapolated=match.extrapolated,
            severity=None if is_sure and env else Severity.INFO,
        )
        return


RULES: tuple[Rule, ...] = (engine_part_off_in_wsl,)
