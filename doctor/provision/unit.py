"""The systemd unit of an engine. Nothing of a profile is written into it.

What a profile says stands in service.json, which the unit's program reads; so no quoting
and no % specifier of systemd can matter. Paths are doctor's own.
"""

from __future__ import annotations

from doctor.errors import UsageError
from doctor.profile.schema import Service

# A unit is world-readable, and so are its files; keys are read from their own files.
_TEMPLATE = """\
# Written by doctor. Changes are found by `doctor drift` and undone by `doctor apply`.
[Unit]
Description=LLM inference engine ({name})
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
Type=exec
Environment=DOCTOR_SERVICE={home}
ExecStart=/usr/bin/python3 -I {home}/bin/run_service.py exec {home}/service.json
{account}{credential}KillSignal={signal}
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
_HARDENING = """\
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=read-only
PrivateTmp=yes
ProtectControlGroups=yes
ProtectKernelTunables=yes
RestrictSUIDSGID=yes
LockPersonality=yes
ReadWritePaths={home}/run {home}/log {home}/work
"""


def unit_text(
    home: str, account: str, service: Service, stop_signal: str, credential: str = ""
) -> str:
    """The unit of the service in `home`; of a system service if there is an account.

    `credential` is a whole line. Raises UsageError for a folder that would need quoting.
    """
    if not home.startswith("/") or set(home) & set(" \t\n%$\"'\\;"):
        raise UsageError(f"{home[:80]!r} cannot be a service's folder", "choose a plain path")
    user = f"User={account}\nGroup={account}\n" if account else ""
    return _TEMPLATE.format(
        name=home.rpartition("/")[2],
        home=home,
        account=user,
        credential=credential,
        signal=stop_signal,
        stop_s=service.stop_s,
        restart=service.restart,
        open_files=service.open_files,
        hardening=_HARDENING.format(home=home) if account else "",
        target="multi-user.target" if account else "default.target",
    )
