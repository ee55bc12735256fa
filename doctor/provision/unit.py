"""The systemd unit of an engine. Nothing of a profile is written into it.

What a profile says stands in service.json, which the unit's program reads; so no quoting
and no % specifier of systemd can matter. Paths are doctor's own.
"""

from __future__ import annotations

from dataclasses import dataclass

from doctor.errors import UsageError
from doctor.profile.schema import Service
from doctor.provision.hardening import CALLS, COMMON

# A unit is world-readable, and so are its files; keys are read from their own files.
_TEMPLATE = """\
# Written by doctor. Changes are found by `doctor drift` and undone by `doctor apply`.
[Unit]
Description=LLM inference engine ({name})
Wants=network-online.target{engine}
After=network-online.target{engine}
StartLimitIntervalSec=0

[Service]
Type=exec
Environment=DOCTOR_SERVICE={home}
ExecStart=/usr/bin/python3 -I {home}/bin/run_service.py exec {home}/service.json
{tidy}{account}{credential}KillSignal={signal}
KillMode=mixed
TimeoutStopSec={stop_s}
Restart={restart}
RestartSec=2
OOMPolicy=stop
LimitNOFILE={open_files}
LimitMEMLOCK=infinity
UMask=0027
{hardening}
[Install]
WantedBy={target}
"""
# Not here, since engines need it: the devices of accelerators (so no PrivateDevices, no
# DeviceAllow, and no ProtectClock, which closes all devices but its own), code made at run time
# (MemoryDenyWriteExecute), /proc/cpuinfo and /proc/driver (ProcSubset), pidfd_getfd between
# processes of one engine (@debug), NUMA and scheduling (@resources). `systemd-analyze security`
# gives 2.3; a test holds it.
_HARDENING = """\
ProtectProc=invisible
ProtectKernelModules=yes
ProtectKernelLogs=yes
{rights}ReadWritePaths={home}/run {home}/log {home}/work
"""
_OWN_ACCOUNT = "CapabilityBoundingSet=\n"
# root by name only: the client talks to the container engine, which hands out the devices.
_CLIENT = "CapabilityBoundingSet=CAP_DAC_OVERRIDE\nPrivateDevices=yes\nProtectClock=yes\n"


# A container outlives its client if that is killed. Signals that the client passed on come
# back as its exit status.
_TIDY = """\
ExecStopPost=/usr/bin/python3 -I {home}/bin/run_service.py tidy {home}/service.json
SuccessExitStatus=130 143
"""


@dataclass(frozen=True)
class Kind:
    """A unit of the system or of a user; as whom it runs, "" for its manager's own account.

    `credential` is a whole line; `is_container` if its program is the client of a container.
    """

    is_system: bool = False
    account: str = ""
    credential: str = ""
    is_container: bool = False
    is_held: bool = True


def unit_text(home: str, service: Service, stop_signal: str, kind: Kind) -> str:
    """The unit of the service in `home`; raises UsageError for a folder that needs quoting."""
    if not home.startswith("/") or set(home) & set(" \t\n%$\"'\\;"):
        raise UsageError(f"{home[:80]!r} cannot be a service's folder", "choose a plain path")
    user = f"User={kind.account}\nGroup={kind.account}\n" if kind.account else ""
    return _TEMPLATE.format(
        name=home.rpartition("/")[2],
        home=home,
        engine=" docker.service" if kind.is_container else "",
        tidy=_TIDY.format(home=home) if kind.is_container else "",
        account=user,
        credential=kind.credential,
        signal=stop_signal,
        stop_s=service.stop_s,
        restart=service.restart,
        open_files=service.open_files,
        hardening=_hardening(home, kind),
        target="multi-user.target" if kind.is_system else "default.target",
    )


def _hardening(home: str, kind: Kind) -> str:
    if not kind.is_held:
        return ""
    if not kind.is_system:
        return CALLS
    rights = _CLIENT if kind.is_container else _OWN_ACCOUNT
    return COMMON + _HARDENING.format(home=home, rights=rights)
