"""From a profile's wishes for the driver to a plan: machine, index, simulation. Changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from doctor.errors import UsageError
from doctor.facts import Facts
from doctor.matrix import Matrix
from doctor.matrix.packaging import Scheme, family, schemes_for
from doctor.profile.schema import Profile
from doctor.provision.driver import refuse
from doctor.provision.driver.ask import (
    pattern_of,
    read_driver_state,
    read_offers,
    read_survey,
    simulate,
)
from doctor.provision.driver.choose import (
    Choice,
    Shelf,
    Wish,
    choose,
    driver_version,
    header_names,
    satisfies,
    set_members,
)
from doctor.provision.driver.companions import monitor, names_beside, toolkit
from doctor.provision.driver.goals import adopted_set, chosen_set, driver_goal
from doctor.provision.driver.holding import pins_at
from doctor.provision.driver.names import asked_for
from doctor.provision.driver.notes import elsewhere, notes_of, unoffered
from doctor.provision.driver.rendered import dnf_steps
from doctor.provision.driver.scene import Scene, on_this_machine
from doctor.provision.driver.sets import HOME, DriverSet, Package, Simulation
from doctor.provision.driver.steps import lost, to_install
from doctor.provision.goal import Goal, parse_goal
from doctor.provision.step import Step
from doctor.provision.target import Target


@dataclass(frozen=True)
class Draft:
    """What is wanted of a driver, and what stands in its way.

    `rendered` are steps for a person, on machines that doctor does not change by itself.
    """

    goal: Goal
    blockers: tuple[str, ...]
    notes: tuple[str, ...] = ()
    rendered: tuple[Step, ...] = ()


@dataclass(frozen=True)
class Asking:
    """What a person asks for: a profile's wishes on a machine.

    `locked` is what a host's lock says; `busy` allows a change while programs use the GPUs.
    """

    target: Target
    profile: Profile
    locked: DriverSet | None = None
    busy: bool = False


def draft(asking: Asking, facts: Facts, matrix: Matrix) -> Draft:
    """What a profile wants of the driver there. Raises UsageError if it wants nothing."""
    profile, locked = asking.profile, asking.locked
    if profile.driver.policy == "leave" and not profile.hold.driver:
        raise UsageError(
            f"{profile.name} wants nothing of the driver",
            "write driver: {policy: install, branch: N}, or hold: {driver: true}",
        )
    mine = family(matrix)
    applied_there = f"{HOME}/applied.json"
    globs = (*profile.hold.packages, *names_beside(profile, matrix))
    survey = read_survey(asking.target, mine, applied_there, globs)
    scene = Scene(asking.target, facts, matrix, mine, survey.driver, survey.uid)
    applied = parse_goal(survey.applied, applied_there) if survey.applied else None
    wish = wish_of(profile, scene, locked)
    blockers = [
        *refuse.of_host(facts, scene.state, scene.uid),
        *([] if locked or applied else refuse.of_mixture(scene.state, mine)),
    ]
    if wish is not None:
        blockers += refuse.of_cards(scene.cards, wish, matrix)
    if blockers:
        return Draft(driver_goal(_nothing(scene)), tuple(blockers), (), _rendered(wish, scene))
    found = _settled(profile, wish, scene, locked, applied)
    if found is None and wish is not None:
        return _new(profile, wish, scene, asking.busy)
    if found is None:
        return Draft(driver_goal(_nothing(scene)), ("no driver is installed from packages",))
    return _again(found, scene, asking.busy)


def wish_of(profile: Profile, scene: Scene, locked: DriverSet | None = None) -> Wish | None:
    """What a profile wants for these cards; None if it takes the driver that is there."""
    wanted = profile.driver
    if wanted.policy != "install" or wanted.branch is None:
        return None
    switched = bool(scene.facts.nvidia.nvswitch.value)
    return Wish(
        branch=wanted.branch,
        modules=refuse.modules_for(scene.cards, wanted.modules, scene.matrix),
        minimum=str(wanted.minimum or ""),
        version=locked.version if locked else "",
        signed=scene.facts.host.secure_boot.value is True,
        fabric=switched,
        beside=toolkit(scene.matrix) if scene.container_engine else (),
        monitor=monitor(profile, scene.matrix),
    )


def _rendered(wish: Wish | None, scene: Scene) -> tuple[Step, ...]:
    """What a person would do by dnf; nothing for other package managers."""
    if wish is None or scene.state.manager != "dnf":
        return ()
    schemes = schemes_for(scene.matrix, scene.system, wish.branch)
    return dnf_steps(schemes[0], wish, scene.facts, scene.matrix) if schemes else ()


def _settled(
    profile: Profile,
    wish: Wish | None,
    scene: Scene,
    locked: DriverSet | None,
    applied: Goal | None,
) -> Goal | None:
    """A goal that needs no choice: as locked, as applied before, or as installed."""
    if locked is not None:
        return driver_goal(on_this_machine(locked, scene))
    last = applied.driver if applied else None
    holds = profile.hold.driver
    same_holds = last is not None and last.held_too == profile.hold.packages
    if applied is not None and last is not None and same_holds and _still(last, wish, holds):
        return applied
    version = driver_version(scene.state.packages, scene.family)
    if not version or (wish is not None and not _is_whole(version, wish, scene)):
        return None
    if len({p.version for p in set_members(scene.state.packages, scene.family)}) > 1:
        return None
    return driver_goal(adopted_set(profile, version, scene.state, scene.family))


def _is_whole(version: str, wish: Wish, scene: Scene) -> bool:
    """Tell whether all that would be asked for is there, by the names of one scheme."""
    there = {p.name for p in scene.state.packages}
    schemes = schemes_for(scene.matrix, scene.system, wish.branch)
    kernel = scene.state.kernel
    asked = [
        asked_for(scheme, wish.branch, wish.modules, kernel, signed)
        for scheme in schemes
        for signed in (True, False)
    ]
    more = set(wish.monitor.packages if wish.monitor else ())
    return satisfies(version, wish) and any(names and there >= {*names, *more} for names in asked)


def _still(last: DriverSet, wish: Wish | None, holds: bool) -> bool:
    """Tell whether what was applied is still what is wanted: nothing moves unless it is asked."""
    if bool(last.holds) != holds:
        return False
    if wish is None:
        return True
    more = set(wish.monitor.packages if wish.monitor else ())
    return (
        satisfies(last.version, wish) and last.modules == wish.modules and more <= set(last.names)
    )


def _new(profile: Profile, wish: Wish, scene: Scene, busy: bool) -> Draft:
    """Choose from what is offered, and let apt say what it would do."""
    schemes = schemes_for(scene.matrix, scene.system, wish.branch)
    if not schemes:
        known = scene.system or "this distribution"
        text = f"how {known} packages branch {wish.branch} is not known"
        return Draft(driver_goal(_nothing(scene)), (text,))
    headers = (n for s in schemes for n in header_names(s, wish, scene.state))
    names = [*headers, *names_beside(profile, scene.matrix)]
    offers, failed = read_offers(scene.target, scene.family, (), names)
    shelf = Shelf(state=scene.state, offers=offers, family=scene.family)
    # What is there stays at its version if the rest is offered at that version too.
    there = driver_version(scene.state.packages, scene.family)
    stay = msgspec.structs.replace(wish, version=wish.version or there)
    choice = choose(schemes, stay, shelf) or choose(schemes, wish, shelf)
    if choice is None:
        return Draft(driver_goal(_nothing(scene)), (_unoffered(schemes, wish, scene, failed),))
    answer = simulate(scene.target, choice.words, (), pins_at(choice.version, offers))
    rows = _rows(answer, scene, offers, names)
    shelf = msgspec.structs.replace(shelf, offers=rows)
    found = on_this_machine(chosen_set(profile, wish, choice, answer, shelf), scene)
    faults = _faults(choice, wish, scene, answer, busy)
    blockers = (*faults, *_immovable(found, scene))
    return Draft(driver_goal(found), blockers, notes_of(scene.facts, scene.matrix, failed))


def _unoffered(schemes: Sequence[Scheme], wish: Wish, scene: Scene, failed: Sequence[str]) -> str:
    names = [n for s in schemes for n in asked_for(s, wish.branch, wish.modules, "", False)[:1]]
    where = elsewhere(scene.system, scene.facts, scene.matrix)
    return unoffered(wish, names, failed) + where


def _rows(
    answer: Simulation, scene: Scene, offers: Sequence[Package], names: Sequence[str]
) -> tuple[Package, ...]:
    """Offers with those of packages outside the family that the change brings along."""
    known = {p.name for p in offers}
    others = [c.name for c in answer.installed if c.name not in known]
    if not others:
        return tuple(offers)
    more, _ = read_offers(scene.target, scene.family, (), [*names, *others], fresh=False)
    return more


def _faults(
    choice: Choice, wish: Wish, scene: Scene, answer: Simulation, busy: bool
) -> tuple[str, ...]:
    may_go = wish.monitor.conflicts if wish.monitor else ()
    return (
        *refuse.of_fabric(choice, wish),
        *refuse.of_monitor(choice, wish, scene.state),
        *refuse.of_simulation(answer, choice, scene.state, scene.family, may_go),
        *([] if answer.status else refuse.of_headers(choice, scene.state, answer)),
        *([] if busy or not answer.changes else refuse.of_users(scene.state)),
    )


def _immovable(found: DriverSet, scene: Scene) -> tuple[str, ...]:
    """Packages whose file nobody has, and room for all files, the way back too."""
    lost = [p.name for p in to_install(found, scene.state) if not p.sha256]
    need = sum(p.size for p in (*found.packages, *found.needs, *found.replaced)) * 4 >> 20
    texts = [f"no repository offers {', '.join(lost[:4])} as chosen"] if lost else []
    if scene.state.free_mib and need > scene.state.free_mib:
        texts.append(f"{need} MiB are needed for packages, {scene.state.free_mib} MiB are free")
    return tuple(texts)


def _again(goal: Goal, scene: Scene, busy: bool) -> Draft:
    """What was chosen before: what is damaged comes from where it came from."""
    state, wanted = read_driver_state(scene.target, goal).driver, goal.driver
    notes = notes_of(scene.facts, scene.matrix, ())
    moved = to_install(wanted, state) if state and wanted else []
    if not moved or state is None or wanted is None:
        return Draft(goal, (), notes)
    # What is there instead must be had again too, should the change fail.
    offers, failed = read_offers(scene.target, scene.family, (), wanted.all_names)
    known = {(p.name, p.version): p for p in offers}
    instead = [known.get((p.name, p.version)) for p in lost(wanted, state, moved)]
    replaced = tuple(dict.fromkeys((*wanted.replaced, *(p for p in instead if p))))
    goal = msgspec.structs.replace(goal, driver=msgspec.structs.replace(wanted, replaced=replaced))
    users = () if busy else refuse.of_users(scene.state)
    return Draft(goal, tuple(users), notes_of(scene.facts, scene.matrix, failed))


def _nothing(scene: Scene) -> DriverSet:
    """A set of nothing, where a plan is refused."""
    return DriverSet(
        scheme="", branch=0, modules="", version="", packages=(), patterns=pattern_of(scene.family)
    )
