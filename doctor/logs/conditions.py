"""Conditions under which a candidate cause is meant: yes, no, or not known from the facts."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from doctor.facts import Facts, Scope, Specifier, Version, Workload
from doctor.logs.match import LogMatch
from doctor.logs.text import LogText
from doctor.logs.typed import lowered
from doctor.matrix import Matrix, capability_matches

Answer = bool | None

# Lines around a matched line that belong to it; a traceback's frames reach further back.
_BEFORE, _AFTER, _TRACE = 12, 6, 160
_HEAD = "traceback (most recent call last)"


@dataclass(frozen=True)
class Circumstances:
    """What the conditions of a candidate are tested against."""

    facts: Facts
    scope: Scope
    workload: Workload | None
    text: LogText
    matrix: Matrix
    match: LogMatch | None = None

    @property
    def log(self) -> str:
        """The log, of a long one its beginning and all lines that may tell; small letters."""
        return self.text.all_words

    @property
    def line(self) -> str:
        """The line that matched, in small letters."""
        return lowered(self.match.line) if self.match else ""

    @cached_property
    def near(self) -> str:
        """The traceback in which the matched line stands, else the lines around it."""
        above, below = self.text.around(self.match.place if self.match else 0, _TRACE, _AFTER)
        lines = [*above[:-1], *below]
        own = len(above) - 1
        heads = (i for i in range(own, -1, -1) if _HEAD in lines[i])
        start = next(heads, max(own - _BEFORE, 0))
        return "\n".join(lines[start:])

    def hold(self, when: dict[str, str]) -> Answer:
        """True if all conditions hold, False if one does not, None if one is not known."""
        answers = [self._one(key, wanted) for key, wanted in when.items()]
        if False in answers:
            return False
        return None if None in answers else True

    def _one(self, key: str, wanted: str) -> Answer:
        name, _, argument = key.partition(":")
        test = _TESTS.get(name)
        return test(self, wanted, argument) if test else None


def _vendor(c: Circumstances, wanted: str, _argument: str) -> Answer:
    vendors = {device.vendor for device in c.facts.devices.value or ()}
    return bool(vendors & set(wanted.split("|"))) if vendors else None


def _capability(c: Circumstances, wanted: str, _argument: str) -> Answer:
    """True if every card whose capability is known satisfies the specifier."""
    found = [c.matrix.capability_of(device) for device in c.facts.devices.value or ()]
    known = [capability for capability in found if capability is not None]
    if not known:
        return None
    return any(capability_matches(wanted, capability) for capability in known)


def _engine(c: Circumstances, wanted: str, _argument: str) -> Answer:
    return c.workload.engine in wanted.split("|") if c.workload else None


def _platform(c: Circumstances, wanted: str, _argument: str) -> Answer:
    platform = c.facts.host.platform
    return platform.value in wanted.split("|") if platform.is_known else None


def _container(c: Circumstances, wanted: str, _argument: str) -> Answer:
    inside = c.scope.kind in ("container", "image")
    return inside == (wanted == "yes") if inside else None


def _arch(c: Circumstances, wanted: str, _argument: str) -> Answer:
    arch = c.facts.host.arch
    return arch.value in wanted.split("|") if arch.is_known else None


def _gpu(c: Circumstances, wanted: str, _argument: str) -> Answer:
    """Tell whether a device's product name holds one of the words."""
    names = [d.name.value.lower() for d in c.facts.devices.value or () if d.name.value]
    return any(word in name for name in names for word in wanted.split("|")) if names else None


def _module(c: Circumstances, wanted: str, _argument: str) -> Answer:
    """Flavour of the kernel module; "unstated" where it is not known."""
    flavour = c.facts.nvidia.module_flavour
    return (flavour.value if flavour.is_known else "unstated") == wanted


def _driver(c: Circumstances, wanted: str, _argument: str) -> Answer:
    driver = c.facts.nvidia.driver.value
    spec = Specifier.parse(wanted)
    return spec.admits(driver) if driver and spec else None


def _toolkit(c: Circumstances, wanted: str, _argument: str) -> Answer:
    """Tell whether facts name a CUDA toolkit on the host: where none is named, no."""
    return bool(c.facts.nvidia.toolkits.value) == (wanted == "yes")


def _package(c: Circumstances, wanted: str, name: str) -> Answer:
    """Its version against a specifier; "stated" asks only whether it is named at all."""
    if wanted == "stated":
        return c.scope.package(name) is not None
    if not c.scope.packages.is_known:
        return None
    package = c.scope.package(name)
    if package is None or package.version is None:
        return None
    spec = Specifier.parse(wanted)
    return spec.admits(package.version) if spec else None


def _version(c: Circumstances, wanted: str, _argument: str) -> Answer:
    version = c.workload.version.value if c.workload else None
    spec = Specifier.parse(wanted)
    return spec.admits(version) if isinstance(version, Version) and spec else None


def _argument(c: Circumstances, wanted: str, name: str) -> Answer:
    if c.workload is None or not c.workload.args.is_known:
        return None
    value = (c.workload.args.value or {}).get(name)
    return None if value is None else str(value).lower() in wanted.lower().split("|")


def _environment(c: Circumstances, wanted: str, name: str) -> Answer:
    env = c.scope.env.value
    if env is None:
        return None
    return (name in env) == (wanted == "set")


def _log(c: Circumstances, wanted: str, _argument: str) -> Answer:
    return any(part.lower() in c.log for part in wanted.split("|"))


def _log_lacks(c: Circumstances, wanted: str, _argument: str) -> Answer:
    return not _log(c, wanted, "")


def _line(c: Circumstances, wanted: str, _argument: str) -> Answer:
    return any(part.lower() in c.line for part in wanted.split("|"))


def _line_like(c: Circumstances, wanted: str, _argument: str) -> Answer:
    """Tell whether the line that matched has a form; the pattern is one of the matrix."""
    return re.search(wanted, c.line) is not None


def _near(c: Circumstances, wanted: str, _argument: str) -> Answer:
    return any(part.lower() in c.near for part in wanted.split("|"))


# torch, since 2.1 and before: what was asked for, and what is held without being used.
_ASKED = re.compile(r"tried to allocate ([\d.]{1,9}) ([gm])ib")
_UNUSED = re.compile(r"([\d.]{1,9}) ([gm])ib is reserved by pytorch but unallocated")
_HELD = re.compile(
    r"([\d.]{1,9}) ([gm])ib already allocated; .{1,40}?; ([\d.]{1,9}) ([gm])ib reserved in total"
)


def _fragmented(c: Circumstances, wanted: str, _argument: str) -> Answer:
    """Tell whether more lies reserved and unused than could not be had; None without figures."""
    asked, unused, held = (p.search(c.line) for p in (_ASKED, _UNUSED, _HELD))
    if asked is None or not (unused or held):
        return None
    free = _mib(unused[1], unused[2]) if unused else 0.0
    if held:
        free = _mib(held[3], held[4]) - _mib(held[1], held[2])
    return (free > _mib(asked[1], asked[2])) == (wanted == "yes")


def _mib(number: str, unit: str) -> float:
    try:
        return float(number) * (1024 if unit == "g" else 1)
    except ValueError:
        return 0.0


def _os(c: Circumstances, wanted: str, _argument: str) -> Answer:
    os = c.facts.host.os.value
    return os.id in wanted.split("|") if os else None


def _devices(c: Circumstances, wanted: str, _argument: str) -> Answer:
    """Number of devices against a specifier such as ">=2"."""
    spec = Specifier.parse(wanted)
    if spec is None or not c.facts.devices.is_known:
        return None
    return spec.admits(Version(str(len(c.facts.devices.value or ()))))


_TESTS: dict[str, Callable[[Circumstances, str, str], Answer]] = {
    "vendor": _vendor,
    "capability": _capability,
    "engine": _engine,
    "platform": _platform,
    "container": _container,
    "arch": _arch,
    "module": _module,
    "gpu": _gpu,
    "driver": _driver,
    "toolkit": _toolkit,
    "package": _package,
    "version": _version,
    "arg": _argument,
    "env": _environment,
    "log": _log,
    "log_lacks": _log_lacks,
    "line": _line,
    "line_like": _line_like,
    "near": _near,
    "fragmented": _fragmented,
    "os": _os,
    "devices": _devices,
}

CONDITIONS = tuple(_TESTS)
