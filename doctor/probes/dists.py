"""Installed Python distributions, read from their metadata; nothing of them is imported.

An own reader of metadata heads: importlib.metadata takes ten times as long.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Optional

from doctor.facts import Missing, Package, Reading, Version
from doctor.probes.host import Host

# Heads are a few kB; a longer one is refused rather than read in part.
_HEAD_LIMIT = 256 << 10
_SMALL = 64 << 10
_SEPARATORS = re.compile(r"[-_.]+")
_MOST_PATHS = 50


@dataclass(frozen=True)
class Head:
    """The fields of a METADATA or PKG-INFO file that matter here."""

    name: str = ""
    version: str = ""
    requires: tuple[str, ...] = ()
    requires_python: str = ""


def normalized(name: str) -> str:
    """The name as PEP 503 compares it."""
    return _SEPARATORS.sub("-", name).lower()


def parse_head(text: str) -> Head:
    """Read the header lines up to the first empty one; continuation lines are passed over."""
    stated: dict[str, str] = {}
    requires: list[str] = []
    for raw in text.split("\n"):
        line = raw.rstrip("\r")
        if not line:
            break
        key, colon, value = line.partition(":")
        if not colon or line[0] in " \t":
            continue
        if key == "Requires-Dist":
            requires.append(value.strip())
        else:
            stated.setdefault(key, value.strip())
    found = [stated.get(key, "") for key in ("Name", "Version", "Requires-Python")]
    return Head(found[0], found[1], tuple(requires), found[2])


def parse_requires_txt(text: str) -> tuple[str, ...]:
    """Read an egg's requires.txt; its sections become markers as in Requires-Dist."""
    found, marker = [], ""
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith("[") and line.endswith("]"):
            extra, _, condition = line[1:-1].partition(":")
            parts = [f'extra == "{extra}"'] if extra else []
            marker = " and ".join([*parts, *([condition] if condition else [])])
        elif line and not line.startswith("#"):
            found.append(f"{line} ; {marker}" if marker else line)
    return tuple(found)


def parse_wheel_tags(text: str) -> tuple[str, ...]:
    """The tags of a WHEEL file, such as "cp312-cp312-manylinux_2_28_x86_64"."""
    lines = (line.partition(":") for line in text.splitlines())
    return tuple(value.strip() for key, _, value in lines if key == "Tag")


def parse_pth(text: str) -> tuple[str, ...]:
    """Folders that a .pth file adds to the path; its import lines are not run."""
    lines = (line.strip() for line in text.splitlines())
    found = (line for line in lines if line and not line.startswith(("#", "import ", "import\t")))
    return tuple(found)[:_MOST_PATHS]


def parse_editable(text: str) -> str:
    """The source folder of an editable install from its direct_url.json, or ""."""
    try:
        stated = json.loads(text)
        editable = stated["dir_info"]["editable"]
        url = stated["url"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    if editable is not True or not isinstance(url, str) or not url.startswith("file:///"):
        return ""
    from urllib.parse import unquote

    return unquote(url[len("file://") :])


def read_site(host: Host, site: str, names: tuple[str, ...]) -> list[Package]:
    """The distributions in a folder of the path whose `names` are given."""
    has_pth = any(name.endswith(".pth") for name in names)
    found = []
    for name in names:
        if name.endswith(".dist-info"):
            found.append(_wheel_install(host, site, name, has_pth))
        elif name.endswith(".egg-info"):
            found.append(_egg_info(host, site, f"{site}/{name}", name))
        elif name.endswith(".egg"):
            found.append(_egg_info(host, f"{site}/{name}", f"{site}/{name}/EGG-INFO", name))
    return found


def added_folders(host: Host, site: str, names: tuple[str, ...]) -> Iterator[str]:
    """Folders that the .pth files of a site add to the path."""
    for name in names:
        if name.endswith(".pth") and not name.startswith("."):
            for entry in parse_pth(host.read_text(f"{site}/{name}", _SMALL).value or ""):
                yield entry if entry.startswith("/") else f"{site}/{entry}"


def _wheel_install(host: Host, site: str, folder: str, look_for_source: bool) -> Package:
    text = host.read_text(f"{site}/{folder}/METADATA", _HEAD_LIMIT)
    package = _package(text, folder, site, ())
    if package.broken:
        return package
    tags = parse_wheel_tags(host.read_text(f"{site}/{folder}/WHEEL", _SMALL).value or "")
    source = ""
    if look_for_source:
        source = parse_editable(
            host.read_text(f"{site}/{folder}/direct_url.json", _SMALL).value or ""
        )
    return Package(
        package.name,
        package.version,
        package.requires,
        package.requires_python,
        tags,
        source or site,
    )


def _egg_info(host: Host, site: str, path: str, name: str) -> Package:
    text = host.read_text(f"{path}/PKG-INFO", _HEAD_LIMIT)
    if text.missing is Missing.NOT_THERE and not host.list_dir(path).is_known:
        # distutils wrote a single file of that name.
        text = host.read_text(path, _HEAD_LIMIT)
        return _package(text, name, site, ())
    requires = parse_requires_txt(host.read_text(f"{path}/requires.txt", _HEAD_LIMIT).value or "")
    return _package(text, name, site, requires)


def _package(text: Reading[str], folder: str, site: str, requires: tuple[str, ...]) -> Package:
    guess = normalized(folder.rpartition(".")[0].partition("-")[0])
    if folder.startswith("~"):
        return Package(guess, location=site, broken="left over from an interrupted uninstall")
    if text.value is None:
        reason = (text.missing or Missing.NOT_READABLE).value
        return Package(guess, location=site, broken=f"metadata {reason}")
    head = parse_head(text.value)
    name = normalized(head.name) or guess
    version: Optional[Version] = Version.maybe(head.version)
    broken = _fault(text.value, head, version)
    if broken:
        return Package(name, location=site, broken=broken)
    return Package(name, version, head.requires or requires, head.requires_python, (), site)


def _fault(text: str, head: Head, version: Optional[Version]) -> str:
    if len(text) >= _HEAD_LIMIT and "\n\n" not in text and "\r\n\r\n" not in text:
        return "metadata head is too long"
    if not head.name:
        return "metadata states no name"
    if not head.version:
        return "metadata states no version"
    return "" if version else f"{head.version[:60]!r} is not a version"
