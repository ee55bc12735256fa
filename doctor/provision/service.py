"""From a profile and its lock to a goal for one machine.

Reads nothing but files that ship with doctor. What a profile says goes into service.json as
data; no part of it becomes a path, a command or a line of a unit.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from doctor.errors import UsageError
from doctor.facts import Version
from doctor.matrix import Matrix
from doctor.profile.lock import Lock, lock_text, requirements_text
from doctor.profile.schema import Profile
from doctor.provision.goal import (
    PROCESS,
    SYSTEM,
    SYSTEMD,
    SYSTEMD_USER,
    USER,
    FileRecord,
    Goal,
    ManagedFile,
    Model,
    Release,
    digest_of,
)
from doctor.provision.survey import State, probe_module
from doctor.provision.unit import unit_text
from doctor.smoke.known import gguf_file, hf_folder
from doctor.smoke.launch import LaunchPlan, Wanted, plan_launch

KNOWN_ANSWER = "known-answer"
_EMBEDDED = "doctor.smoke.embedded"
_SOURCE = "# Part of doctor: what this release needs of it.\n"


@dataclass(frozen=True)
class Site:
    """The machine's side: whose service it is, its folder, who keeps it running, unit folder."""

    scope: str
    home: str
    supervisor: str
    unit_folder: str


def site_for(user: bool, units: str, state: State) -> Site:
    """Decide who keeps the service running there; raises UsageError for root without systemd."""
    if not user and not state.systemd:
        raise UsageError("a system service needs systemd, which does not run there", "use --user")
    own = SYSTEMD_USER if state.systemd_user else PROCESS
    if user:
        return Site(USER, state.home, own, units)
    return Site(SYSTEM, state.home, SYSTEMD, units)


def service_goal(profile: Profile, lock: Lock, site: Site, model: Model, matrix: Matrix) -> Goal:
    """All that must be on the machine. Raises UsageError or LaunchError."""
    _expect_possible(profile, lock, site)
    launch = launch_of(profile, lock, model.path, matrix, f"{site.home}/current/venv")
    release = _release(lock, launch)
    key, credential = _key(profile.serving.api_key, site)
    config = _config(profile, site, launch, release, key)
    unit, account = _unit_and_account(profile, site)
    files = [ManagedFile(f"{site.home}/service.json", config)]
    if unit:
        text = unit_text(site.home, account, profile.service, launch.row.stop_signal, credential)
        files.append(ManagedFile(f"{site.unit_folder}/{unit}", text))
    return Goal(
        profile=profile.name,
        home=site.home,
        scope=site.scope,
        supervisor=site.supervisor,
        unit=unit,
        account=account,
        release=release,
        model=model,
        files=tuple(files),
        argv=launch.argv,
        engine=profile.engine.name,
        version=lock.version,
        args=tuple(sorted(profile.serving.args.items())),
        url=f"http://{_reached(profile.serving.host)}:{profile.serving.port}",
        health=launch.row.health or "/health",
        key=profile.serving.api_key,
        start_s=profile.service.start_s,
        stop_s=profile.service.stop_s,
        lock=lock.digest,
    )


def _expect_possible(profile: Profile, lock: Lock, site: Site) -> None:
    if profile.install.method != "venv":
        raise UsageError(
            f"{profile.name} runs in a container, which apply does not do yet",
            "choose a profile with install.method venv",
        )
    if lock.profile != profile.name:
        raise UsageError(f"this lock is for {lock.profile}", f"doctor profile lock {profile.name}")
    for reference in (profile.serving.api_key, profile.model.token):
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


def _unit_and_account(profile: Profile, site: Site) -> tuple[str, str]:
    unit = f"doctor-{profile.name}.service" if site.supervisor != PROCESS else ""
    return unit, profile.service.account if site.scope == SYSTEM else ""


def launch_of(
    profile: Profile, lock: Lock, model: str, matrix: Matrix, environment: str
) -> LaunchPlan:
    """How its server is started from an environment. Raises UsageError or LaunchError."""
    serving = profile.serving
    args: dict[str, Any] = {"host": serving.host, "port": serving.port}
    name = serving.name or (KNOWN_ANSWER if profile.model.source == "embedded" else "")
    if name:
        args["served_model_name"] = name
    args.update({key: typed(value) for key, value in serving.args.items()})
    wanted = Wanted(
        engine=profile.engine.name,
        model=model,
        version=Version.maybe(lock.version),
        args=args,
        python=f"{environment}/bin/python",
        bin=f"{environment}/bin",
    )
    launch = plan_launch(wanted, matrix)
    if serving.api_key and not launch.row.key_env:
        why = launch.row.refused.get("api_key", "it takes no key")
        raise UsageError(f"api_key: {profile.engine.name}: {why}", "leave serving.api_key out")
    return launch


def typed(text: str) -> Any:
    """An argument's value as engines mean it: a switch, a number, or a text."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if re.fullmatch(r"-?[0-9]{1,18}", text):
        return int(text)
    return text


def _release(lock: Lock, launch: LaunchPlan) -> Release:
    if lock.python is None or lock.platform is None:
        raise UsageError("this lock has no Python packages", "lock the profile again")
    files: tuple[ManagedFile, ...] = (ManagedFile("stack.lock", lock_text(lock)),)
    if _EMBEDDED in launch.argv:
        files += _embedded_server()
    name = digest_of(lock.digest, *(part for f in files for part in (f.path, f.text)))[:16]
    return Release(
        name=name,
        python=lock.python,
        platform=lock.platform,
        requirements=requirements_text(lock),
        index=lock.index,
        files=files,
    )


def _embedded_server() -> tuple[ManagedFile, ...]:
    """Doctor's own server around llama.cpp, which the release must be able to import."""
    source = Path(__file__).parent.parent / "smoke" / "embedded.py"
    return (
        ManagedFile("lib/doctor/__init__.py", _SOURCE),
        ManagedFile("lib/doctor/smoke/__init__.py", _SOURCE),
        ManagedFile("lib/doctor/smoke/embedded.py", source.read_text(encoding="utf-8")),
    )


def embedded_model(profile: Profile, site: Site) -> Model:
    """The known-answer model, to be copied onto the machine."""
    source = gguf_file() if profile.model.format == "gguf" else hf_folder()
    return Model(f"{site.home}/model/{source.name}", records_of(source), str(source))


def records_of(source: Path) -> dict[str, FileRecord]:
    """Size and sha256 of a model's file, or of all files of its folder."""
    found = probe_module().record_model(str(source))
    return msgspec.convert(found, dict[str, FileRecord])


def _config(profile: Profile, site: Site, launch: LaunchPlan, release: Release, key: str) -> str:
    serving = profile.serving
    env = {**launch.env, **serving.env}
    if _EMBEDDED in launch.argv:
        env["PYTHONPATH"] = f"{site.home}/current/lib"
    found = {
        "argv": list(launch.argv),
        "env": env,
        "secrets": {launch.row.key_env: key} if key else {},
        "home": site.home,
        "folder": f"{site.home}/work",
        "log": f"{site.home}/log/engine.log",
        "stop_signal": launch.row.stop_signal,
        "stop_s": profile.service.stop_s,
        "restart": profile.service.restart,
        "release": release.name,
    }
    return json.dumps(found, indent=1, sort_keys=True) + "\n"


def _reached(host: str) -> str:
    """The address at which that machine itself reaches a server bound to `host`."""
    return "127.0.0.1" if host in ("0.0.0.0", "::", "") else host  # noqa: S104
