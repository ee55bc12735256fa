"""From what a person asked for to a plan: profile, lock, machine, judgement. Changes nothing."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from doctor.diagnose import Request, diagnose
from doctor.errors import UsageError
from doctor.facts import Facts, Version
from doctor.findings import Diagnosis, Finding, Severity
from doctor.matrix import Matrix
from doctor.profile.lock import Lock, parse_lock
from doctor.profile.registry import parse_reference
from doctor.profile.schema import Profile
from doctor.provision.container_carried import carried_as
from doctor.provision.container_site import EngineThere, engine_there
from doctor.provision.driver.sets import NAME as DRIVER
from doctor.provision.driver.sets import DriverSet
from doctor.provision.goal import Goal, Model, parse_goal
from doctor.provision.image_lock import image_scope
from doctor.provision.locks import is_for, lock_on, lock_profile, platforms_of, pythons_of
from doctor.provision.means import Scene, means_for, model_folder
from doctor.provision.npu.sets import NAME as NPU_DRIVER
from doctor.provision.plan import Plan, make_plan
from doctor.provision.roles import with_unverified
from doctor.provision.room import no_room
from doctor.provision.service import Site, embedded_model, hub_model, service_goal, site_for
from doctor.provision.survey import State, read_facts, read_home, read_state
from doctor.provision.target import LOCAL, Target
from doctor.provision.variables import Means
from doctor.provision.wanted_devices import other_devices

SYSTEM_BASE = "/opt/doctor"
_NO_CLIENT = "/usr/bin/docker"
_LIBRARY = "system-lib-missing"


@dataclass(frozen=True)
class Order:
    """What a person asked for. `lock` is None to use the one last applied, or make one.

    `offline` is a folder with all files; no index is asked then. `driver` asks for the driver
    that the profile wants, not for its engine: as `host_lock` says, if there is one, and with
    `busy` while programs use the GPUs. `named` is what the person called the profile.
    """

    profile: Profile
    target: Target
    user: bool
    lock: Lock | None = None
    offline: str = ""
    named: str = ""
    say: Callable[[str], None] = lambda _: None
    driver: bool = False
    host_lock: DriverSet | None = None
    busy: bool = False

    @property
    def name(self) -> str:
        """The name of the service; a machine has one driver, whatever profile asks for it."""
        return driver_of(self.profile) if self.driver else self.profile.name

    @property
    def service(self) -> str:
        """The key by which runs and locks of this service are found on this machine."""
        return service_key(self.name, self.target)


@dataclass(frozen=True)
class Prepared:
    """All that was found and decided."""

    order: Order
    lock: Lock | None
    facts: Facts
    state: State
    diagnosis: Diagnosis
    means: Means
    plan: Plan

    @property
    def goal(self) -> Goal:
        """Where the plan leads."""
        return self.plan.goal


def driver_of(profile: Profile) -> str:
    """The name of the driver of a profile's devices, which a machine has once."""
    return NPU_DRIVER if profile.accelerator.vendor == "ascend" else DRIVER


def service_key(profile: str, target: Target) -> str:
    """Names one service on one machine."""
    return f"{target.name}/{profile}"


def base_folder(target: Target, user: bool) -> str:
    """Where services live: below the user's data folder, or /opt/doctor."""
    if not user:
        return SYSTEM_BASE
    return f"{_home_of(target, 'XDG_DATA_HOME', '.local/share')}/doctor"


def unit_folder(target: Target, user: bool) -> str:
    """Where systemd looks for units that an administrator or user adds."""
    if not user:
        return "/etc/systemd/system"
    return f"{_home_of(target, 'XDG_CONFIG_HOME', '.config')}/systemd/user"


def _home_of(target: Target, variable: str, usual: str) -> str:
    """A folder of the user: as this environment says, or as it is usual on another machine."""
    if target.kind == LOCAL:
        return os.environ.get(variable) or str(Path.home() / usual)
    home = target.run(["/usr/bin/python3", "-c", "import os; print(os.path.expanduser('~'))"])
    return f"{home.strip()}/{usual}"


def prepare(order: Order, matrix: Matrix) -> Prepared:
    """Survey the machine and plan. Raises UsageError, RemoteError or LaunchError."""
    if order.driver and driver_of(order.profile) == NPU_DRIVER:
        from doctor.provision.npu.ordering import prepare_npus

        npus = prepare_npus(order, matrix)
        return replace(npus, plan=with_unverified(npus.plan))
    if order.driver:
        from doctor.provision.driver.ordering import prepare_driver

        found = prepare_driver(order, matrix)
        return replace(found, plan=with_unverified(found.plan))
    home = f"{base_folder(order.target, order.user)}/{order.profile.name}"
    devices = matrix.containers.paths_of(order.profile.accelerator.vendor)
    at_home = read_home(order.target, home, groups=devices)
    applied = applied_goal(at_home)
    facts = read_facts(order.target)
    lock = order.lock or _lock_there(order, at_home) or _new_lock(order, facts, matrix)
    there = _engine(order, lock, facts, at_home, matrix)
    there = replace(there, image=carried_as(lock, order.offline, applied))
    units = unit_folder(order.target, order.user)
    python = sys.executable if order.target.kind == LOCAL else ""
    site = replace(site_for(order.user, units, at_home, there), python=python)
    model = _model(order, lock, site, applied)
    goal = service_goal(order.profile, lock, site, model, matrix)
    state = read_state(order.target, goal)
    means, lacking = means_for(lock, Scene(facts, at_home, order.target, order.offline, there))
    diagnosis = judge_goal(facts, goal, matrix)
    lacking += other_devices(order.profile, facts, matrix)
    lacking += _taken_port(facts, state, goal, applied)
    libraries = {} if order.user else libraries_for(goal, facts, matrix)
    means = msgspec.structs.replace(means, libraries=tuple(sorted(set(libraries.values()))))
    faults = _faults(diagnosis, tuple(libraries))
    room = no_room(goal, state, means)
    blockers = (*lacking, *faults, *_model_faults(order.profile, model), *room)
    plan = with_unverified(make_plan(order.target.name, goal, state, means, blockers))
    return Prepared(order, lock, facts, state, diagnosis, means, plan)


def _engine(order: Order, lock: Lock, facts: Facts, state: State, matrix: Matrix) -> EngineThere:
    if not lock.image:
        return EngineThere()
    host = os.environ.get("DOCKER_HOST", "") if order.target.kind == LOCAL else ""
    there = engine_there(facts, state.programs, matrix, order.user, host)
    # The plan says what is lacking; until then the usual client stands for it.
    return there if there.client else replace(there, client=(_NO_CLIENT,))


def applied_goal(state: State) -> Goal | None:
    """What was applied last, by the machine's own note; None if there is none."""
    return parse_goal(state.applied, f"{state.home}/applied.json") if state.applied else None


def _lock_there(order: Order, state: State) -> Lock | None:
    """The lock of the release that is current, if the profile still wants the same."""
    if not state.lock:
        return None
    lock = parse_lock(state.lock, f"{state.home}/current/stack.lock")
    return lock if is_for(lock, order.profile) else None


def _new_lock(order: Order, facts: Facts, matrix: Matrix) -> Lock:
    install = order.profile.install
    if install.method == "container":
        if not parse_reference(install.image).digest:
            raise UsageError(
                f"{install.image} names no digest, so it may be another image tomorrow",
                f"doctor profile lock {order.named or order.profile.name}",
            )
        return lock_profile(order.profile, "", f"{facts.host.arch.value}-linux", matrix)
    order.say(f"resolving the packages of {order.profile.name}")
    python = install.python or next(iter(pythons_of(facts)), "")
    if not python:
        raise UsageError("no Python was found there", "install python3 with venv")
    return lock_on(order.profile, python, platforms_of(facts), matrix)


def _model(order: Order, lock: Lock, site: Site, applied: Goal | None) -> Model:
    """The model with what its files shall be: as applied before, else as they are now."""
    wanted = order.profile.model
    if wanted.source == "embedded":
        return embedded_model(order.profile, site)
    if lock.model is not None:
        return hub_model(order.profile, lock.model, site, model_folder(lock.model, order.offline))
    if applied is not None and applied.model is not None and applied.model.path == wanted.id:
        return applied.model
    order.say(f"hashing the model at {wanted.id}")
    return Model(wanted.id, read_home(order.target, site.home, wanted.id).recorded)


def _model_faults(profile: Profile, model: Model) -> list[str]:
    if not model.files:
        return [f"there is no model at {model.path}"]
    found = model.files.get("")
    if profile.model.sha256 and (found is None or found.sha256 != profile.model.sha256):
        return [f"the model at {model.path} is not the one whose sha256 the profile names"]
    return []


def _taken_port(facts: Facts, state: State, goal: Goal, applied: Goal | None) -> list[str]:
    """A port on which somebody else listens already."""
    mine = applied is not None and applied.url == goal.url
    if mine and any(process.config for process in state.processes):
        return []
    port = urlsplit(goal.url).port
    if port not in (facts.host.listening_ports.value or ()):
        return []
    return [f"something listens on port {port} already: end it, or choose another serving.port"]


def judge_goal(facts: Facts, goal: Goal, matrix: Matrix) -> Diagnosis:
    """What the one judge says of that engine on that machine, or in its image there."""
    box, version = goal.container, Version.maybe(goal.version)
    if box is None:
        # Not another scope that happens to hold the same engine, nor a container beside it.
        here = tuple(scope.id for scope in facts.scopes if scope.kind == "host")
        return diagnose(facts, matrix, Request(here, goal.engine, version, goal.args))
    scope = image_scope(box.named or box.image)
    args = (*goal.args, ("device", "cpu")) if box.vendor == "cpu" else goal.args
    boxed = replace(facts, scopes=(*facts.scopes, scope))
    return diagnose(boxed, matrix, Request((scope.id,), goal.engine, version, args))


def libraries_for(goal: Goal, facts: Facts, matrix: Matrix) -> dict[str, str]:
    """Libraries that the engine needs and the system lacks, with the packages that bring them."""
    if goal.container is not None:
        return {}
    system = facts.host.os.value
    families = (system.id, *system.like) if system else ()
    absent = facts.host.absent.value or ()
    found = {}
    for match in matrix.claims(goal.engine, "system-lib", Version.maybe(goal.version)):
        packages = match.claim.data.get("packages", {})
        package = next((packages[name] for name in families if name in packages), "")
        if package and match.claim.key in absent:
            found[match.claim.key] = package
    return found


def _faults(diagnosis: Diagnosis, mended: tuple[str, ...]) -> list[str]:
    """Errors of the target that was asked for; each stands in the way.

    A missing library that a step installs first does not.
    """
    errors = [
        finding
        for target in diagnosis.targets
        for finding in target.findings
        if finding.severity is Severity.ERROR
    ]
    return [
        f"{error.code}: {error.message}{_mended_by(error)}"
        for error in errors
        if error.cause != _LIBRARY or not any(name in error.message for name in mended)
    ]


def _mended_by(error: Finding) -> str:
    """What to type against it, or else what to do."""
    typed = next((r.commands for r in error.remedies if r.commands), ())
    return f"; {' && '.join(typed) or error.remedies[0].action}" if error.remedies else ""
