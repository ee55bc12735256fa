"""dnf's and zypper's files: locks, exclusions and automatic upgrades."""

from __future__ import annotations

import re

from doctor.facts import Reading, missing, seen
from doctor.facts.host import AutomaticUpgrades, HeldPackages
from doctor.facts.reading import Missing
from doctor.probes.files import relay
from doctor.probes.host import Host

_LOCK_FILES = (
    "/etc/dnf/plugins/versionlock.list",
    "/etc/dnf/versionlock.toml",
    "/etc/yum/pluginconf.d/versionlock.list",
    "/etc/zypp/locks",
)
_CONFIGS = ("/etc/dnf/dnf.conf", "/etc/yum.conf")
_AUTOMATIC = ("/etc/dnf/automatic.conf", "/usr/share/dnf5/dnf5-plugins/automatic.conf")
_TIMERS = "/etc/systemd/system/timers.target.wants"
_TOOL = "dnf-automatic"
# name-epoch:version-release.arch, as versionlock.list has it; epoch and arch may lack.
_NEVRA = re.compile(r"!?(?P<name>[\w.+*-]+?)-(?:\d+:)?[\w.+~^*]+-[\w.+~^*]+")
_TOML_NAME = re.compile(r"""^\s*name\s*=\s*["']([^"'\n]+)["']""", re.MULTILINE)
_ZYPP_NAME = re.compile(r"^solvable_name:\s*(\S+)", re.MULTILINE)
_SETTING = re.compile(r"^\s*([\w.]+)\s*=[ \t]*(.*(?:\n[ \t]+\S.*)*)", re.MULTILINE)


def read_dnf_locks(host: Host) -> Reading[HeldPackages]:
    """Packages that versionlock or a zypper lock holds, and those that are excluded."""
    holds: list[str] = []
    pins: list[str] = []
    for path in (*_LOCK_FILES, *_CONFIGS):
        text = host.read_text(path)
        if not (text.is_known or text.is_absent):
            return relay(text)
        if path in _CONFIGS:
            pins += parse_excludes(text.value or "")
        else:
            holds += parse_locks(text.value or "")
    return seen(HeldPackages(tuple(holds), tuple(pins)), ", ".join(_LOCK_FILES[:2]))


def parse_locks(text: str) -> tuple[str, ...]:
    """Names in a lock file of dnf 4, dnf 5 or zypper."""
    names = [*_TOML_NAME.findall(text), *_ZYPP_NAME.findall(text)]
    for line in text.splitlines():
        match = _NEVRA.fullmatch(line.strip())
        # A leading "!" excludes that version instead of locking it.
        if match and not line.lstrip().startswith("!"):
            names.append(match["name"])
    return tuple(dict.fromkeys(names))


def parse_excludes(text: str) -> tuple[str, ...]:
    """Patterns that dnf.conf excludes from every transaction."""
    stated = dict(_SETTING.findall(text))
    listed = stated.get("excludepkgs", "") + " " + stated.get("exclude", "")
    return tuple(re.split(r"[\s,]+", listed.strip())) if listed.strip() else ()


def read_dnf_automatic(host: Host) -> Reading[AutomaticUpgrades]:
    """Whether a timer of dnf-automatic is on that also installs."""
    timers = host.list_dir(_TIMERS)
    if timers.value is None and not timers.is_absent:
        return relay(timers)
    active = [name for name in timers.value or () if "dnf" in name and "automatic" in name]
    texts = [host.read_text(path) for path in _AUTOMATIC]
    refused = next((t for t in texts if t.missing is Missing.NOT_PERMITTED), None)
    if active and refused is not None:
        return missing(Missing.NOT_PERMITTED, refused.at)
    applies = any(applies_updates(text.value or "") for text in texts)
    installs = any("install" in name for name in active)
    return seen(AutomaticUpgrades(bool(active) and (applies or installs), _TOOL), _TIMERS)


def applies_updates(text: str) -> bool:
    """Read automatic.conf: it may only download or announce."""
    stated = dict(_SETTING.findall(text))
    return stated.get("apply_updates", "no").strip().lower() in ("yes", "true", "1", "on")
