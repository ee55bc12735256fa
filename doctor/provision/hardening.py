"""What units of doctor go without; `systemd-analyze security` gives the system's 4.0 at most."""

from __future__ import annotations

# Not for a client that makes containers itself: it needs mounts, namespaces and setuid helpers.
# A user's manager can close these too: they need no rights, only that none are gained.
CALLS = """\
NoNewPrivileges=yes
RestrictSUIDSGID=yes
RestrictRealtime=yes
RestrictNamespaces=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
LockPersonality=yes
SystemCallArchitectures=native
SystemCallFilter=~@clock @cpu-emulation @module @mount @obsolete @raw-io @reboot @swap
SystemCallErrorNumber=EPERM
"""
COMMON = f"""\
ProtectSystem=strict
ProtectHome=read-only
PrivateTmp=yes
PrivateMounts=yes
ProtectControlGroups=yes
ProtectKernelTunables=yes
ProtectHostname=yes
{CALLS}"""
