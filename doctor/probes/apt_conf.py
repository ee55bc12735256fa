"""apt's configuration, as far as it tells whether packages are upgraded unattended."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.facts import Missing, Reading, missing, seen
from doctor.facts.host import AutomaticUpgrades
from doctor.probes.files import relay
from doctor.probes.host import Host

_TOOL = "unattended-upgrades"
_FOLDER = "/etc/apt/apt.conf.d"
_PROGRAM = "/usr/bin/unattended-upgrade"
_TIMER = "/etc/systemd/system/apt-daily-upgrade.timer"
_PERIODIC = "apt::periodic::unattended-upgrade"
_ENABLE = "apt::periodic::enable"
_BLACKLIST = "unattended-upgrade::package-blacklist"
# What lacks its end runs to the end, so that no text is gone over twice.
_TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?(?:\*/|\Z)|\#(?!clear|include)[^\n]*  # comments
    |"((?:[^"\\\n]|\\.)*)"? | ([{};]) | ([^\s{};"]+)""",
    re.VERBOSE | re.DOTALL,
)
_OFF = frozenset({"", "0", "no", "false", "never"})


def read_unattended(host: Host) -> Reading[AutomaticUpgrades]:
    """Whether apt upgrades by itself, and which packages it then leaves alone."""
    program = host.stat(_PROGRAM)
    if program.is_absent:
        return seen(AutomaticUpgrades(False), _PROGRAM)
    names = host.list_dir(_FOLDER)
    if names.value is None and not names.is_absent:
        return relay(names)
    settings: dict[str, list[str]] = {}
    for path in [*(f"{_FOLDER}/{name}" for name in names.value or ()), "/etc/apt/apt.conf"]:
        text = host.read_text(path)
        if not (text.is_known or text.is_absent):
            return relay(text)
        for key, value in parse_apt_conf(text.value or ""):
            _store(settings, key, value)
    is_on = _is_on(settings, _PERIODIC, "0") and _is_on(settings, _ENABLE, "1")
    if host.real_path(_TIMER).value == "/dev/null":
        is_on = False
    blacklist = tuple(settings.get(_BLACKLIST, ()))
    if not (program.is_known or is_on):
        return missing(program.missing or Missing.NOT_READABLE, program.at)
    return seen(AutomaticUpgrades(is_on, _TOOL, blacklist), _FOLDER)


def _store(settings: dict[str, list[str]], key: str, value: str) -> None:
    """A list grows, a plain value replaces the one before, #clear empties."""
    if key == "#clear":
        for name in [n for n in settings if n.startswith(value.lower())]:
            del settings[name]
    elif key.endswith("::"):
        settings.setdefault(key[:-2], []).append(value)
    else:
        settings[key] = [value]


def _is_on(settings: dict[str, list[str]], key: str, default: str) -> bool:
    return settings.get(key, [default])[-1].strip().lower() not in _OFF


def parse_apt_conf(text: str) -> tuple[tuple[str, str], ...]:
    """Settings in order as (key in lower case, value); a key that ends in "::" adds to a list."""
    return tuple(_settings(text))


def _settings(text: str) -> Iterator[tuple[str, str]]:
    scope: list[str] = []
    words: list[str] = []
    for match in _TOKEN.finditer(text):
        quoted, mark, word = match.groups()
        if mark == "{":
            scope.append(words[0].lower() if words else "")
        elif mark:
            yield from _setting(scope, words)
            if mark == "}" and scope:
                scope.pop()
        elif quoted is not None or word:
            words.append(quoted if quoted is not None else word)
            continue
        else:
            continue
        words = []


def _setting(scope: list[str], words: list[str]) -> Iterator[tuple[str, str]]:
    if not words:
        return
    if words[0] == "#clear":
        yield "#clear", words[1] if len(words) > 1 else ""
    elif len(words) == 1:
        # A lone value inside braces is one entry of the list that the braces name.
        yield "::".join(scope) + "::", words[0]
    else:
        yield "::".join([*scope, words[0].lower()]), words[1]
