"""The resolver: the newest stacks that would work here, why not newer ones, and what would."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from doctor.diagnose import diagnose
from doctor.facts import Device, Facts
from doctor.findings import Finding, Rung, Severity
from doctor.matrix import Matrix
from doctor.rules.cards import need_known
from doctor.rules.model_facts import known_model
from doctor.stack.goals import choices
from doctor.stack.judge import Judge
from doctor.stack.model import POSSIBLE, PROVEN, REFUSED, Ask, Choice, Judged, Resolution
from doctor.stack.search import Found, candidates, search
from doctor.stack.setting import setting_of, with_arch
from doctor.stack.summary import summed_up

_SHOWN_POSSIBLE = 3
_SHOWN_REFUSED = 40


def resolve(facts: Facts, matrix: Matrix, ask: Ask, with_unlocks: bool = True) -> Resolution:
    """Propose stacks for a host; of several engines that suit an aim, the first that has one.

    Raises UsageError for an engine, an aim or a card that is not known.
    """
    need_known(facts.devices.value or (), matrix)
    facts, note = with_arch(facts, matrix)
    tried: list[Resolution] = []
    for choice in choices(matrix, ask, setting_of(facts).vendor):
        tried.append(_for_engine(facts, matrix, replace(ask, engine=choice.engine), choice))
        if tried[-1].verdict == "ok":
            break
    best = next((r for r in tried if r.verdict == "ok"), None)
    best = best or next((r for r in tried if r.offers), tried[0])
    best = replace(best, notes=tuple(filter(None, (note, _unknown_model(ask, matrix)))))
    if not with_unlocks:
        return best
    from doctor.stack.unlock import unlocks

    return replace(best, unlocks=unlocks(best, matrix))


def _unknown_model(ask: Ask, matrix: Matrix) -> str:
    """What to say of a model that nothing is known of; "" for any other."""
    name = str(dict(ask.args).get("model", ""))
    if not name or ask.model or known_model(matrix, name) is not None:
        return ""
    return f"nothing is known of the model {name[:200]}: what it asks of an engine is not judged"


def _for_engine(facts: Facts, matrix: Matrix, ask: Ask, choice: Choice) -> Resolution:
    host = _host_faults(facts, matrix)
    blank = Resolution(facts, ask, ask.engine, host=host, matrix_as_of=matrix.as_of)
    blank = replace(blank, choice=choice if choice.goal else None)
    if host:
        return blank
    found = _searched(facts, matrix, ask)
    proven = _newest_first(found.by_state[PROVEN])
    offers = (*proven, *_newer(found.by_state[POSSIBLE], proven)[:_SHOWN_POSSIBLE])
    refused = _above(found.by_state[REFUSED], offers)
    told = tuple(
        summed_up(offer, facts, matrix, ask, flags=number == 0)
        for number, offer in enumerate(offers)
    )
    return replace(blank, offers=told, refused=refused[:_SHOWN_REFUSED])


def _searched(facts: Facts, matrix: Matrix, ask: Ask) -> Found:
    """Search for all devices together; if nothing works on all, for each kind of them alone."""
    found = search(Judge(facts, matrix, ask), candidates(matrix, ask.engine, facts, ask))
    groups = _kinds(facts)
    if found.by_state[PROVEN] or found.by_state[POSSIBLE] or len(groups) < 2 or ask.devices:
        return found
    for ids in groups:
        ways = candidates(matrix, ask.engine, facts, ask)
        alone = search(Judge(facts, matrix, ask), (replace(way, devices=ids) for way in ways))
        if alone.by_state[PROVEN]:
            return alone
    return found


def _kinds(facts: Facts) -> list[tuple[str, ...]]:
    """Ids of the devices by product, most memory and most devices first."""
    groups: dict[str, list[Device]] = {}
    for device in facts.devices.value or ():
        groups.setdefault(device.name.value or device.pci_id.value or device.id, []).append(device)
    ordered = sorted(groups.values(), key=lambda g: (g[0].memory_mib.value or 0, len(g)))
    return [tuple(device.id for device in group) for group in reversed(ordered)]


def _host_faults(facts: Facts, matrix: Matrix) -> tuple[Finding, ...]:
    """Faults of host, driver and devices that stand against every stack."""
    bare = replace(facts, scopes=(), workloads=(), logs=())
    targets = diagnose(bare, matrix).targets
    rungs = (Rung.HOST, Rung.DRIVER, Rung.DEVICE)
    found = [f for target in targets for f in target.findings if f.rung in rungs]
    return tuple(f for f in found if f.severity is Severity.ERROR)


def _newest_first(judged: Iterable[Judged]) -> list[Judged]:
    return sorted(judged, key=_version_key, reverse=True)


def _newer(possible: list[Judged], proven: list[Judged]) -> list[Judged]:
    """Possible stacks that are worth a try: those newer than what is proven."""
    newest = _newest_first(possible)
    best = _version_key(proven[0]) if proven else None
    return [judged for judged in newest if best is None or _version_key(judged) > best]


def _version_key(judged: Judged) -> tuple[object, ...]:
    version = judged.candidate.version
    return version.low if version is not None else ()


def _above(refused: list[Judged], offers: tuple[Judged, ...]) -> tuple[Judged, ...]:
    """What is newer than the best proven offer: of the others nobody asks why."""
    proven = next((offer for offer in offers if offer.state == PROVEN), None)
    if proven is None:
        return tuple(refused)
    best = _version_key(proven)
    return tuple(judged for judged in refused if _version_key(judged) > best)
