"""What an image consists of: Python distributions of all its environments, system packages."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from doctor.images.reading import Opened
from doctor.images.rpm import DATABASE, JOURNAL, MOST_BYTES, RpmList, read_rpms
from doctor.images.tree import ImageTree
from doctor.probes import dists, system
from doctor.probes.host import Host

_STANZA = re.compile(r"^(Package|Status|Version|Architecture): (.*)$", re.MULTILINE)
_APK = re.compile(r"^P:(.+)\nV:(.+)$", re.MULTILINE)
_RPM = ("/usr/lib/sysimage/rpm", "/var/lib/rpm")
# Forms of rpm's database that are not read.
_OTHER_RPM = {"Packages": "Berkeley DB", "Packages.db": "ndb"}
_DPKG, _DPKG_PARTS = "/var/lib/dpkg/status", "/var/lib/dpkg/status.d"
_LIMIT = 32 << 20


@dataclass(frozen=True, order=True)
class Part:
    """One package: `kind` pypi, deb, apk or rpm, `place` where it is installed or listed."""

    kind: str
    name: str
    version: str
    place: str = ""
    arch: str = ""
    distro: str = ""
    epoch: str = ""
    license: str = ""

    @property
    def purl(self) -> str:
        """Its package URL."""
        from urllib.parse import quote

        version = quote(self.version, safe="")
        if self.kind == "pypi":
            return f"pkg:pypi/{self.name}@{version}"
        stated, _, release = self.distro.partition("-")
        owner = stated or ("unknown" if self.kind == "rpm" else "debian")
        more = [f"arch={self.arch}"] if self.arch else []
        more += [f"distro={quote(self.distro)}"] if release else []
        more += [f"epoch={self.epoch}"] if self.epoch else []
        tail = f"?{'&'.join(more)}" if more else ""
        return f"pkg:{self.kind}/{quote(owner)}/{quote(self.name)}@{version}{tail}"


@dataclass(frozen=True)
class Parts:
    """All parts in order; `unread` says which list of packages is there and was not read."""

    parts: tuple[Part, ...]
    unread: tuple[str, ...] = ()


def read_parts(opened: Opened) -> Parts:
    """Every package that the image lists, read from its files."""
    host = opened.host
    release = system.read_os(host).value
    distro = f"{release.id}-{release.version}" if release else ""
    found = {*_distributions(opened.tree, host), *_system_packages(host, distro)}
    unread = []
    # One is often a link to the other.
    for folder in filter(None, dict.fromkeys(host.real_path(path).value for path in _RPM)):
        rpms, more = _rpms(host, folder, distro)
        found.update(rpms)
        unread += more
    return Parts(tuple(sorted(found)), tuple(unread))


def _distributions(tree: ImageTree, host: Host) -> Iterator[Part]:
    ends = (".dist-info", ".egg-info")
    sites = {path.rpartition("/")[0] for path, _ in tree.walk() if path.endswith(ends)}
    for site in sorted(sites):
        for package in dists.read_site(host, site, host.list_dir(site).value or ()):
            if package.version is not None:
                yield Part("pypi", package.name, str(package.version), site)


def _system_packages(host: Host, distro: str) -> Iterator[Part]:
    names = host.list_dir(_DPKG_PARTS).value or ()
    paths = [_DPKG, *(f"{_DPKG_PARTS}/{n}" for n in names if not n.endswith(".md5sums"))]
    for path in paths:
        yield from _debian(host.read_text(path, _LIMIT).value or "", path, distro)
    for path in ("/lib/apk/db/installed", "/usr/lib/apk/db/installed"):
        for name, version in _APK.findall(host.read_text(path, _LIMIT).value or ""):
            yield Part("apk", name, version, path, distro=distro)


def _debian(text: str, path: str, distro: str) -> Iterator[Part]:
    """Installed packages; images without dpkg list theirs without a status."""
    for stanza in text.split("\n\n"):
        stated = dict(_STANZA.findall(stanza))
        installed = stated.get("Status", "install ok installed").endswith(" installed")
        if installed and "Package" in stated and "Version" in stated:
            arch = stated.get("Architecture", "")
            yield Part("deb", stated["Package"], stated["Version"], path, arch, distro)


def _rpms(host: Host, folder: str, distro: str) -> tuple[list[Part], list[str]]:
    """Packages of a folder of rpm, and what lies in it that could not be read."""
    names = host.list_dir(folder).value or ()
    unread = [f"{folder}/{n}: {form} is not read" for n, form in _OTHER_RPM.items() if n in names]
    if DATABASE not in names:
        return [], unread
    place = f"{folder}/{DATABASE}"
    listed = _rpm_list(host, place, f"{folder}/{JOURNAL}")
    unread += [f"{place}: {listed.fault}"] if listed.fault else []
    return [
        Part("rpm", p.name, f"{p.version}-{p.release}", place, p.arch, distro, p.epoch, p.license)
        for p in listed.packages
    ], unread


def _rpm_list(host: Host, database: str, journal: str) -> RpmList:
    copy = _copy(host, database)
    if copy is None:
        return RpmList(fault=f"it is empty, no file, or larger than {MOST_BYTES >> 20} MiB")
    return read_rpms(copy, _copy(host, journal))


def _copy(host: Host, path: str) -> str | None:
    found = host.local_path(path)
    return found if found and os.path.isfile(found) else None
