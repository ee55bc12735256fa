"""What a person should know before a driver is changed, and that stands in nobody's way. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from doctor.facts import Facts, Version
from doctor.matrix import Matrix
from doctor.matrix.packaging import TOOLKIT, companion, repository_for
from doctor.provision.driver.choose import Wish
from doctor.provision.driver.rendered import repository_url


def notes_of(facts: Facts, matrix: Matrix, failed: Sequence[str]) -> tuple[str, ...]:
    """Repositories that did not answer, what cannot be proven there, an engine that is too old."""
    return (*(f"a repository did not answer: {line}" for line in failed[:2]), *_of(facts, matrix))


def _of(facts: Facts, matrix: Matrix) -> Iterator[str]:
    if facts.host.platform.value == "container":
        yield "this is a container: the kernel and its modules are those of its host"
    if not any(d.vendor == "nvidia" for d in facts.devices.value or ()):
        yield "no NVIDIA card was found there: the driver cannot be proven on it"
    engine = facts.container_engine.value
    if engine is None:
        return
    floor = Version.maybe(companion(matrix, TOOLKIT).floors.get(engine.name))
    found = engine.version.value
    if floor is not None and found is not None and found.older_than(floor):
        yield (
            f"{engine.name} {found} is too old for the toolkit's description of devices (CDI), "
            f"which {floor} reads: containers get GPUs by the nvidia runtime only"
        )


def unoffered(wish: Wish, names: Sequence[str], failed: Sequence[str]) -> str:
    """No repository has what is wanted: which names were looked for."""
    exact = f" at {wish.version}" if wish.version else ""
    floor = f", {wish.minimum} or later" if wish.minimum else ""
    why = f" ({failed[0]})" if failed else ""
    return (
        f"no repository of that machine offers branch {wish.branch}{floor}{exact} with "
        f"{wish.modules} modules: looked for {', '.join(dict.fromkeys(names))}{why}"
    )


def elsewhere(system: str, facts: Facts, matrix: Matrix) -> str:
    """NVIDIA's repository for the system, which a person may add; "" if none is known."""
    found = repository_for(matrix, system)
    if found is None:
        return ""
    key = f", signed by a key whose id ends in {found.key[-8:]}" if found.key else ""
    return f". NVIDIA's is {repository_url(found, facts, matrix)}{key}"
