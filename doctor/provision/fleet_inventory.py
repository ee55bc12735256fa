"""The hosts of an Ansible inventory: names, how each is reached, and its groups.

Ansible's own loader reads INI and YAML, in a process of its own; what `ansible-inventory
--list` printed is read directly. Inventories that are programs are not run: a person names
their output.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path
from typing import Any

from doctor.errors import UsageError
from doctor.extras import how_to_add
from doctor.named_files import read_named
from doctor.provision.target import DOCKER, LOCAL, SSH, Target, parse_target
from doctor.resources import resource

_LIMIT_S = 60.0
_SIZE = 64 << 20
_MOST = 20_000
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,253}")
_KINDS = {"": SSH, "smart": SSH, "ssh": SSH, "paramiko": SSH, "local": LOCAL,
          "docker": DOCKER, "docker_exec": DOCKER, "community.docker.docker": DOCKER}  # fmt: skip
_HINT = "name an INI or YAML inventory, or the output of `ansible-inventory --list`"


@dataclass(frozen=True)
class FleetHost:
    """One host; `fault` says why it cannot be reached as it is described."""

    name: str
    target: Target = Target()
    groups: tuple[str, ...] = ()
    fault: str = ""


def read_inventory(path: str, limit: str = "", folder: Path | None = None) -> tuple[FleetHost, ...]:
    """The hosts in the order of the inventory; `limit` are patterns of hosts or groups.

    Keys of ssh that it names are written into a configuration for ssh in `folder`. Raises
    UsageError for what is no inventory, and if no host is left.
    """
    listed = _listed(path)
    variables = _table(_table(listed.get("_meta")).get("hostvars"))
    names = _ordered(listed)
    for name in variables:
        names.setdefault(name, [])
    hosts = [_host(name, _table(variables.get(name)), tuple(names[name])) for name in names]
    chosen = [host for host in hosts[:_MOST] if _is_chosen(host, limit)]
    # One that was mistyped among several would leave machines out without a word.
    lost = [pattern for pattern in _patterns(limit) if not _fits_any(hosts, pattern)]
    if lost or not chosen:
        why = f"no host or group of {path} fits {lost[0]!r}" if lost else f"{path} has no hosts"
        raise UsageError(why if lost or not limit else f"no host of {path} fits {limit!r}", _HINT)
    return tuple(_with_keys(chosen, variables, folder))


def _listed(path: str) -> dict[str, Any]:
    try:
        data = read_named(path, _SIZE + 1)
    except (OSError, ValueError) as fault:
        reason = getattr(fault, "strerror", None) or str(fault)
        raise UsageError(f"--inventory {path[:200]}: {reason}", _HINT) from None
    if data.lstrip()[:1] == b"{":
        return _json(data, path)
    return _json(_by_ansible(path), path)


def _json(data: bytes, path: str) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or "_meta" not in found:
        raise UsageError(f"--inventory {path[:200]}: not an inventory", _HINT)
    return found


def _by_ansible(path: str) -> bytes:
    """What ansible-inventory makes of a file; neither scripts nor plugins for clouds are run."""
    program = Path(sys.executable).parent / "ansible-inventory"
    if not program.is_file():
        raise UsageError(
            "ansible-inventory is not installed here",
            f"{how_to_add('provision')}, or hand over its --list output",
        )
    command = [str(program), "-i", os.path.abspath(path), "--list"]
    try:
        with tempfile.TemporaryDirectory(prefix="doctor-inventory-") as scratch:
            answer = subprocess.run(
                command,
                capture_output=True,
                timeout=_LIMIT_S,
                check=False,
                env=_environment(scratch),
                cwd="/",
            )
    except subprocess.TimeoutExpired:
        raise UsageError(f"--inventory {path[:200]}: Ansible did not read it", _HINT) from None
    if answer.returncode:
        said = answer.stderr.decode("utf-8", "replace").strip().splitlines()
        reason = next((line for line in said if "ERROR" in line), "not read")
        raise UsageError(f"--inventory {path[:200]}: {reason[:300]}", _HINT)
    return answer.stdout


def _environment(scratch: str) -> dict[str, str]:
    """What ansible-inventory sees; what it writes goes to a folder that is not the user's."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": os.environ.get("HOME", "/"),
        "LC_ALL": "C.UTF-8",
        "ANSIBLE_INVENTORY_ENABLED": "ini,yaml",
        "ANSIBLE_INVENTORY_UNPARSED_FAILED": "true",
        "ANSIBLE_CONFIG": str(resource("playbooks", "ansible.cfg")),
        "ANSIBLE_HOME": scratch,
        "ANSIBLE_LOCAL_TEMP": scratch,
    }


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _ordered(listed: dict[str, Any]) -> dict[str, list[str]]:
    """Names of hosts as the groups list them, each with its groups."""
    names: dict[str, list[str]] = {}
    for group, body in listed.items():
        for name in _texts(_table(body).get("hosts")):
            names.setdefault(name, []).append(group)
    for group in listed:
        for name in _members(listed, group):
            if group not in names.get(name, [group]):
                names[name].append(group)
    return names


def _members(listed: dict[str, Any], group: str) -> Iterator[str]:
    """Hosts of a group and of those below it; each group once, though groups name each other."""
    waiting, seen = [group], set[str]()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            body = _table(listed.get(name))
            yield from _texts(body.get("hosts"))
            waiting += _texts(body.get("children"))


def _texts(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _host(name: str, variables: dict[str, Any], groups: tuple[str, ...]) -> FleetHost:
    if not _NAME.fullmatch(name):
        return FleetHost(name[:80], groups=groups, fault="its name is none that doctor takes")
    said = {key: str(value) for key, value in variables.items() if key.startswith("ansible_")}
    if any("{{" in value or "{%" in value for value in said.values()):
        return FleetHost(name, groups=groups, fault="a template says how it is reached")
    kind = _KINDS.get(said.get("ansible_connection", ""))
    if kind is None:
        fault = f"connection {said.get('ansible_connection', '')[:40]!r} is not known"
        return FleetHost(name, groups=groups, fault=fault)
    try:
        return FleetHost(name, _target(kind, name, said), groups)
    except UsageError:
        return FleetHost(name, groups=groups, fault="its address is none that doctor takes")


def _target(kind: str, name: str, said: dict[str, str]) -> Target:
    if kind == LOCAL:
        return Target()
    address = said.get("ansible_host") or name
    if kind == DOCKER:
        return parse_target(f"docker://{address}")
    user, port = said.get("ansible_user", ""), said.get("ansible_port", "")
    text = f"ssh://{user}@{address}" if user else f"ssh://{address}"
    return parse_target(f"{text}:{port}" if port else text, _config(said))


def _config(said: dict[str, str]) -> str:
    """The file that -F names among the arguments for ssh."""
    try:
        words = shlex.split(said.get("ansible_ssh_common_args", ""))
    except ValueError:
        return ""
    pairs = dict(pairwise(words))
    return pairs.get("-F", "")


def _patterns(limit: str) -> list[str]:
    return [part for part in re.split(r"[,:]", limit) if part]


def _fits_any(hosts: list[FleetHost], pattern: str) -> bool:
    plain = pattern.removeprefix("!")
    return any(fnmatchcase(n, plain) for host in hosts for n in (host.name, *host.groups))


def _is_chosen(host: FleetHost, limit: str) -> bool:
    """Whether a pattern names the host or a group of it; one after ! leaves it out."""
    patterns = _patterns(limit)
    names = (host.name, *host.groups)
    wanted = [p for p in patterns if not p.startswith("!")]
    refused = [p[1:] for p in patterns if p.startswith("!")]
    inside = not wanted or any(fnmatchcase(n, p) for n in names for p in wanted)
    return inside and not any(fnmatchcase(n, p) for n in names for p in refused)


def _with_keys(
    hosts: list[FleetHost], variables: dict[str, Any], folder: Path | None
) -> Iterator[FleetHost]:
    """Give hosts whose inventory names a key a configuration of ssh that names it."""
    keys = {
        host.target.host: str(_table(variables[host.name])["ansible_ssh_private_key_file"])
        for host in hosts
        if host.target.kind == SSH
        and not host.target.ssh_config
        and "ansible_ssh_private_key_file" in _table(variables.get(host.name))
    }
    config = _written(keys, folder) if keys and folder is not None else ""
    for host in hosts:
        if config and host.target.host in keys and not host.fault:
            target = host.target
            keyed = Target(target.kind, target.host, target.user, target.port, config)
            yield FleetHost(host.name, keyed, host.groups)
        else:
            yield host


def _written(keys: dict[str, str], folder: Path) -> str:
    """A configuration for ssh -F with the keys, and what the user's own says beside them."""
    lines = []
    for address, key in keys.items():
        if not re.search(r"[\x00-\x1f\"]", key):
            lines += [f"Host {address}", f'  IdentityFile "{key}"']
    lines += ["Host *", "Include ~/.ssh/config", "Include /etc/ssh/ssh_config", ""]
    path = folder / ".ssh_config"
    path.write_text("\n".join(lines))
    return str(path)
