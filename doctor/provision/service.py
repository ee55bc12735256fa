"""From a profile and its lock to a goal for one machine.

Reads nothing but files that ship with doctor. What a profile says goes into service.json as
data; no part of it becomes a path, a command or a line of a unit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from doctor.errors import UsageError
from doctor.matrix import Matrix
from doctor.profile.lock import Lock, LockedModel
from doctor.profile.schema import Profile
from doctor.provision.container import Setting, container_of, model_inside
from doctor.provision.container_site import EngineThere
from doctor.provision.goal import (
    PROCESS,
    SYSTEM,
    SYSTEMD,
    SYSTEMD_USER,
    USER,
    Container,
    Extra,
    FileRecord,
    Goal,
    ManagedFile,
    Model,
    Release,
)
from doctor.provision.launching import launch_of
from doctor.provision.monitoring import monitoring_of
from doctor.provision.release import CONFIG, EMBEDDED, release_of
from doctor.provision.survey import State, probe_module
from doctor.provision.timers import Place, timers_of
from doctor.provision.unit import Kind, unit_text
from doctor.smoke.known import gguf_file, hf_folder
from doctor.smoke.launch import LaunchPlan


@dataclass(frozen=True)
class Site:
    """The machine's side: whose service it is, its folder, who keeps it running, unit folder.

    `uid` is the caller's number there, `there` its container engine, `groups` the
    numbers of the groups of paths that are there, None if that was not asked; `python`
    runs doctor there, "" if none does.
    """

    scope: str
    home: str
    supervisor: str
    unit_folder: str
    uid: int = 0
    there: EngineThere = EngineThere()
    groups: Mapping[str, int] | None = None
    python: str = ""


def site_for(user: bool, units: str, state: State, there: EngineThere) -> Site:
    """Decide who keeps the service running there; raises UsageError for root without systemd."""
    if not user and not state.systemd:
        raise UsageError("a system service needs systemd, which does not run there", "use --user")
    own = SYSTEMD_USER if state.systemd_user else PROCESS
    if user:
        return Site(USER, state.home, own, units, state.uid, there, state.groups)
    return Site(SYSTEM, state.home, SYSTEMD, units, state.uid, there, state.groups)


def service_goal(profile: Profile, lock: Lock, site: Site, model: Model, matrix: Matrix) -> Goal:
    """All that must be on the machine. Raises UsageError or LaunchError."""
    _expect_possible(profile, lock, site)
    run = _run(profile, lock, site, model, matrix)
    config = _config(profile, site, run)
    unit, account = _unit_and_account(profile, site, run)
    files = [ManagedFile(f"{site.home}/service.json", config)]
    if unit:
        files.append(ManagedFile(f"{site.unit_folder}/{unit}", _unit(profile, site, run)))
    return Goal(
        profile=profile.name,
        home=site.home,
        scope=site.scope,
        supervisor=site.supervisor,
        unit=unit,
        account=account,
        release=run.release,
        container=run.container,
        owner=run.owner,
        proof_s=profile.smoke.timeout_s,
        known_answer=profile.has_known_answer,
        model=model,
        files=tuple(files),
        extras=_extras(profile, site, run),
        argv=run.argv,
        engine=profile.engine.name,
        version=lock.version,
        args=tuple(sorted(profile.serving.args.items())),
        url=f"http://{_reached(profile.serving.host)}:{profile.serving.port}",
        health=run.launch.row.health or "/health",
        key=profile.serving.api_key,
        start_s=profile.service.start_s,
        stop_s=profile.service.stop_s,
        lock=lock.digest,
    )


def _extras(profile: Profile, site: Site, run: _Run) -> tuple[Extra, ...]:
    has_systemd, row = site.supervisor != PROCESS, run.launch.row
    place = Place(site.home, site.unit_folder, site.scope, site.python, run.is_client_held)
    timers = timers_of(profile, row, place)
    found = (timers if has_systemd else None, monitoring_of(profile, row, site.home, site.scope))
    return tuple(extra for extra in found if extra is not None)


@dataclass(frozen=True)
class _Run:
    """How the engine is run: its launch, the release, the whole command line.

    `key` is what the runner is told of the key, `credential` the unit's line that lays it
    out, `owner` the number of the account in a container.
    """

    launch: LaunchPlan
    release: Release
    argv: tuple[str, ...]
    key: str
    credential: str
    container: Container | None = None
    owner: str = ""

    @property
    def is_client_held(self) -> bool:
        """Whether a unit that calls the container's client can be held."""
        return self.container is None or not self.container.is_own_engine


def _run(profile: Profile, lock: Lock, site: Site, model: Model, matrix: Matrix) -> _Run:
    key, credential = _key(profile.serving.api_key, site)
    if not lock.image:
        environment = f"{site.home}/current/venv"
        launch = launch_of(profile, lock, model.loaded, matrix, environment)
        return _Run(launch, release_of(lock, launch), launch.argv, key, credential)
    inside = model_inside(model.path) + (f"/{model.load}" if model.load else "")
    launch = launch_of(profile, lock, inside, matrix)
    release = release_of(lock, launch)
    folder, names = f"{site.home}/releases/{release.name}", [f.path for f in release.files]
    setting = Setting(
        client=site.there.client,
        home=site.home,
        uid=site.uid,
        image=site.there.image or lock.image,
        model=model.path,
        named=_named(lock, site),
        modules=f"{folder}/lib" if any(name.startswith("lib/") for name in names) else "",
        config=f"{folder}/{CONFIG}" if CONFIG in names else "",
        secret=launch.row.key_env if key else "",
        is_rootless=site.there.is_rootless,
        runtimes=site.there.runtimes,
        groups=site.groups,
    )
    container, argv = container_of(profile, launch, setting, matrix)
    user = str(container.inspected["user"])
    owner = "" if site.uid else user.partition(":")[0]
    return _Run(launch, release, argv, key, credential, container, owner)


def _named(lock: Lock, site: Site) -> str:
    """A name of the image that tells more than what it is run by; "" if there is none."""
    if lock.tag:
        return f"{lock.image.partition('@')[0]}:{lock.tag}"
    return lock.image if site.there.image else ""


def _unit(profile: Profile, site: Site, run: _Run) -> str:
    is_system = site.scope == SYSTEM
    own = is_system and run.container is None
    kind = Kind(
        is_system=is_system,
        account=profile.service.account if own else "",
        credential=run.credential,
        is_container=run.container is not None,
        is_held=run.is_client_held,
    )
    return unit_text(site.home, profile.service, run.launch.row.stop_signal, kind)


def _expect_possible(profile: Profile, lock: Lock, site: Site) -> None:
    if lock.profile != profile.name:
        raise UsageError(f"this lock is for {lock.profile}", f"doctor profile lock {profile.name}")
    for reference in (profile.serving.api_key,):
        if reference.startswith("env:"):
            raise UsageError(
                f"a service cannot see {reference}", "name a file that it can read: file:/PATH"
            )
        if reference.startswith("credential:") and site.supervisor == PROCESS:
            raise UsageError(f"{reference} needs systemd", "name a file: file:/PATH")


def _key(reference: str, site: Site) -> tuple[str, str]:
    """What the runner is told of the key, and the unit's line that lays it out.

    Only root can read the file for a system service; systemd does, and shows it to that
    unit alone.
    """
    if not reference or site.scope != SYSTEM:
        return reference, ""
    kind, _, place = reference.partition(":")
    if kind == "credential":
        return reference, f"LoadCredential={place}\n"
    return "credential:api-key", f"LoadCredential=api-key:{place}\n"


def _unit_and_account(profile: Profile, site: Site, run: _Run) -> tuple[str, str]:
    """A container's client runs as root does, its engine as a number without an account."""
    unit = f"doctor-{profile.name}.service" if site.supervisor != PROCESS else ""
    own = site.scope == SYSTEM and run.container is None
    return unit, profile.service.account if own else ""


def embedded_model(profile: Profile, site: Site) -> Model:
    """The known-answer model, to be copied onto the machine."""
    source = gguf_file() if profile.model.format == "gguf" else hf_folder()
    return Model(f"{site.home}/model/{source.name}", records_of(source), str(source))


def hub_model(profile: Profile, locked: LockedModel, site: Site, source: Path) -> Model:
    """A model of a hub, to be fetched into `source` and copied onto the machine from there."""
    files = {file.name: FileRecord(file.size, file.sha256) for file in locked.files}
    parts = sorted(name for name in files if name.endswith(".gguf"))
    load = parts[0] if profile.model.format == "gguf" and parts else ""
    path = f"{site.home}/model/{source.name}"
    return Model(path, files, str(source), load, profile.model.token, hub=True)


def records_of(source: Path) -> dict[str, FileRecord]:
    """Size and sha256 of a model's file, or of all files of its folder."""
    found = probe_module().record_model(str(source))
    return msgspec.convert(found, dict[str, FileRecord])


def _config(profile: Profile, site: Site, run: _Run) -> str:
    launch, box = run.launch, run.container
    # What is set in a container stands in its command line.
    env = {} if box else {**launch.env, **profile.serving.env}
    if not box and EMBEDDED in launch.argv:
        env["PYTHONPATH"] = f"{site.home}/current/lib"
    found = {
        "argv": list(run.argv),
        "env": env,
        "secrets": {launch.row.key_env: run.key} if run.key else {},
        "home": site.home,
        "folder": f"{site.home}/work",
        "log": f"{site.home}/log/engine.log",
        "stop_signal": launch.row.stop_signal,
        "stop_s": profile.service.stop_s,
        "restart": profile.service.restart,
        "release": run.release.name,
    }
    if box:
        found["folder"] = site.home
        found["tidy"] = [*box.client, "rm", "--force", "--volumes", box.name]
        found["container"] = msgspec.to_builtins(box)
    return json.dumps(found, indent=1, sort_keys=True) + "\n"


def _reached(host: str) -> str:
    """The address at which that machine itself reaches a server bound to `host`."""
    return "127.0.0.1" if host in ("0.0.0.0", "::", "") else host  # noqa: S104
