"""Timers of a service: a restart each night, a look each day at what has drifted, a judgement.

The first two run on the machine itself with its own python3 (the role timers lays the programs
there); nothing of doctor is needed for them. The judgement is `doctor check`, and so only for
the machine that doctor is installed on. Without systemd there are none.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from doctor.errors import UsageError
from doctor.matrix.launching import Launch
from doctor.profile.schema import Profile
from doctor.provision.goal import USER, Extra, ManagedFile
from doctor.provision.hardening import CALLS, COMMON

_SERVICE = """\
# Written by doctor. Changes are found by `doctor drift` and undone by `doctor apply`.
[Unit]
Description={text} ({name})

[Service]
Type=oneshot
{lines}
"""
_TIMER = """\
# Written by doctor. Changes are found by `doctor drift` and undone by `doctor apply`.
[Unit]
Description={text} ({name})

[Timer]
OnCalendar=*-*-* {at}:00
Persistent={persistent}
RandomizedDelaySec={spread_s}

[Install]
WantedBy=timers.target
"""
# Of the system's units: they read the machine, and write figures of the service.
# ProtectKernelModules is not here, for it hides the modules that a check looks at.
_HARDENING = """\
SystemCallFilter=~@debug
CapabilityBoundingSet={rights}
ReadWritePaths={home}/metrics"""
# To order a restart; to see what runs, whoever runs it; the kernel's log and NVML beside that.
# The look for drift has CAP_DAC_OVERRIDE, since containers grant no CAP_DAC_READ_SEARCH: there it
# could not read what the engine's account writes, and told of drift where there was none. It
# opens no more by it, for all but its figures is read-only.
_ORDER = "CAP_SYS_ADMIN"
_COMPARE = "CAP_DAC_OVERRIDE CAP_SYS_PTRACE"
_EXAMINE = "CAP_DAC_READ_SEARCH CAP_SYS_PTRACE CAP_SYSLOG CAP_SYS_ADMIN"
_PYTHON = "/usr/bin/python3 -I"
_SPREAD_S = 300
_SPECIAL = re.compile(r"[^A-Za-z0-9/._+-]")


@dataclass(frozen=True)
class Place:
    """Where timers go: the service's folder, that of units, and whose they are.

    `python` runs the doctor of that machine, "" if there is none. `is_client_held` if what
    speaks to the container's engine can go without what hardening names.
    """

    home: str
    units: str
    scope: str
    python: str = ""
    is_client_held: bool = True


def timers_of(profile: Profile, row: Launch, place: Place) -> Extra | None:
    """The timers that a profile wants; None if it wants none. Raises UsageError without doctor."""
    found = [*_restart(profile, row, place), *_drift(profile, place), *_check(profile, place)]
    if not found:
        return None
    names = tuple(f.path.rpartition("/")[2] for f in found if f.path.endswith(".timer"))
    return Extra("timers", tuple(found), names)


def _restart(profile: Profile, row: Launch, place: Place) -> list[ManagedFile]:
    wanted, name, home, scope = profile.restart_timer, profile.name, place.home, place.scope
    if wanted is None:
        return []
    own = " --user" if scope == USER else ""
    drain = f"{home}/drain.json"
    key = profile.serving.api_key if row.key_env else ""
    reference, credential = _key(key, scope)
    total_s = wanted.drain_s + profile.service.stop_s + profile.service.start_s + 60
    lines = [
        f"ExecStart={_PYTHON} {home}/bin/drain_service.py {drain}",
        f"ExecStart=/usr/bin/systemctl{own} restart doctor-{name}.service",
        f"TimeoutStartSec={total_s}",
        *credential,
    ]
    port = profile.serving.port
    said = {
        "url": f"http://127.0.0.1:{port}{row.metrics or '/metrics'}",
        "names": [n for what in ("running", "waiting") for n in row.counters.get(what, ())],
        "drain_s": wanted.drain_s,
        "mark": f"{home}/metrics/draining",
        "key": reference,
    }
    base = f"{place.units}/doctor-{name}-restart"
    text = "restart of the engine when it is idle"
    return [
        ManagedFile(drain, json.dumps(said, indent=1, sort_keys=True) + "\n"),
        ManagedFile(f"{base}.service", _service(name, text, [*lines, *_held(place, _ORDER)])),
        # A restart that was missed is not made up for: it would come by day.
        ManagedFile(f"{base}.timer", _timer(name, text, wanted.at, False, 0)),
    ]


def _drift(profile: Profile, place: Place) -> list[ManagedFile]:
    wanted, name, home = profile.drift_timer, profile.name, place.home
    if wanted is None:
        return []
    lines = [
        f"ExecStart={_PYTHON} {home}/bin/drift_check.py {home}",
        "Nice=10",
        "IOSchedulingClass=idle",
    ]
    held = _held(place, _COMPARE) if place.is_client_held else []
    text = "is the engine still what was applied?"
    base = f"{place.units}/doctor-{name}-drift"
    return [
        ManagedFile(f"{base}.service", _service(name, text, [*lines, *held])),
        ManagedFile(f"{base}.timer", _timer(name, text, wanted.at, True, _SPREAD_S)),
    ]


def _check(profile: Profile, place: Place) -> list[ManagedFile]:
    wanted, name, python = profile.check_timer, profile.name, place.python
    if wanted is None:
        return []
    if not python:
        raise UsageError(
            "check_timer: no doctor is installed on that machine",
            "leave it out, and let a timer here run `doctor check --inventory`",
        )
    if _SPECIAL.search(python):
        raise UsageError(
            f"check_timer: systemd would read {python[:200]!r} otherwise",
            "install doctor below a plain path, or leave check_timer out",
        )
    lines = [
        f"ExecStart={python} -m doctor check --quiet -o prometheus={place.home}/metrics/check.prom",
        # What is found is told by its metrics: the answer no is no fault of the check.
        "SuccessExitStatus=1 3",
        "Nice=10",
        "IOSchedulingClass=idle",
    ]
    text = "does the machine suit the engine?"
    base = f"{place.units}/doctor-{name}-check"
    return [
        ManagedFile(f"{base}.service", _service(name, text, [*lines, *_held(place, _EXAMINE)])),
        ManagedFile(f"{base}.timer", _timer(name, text, wanted.at, True, _SPREAD_S)),
    ]


def _key(reference: str, scope: str) -> tuple[str, list[str]]:
    """The reference as the program reads it, and the line of the unit that lays a key out."""
    kind, _, place = reference.partition(":")
    if not reference or scope == USER:
        return reference, []
    if kind == "credential":
        return reference, [f"LoadCredential={place}"]
    return "credential:api-key", [f"LoadCredential=api-key:{place}"]


def _held(place: Place, rights: str) -> list[str]:
    """What a unit goes without, save `rights`."""
    if place.scope == USER:
        return CALLS.splitlines()
    return (COMMON + _HARDENING.format(home=place.home, rights=rights)).splitlines()


def _service(name: str, text: str, lines: list[str]) -> str:
    return _SERVICE.format(name=name, text=text, lines="\n".join(lines))


def _timer(name: str, text: str, at: str, is_made_up: bool, spread_s: int) -> str:
    persistent = "true" if is_made_up else "false"
    return _TIMER.format(name=name, text=text, at=at, persistent=persistent, spread_s=spread_s)
