"""Packages of the distribution that matter here, and what holds or upgrades them.

Read from the package managers' own files: asking dpkg or rpm costs ten times as much.
Only rpm's database has no text form, so rpm is asked, for the names that matter.
"""

from __future__ import annotations

import re
from dataclasses import replace

from doctor.facts import HostFacts, Missing, Reading, missing, seen
from doctor.facts.host import HeldPackages, SystemPackage
from doctor.probes.files import relay
from doctor.probes.host import Host

DPKG_STATUS = "/var/lib/dpkg/status"
_STATUS_LIMIT = 32 << 20
_RPM_DATABASES = ("/usr/lib/sysimage/rpm", "/var/lib/rpm")
# Globs of names that matter: drivers, toolkits, kernels, container engines, compilers.
_NAMES = (
    *("nvidia*", "libnvidia*", "xserver-xorg-video-nvidia*", "kmod-nvidia*", "dkms*"),
    *("cuda*", "libcuda*", "libcudnn*", "libnccl*", "datacenter-gpu-manager*", "nvlink5*"),
    *("nvlsm*", "libnvsdm*", "firmware-nvidia*", "lib*-nvidia*", "libnvcuvid*"),
    *("linux-image*", "linux-headers*", "linux-modules-nvidia*", "linux-generic*", "kernel*"),
    *("docker*", "containerd*", "moby*", "podman*", "rocm*", "amdgpu*", "Ascend*", "ascend*"),
    *("gcc", "g++", "libc6", "glibc", "libnuma1", "numactl-libs", "python3", "python3.*"),
    *("python3-dev", "unattended-upgrades", "dnf-automatic", "jetson*"),
)
_WANTED = re.compile(
    "|".join(
        name.replace(".", r"\.").replace("+", r"\+").replace("*", r"[^\s]*") for name in _NAMES
    )
)
_FIELD = re.compile(r"^([A-Z][A-Za-z-]*): (.*)$", re.MULTILINE)
_HELD = re.compile(r"^Package: (\S+)\nStatus: hold ok installed$", re.MULTILINE)
_RPM_FORMAT = r"%{NAME}\t%{VERSION}-%{RELEASE}\t%{SOURCERPM}\n"


def read(host: Host, facts: HostFacts) -> HostFacts:
    """Fill packages, holds, pins and automatic upgrades."""
    status = host.read_text(DPKG_STATUS, _STATUS_LIMIT)
    if status.value is not None:
        from doctor.probes.apt_conf import read_unattended

        listed = parse_dpkg_status(status.value)
        return replace(
            facts,
            packages=seen(tuple(p for p, _ in listed), DPKG_STATUS),
            held_packages=_apt_held(host, status.value),
            automatic_upgrades=read_unattended(host),
        )
    if any(host.list_dir(folder).is_known for folder in _RPM_DATABASES):
        from doctor.probes.dnf import read_dnf_automatic, read_dnf_locks

        return replace(
            facts,
            packages=_ask_rpm(host),
            held_packages=read_dnf_locks(host),
            automatic_upgrades=read_dnf_automatic(host),
        )
    # Another package manager, or none.
    unknown = missing(Missing.NOT_STATED, status.at) if status.is_absent else relay(status)
    return replace(facts, packages=unknown, held_packages=unknown, automatic_upgrades=unknown)


def matters(name: str) -> bool:
    """Tell whether a package of this name is one that is read."""
    return _WANTED.fullmatch(name) is not None


def parse_dpkg_status(text: str) -> tuple[tuple[SystemPackage, bool], ...]:
    """Installed packages that matter, each with whether it is on hold."""
    found = []
    for stanza in text.split("\n\n"):
        name = stanza.strip("\n").partition("\n")[0][len("Package: ") :]
        if matters(name):
            stated = dict(_FIELD.findall(stanza))
            wish, _, state = stated.get("Status", "").partition(" ")
            if state == "ok installed":
                source = stated.get("Source", name)
                package = SystemPackage(name, stated.get("Version", ""), source)
                found.append((package, wish == "hold"))
    return tuple(found)


def parse_holds(text: str) -> tuple[str, ...]:
    """Names of all packages on hold, whatever they are."""
    return tuple(_HELD.findall(text))


def parse_rpm_list(text: str) -> tuple[SystemPackage, ...]:
    """Lines of name, version and source as asked for."""
    rows = [line.split("\t") for line in text.splitlines()]
    return tuple(SystemPackage(*row) for row in rows if len(row) == 3)


def _ask_rpm(host: Host) -> Reading[tuple[SystemPackage, ...]]:
    answer = host.run(("rpm", "-qa", "--qf", _RPM_FORMAT, *_NAMES), timeout_s=20.0)
    if answer.value is None:
        return relay(answer)
    if answer.value.returncode != 0:
        return missing(Missing.NOT_READABLE, "rpm -qa")
    return seen(parse_rpm_list(answer.value.stdout), "rpm -qa")


def _apt_held(host: Host, status: str) -> Reading[HeldPackages]:
    holds = parse_holds(status)
    pins: list[str] = []
    paths = ["/etc/apt/preferences"]
    folder = "/etc/apt/preferences.d"
    paths += [f"{folder}/{name}" for name in host.list_dir(folder).value or () if _is_read(name)]
    for path in paths:
        text = host.read_text(path)
        if not (text.is_known or text.is_absent):
            return relay(text)
        pins += parse_preferences(text.value or "")
    return seen(HeldPackages(holds, tuple(pins)), f"{DPKG_STATUS}, {folder}")


def _is_read(name: str) -> bool:
    """Tell whether apt reads this file: it has no extension, or the extension "pref"."""
    return "." not in name or name.endswith(".pref")


def parse_preferences(text: str) -> tuple[str, ...]:
    """Package patterns that apt_preferences pin to a version."""
    patterns: list[str] = []
    for stanza in re.split(r"\n\s*\n", text):
        lines = [line for line in stanza.splitlines() if not line.startswith("#")]
        stated = {k.strip().lower(): v.strip() for k, _, v in (x.partition(":") for x in lines)}
        if stated.get("pin", "").startswith("version"):
            patterns += stated.get("package", "").split()
    return tuple(patterns)
