"""Whether this process may open device nodes, told by their modes: nothing is opened."""

from __future__ import annotations

import stat
from typing import NamedTuple, Optional

from doctor.facts import Missing, Reading, missing, seen
from doctor.probes import files
from doctor.probes.host import Host

STATUS = "/proc/self/status"
# The bit of CAP_DAC_OVERRIDE, which makes modes not count (capabilities(7)).
_DAC_OVERRIDE = 1 << 1


class Identity(NamedTuple):
    """Effective user, all groups, and whether file modes do not count for the process."""

    user: int
    groups: frozenset[int]
    overrides: bool


def parse_identity(text: str) -> Optional[Identity]:
    """Read /proc/PID/status; root without its capability is bound by modes like anyone."""
    fields = {k: v.split() for k, _, v in (line.partition(":") for line in text.splitlines())}
    try:
        user = int(fields["Uid"][1])
        groups = (fields["Gid"][1], *fields.get("Groups", ()))
        effective = fields.get("CapEff")
        overrides = bool(int(effective[0], 16) & _DAC_OVERRIDE) if effective else user == 0
        return Identity(user, frozenset(map(int, groups)), overrides)
    except (KeyError, IndexError, ValueError):
        return None


def read_denied(host: Host, nodes: Reading[tuple[str, ...]]) -> Reading[tuple[str, ...]]:
    """Nodes that this process's user may not read and write, by their modes."""
    who = parse_identity(host.read_text(STATUS).value or "")
    if nodes.value is None or who is None:
        return files.relay(nodes) if nodes.value is None else missing(Missing.NOT_READABLE)
    stats = ((path, host.stat(path).value) for path in nodes.value)
    return seen(tuple(p for p, s in stats if s and not _may_use(who, s.mode, s.uid, s.gid)), STATUS)


def open_nodes(host: Host, nodes: Reading[tuple[str, ...]]) -> Reading[tuple[str, ...]]:
    """The nodes; `not-permitted`, with the first of them, if the user may not open some."""
    denied = read_denied(host, nodes).value
    if not denied:
        return nodes
    more = f" and {len(denied) - 1} more" if len(denied) > 1 else ""
    return missing(Missing.NOT_PERMITTED, f"{denied[0]}{more}")


def _may_use(who: Identity, mode: int, uid: int, gid: int) -> bool:
    if who.overrides:
        return True
    shift = 6 if who.user == uid else 3 if gid in who.groups else 0
    wanted = stat.S_IROTH | stat.S_IWOTH
    return mode >> shift & wanted == wanted
