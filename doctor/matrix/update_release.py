"""Make a release row from what an index lists and from the METADATA of one wheel."""

from __future__ import annotations

import re
from collections.abc import Iterable
from email.message import Message
from email.parser import HeaderParser

from doctor.facts import Specifier, Version
from doctor.matrix.index_page import IndexFile
from doctor.matrix.model import Artefact, Confidence, Release

_WHEEL = re.compile(
    r"(?P<name>[A-Za-z0-9_.]+)-(?P<version>[\w.+!]+)(?:-(?P<build>\d[\w.]*))?"
    r"-(?P<python>[\w.]+)-(?P<abi>[\w.]+)-(?P<platform>[\w.]+)\.whl",
    re.ASCII,
)
_SDIST = re.compile(
    r"(?P<name>[A-Za-z0-9_.-]+?)-(?P<version>\d[\w.+!]*)\.(?:tar\.gz|zip)", re.ASCII
)
_MANYLINUX = re.compile(r"manylinux_(\d{1,2})_(\d{1,3})_")
_OLD_TAGS = {"manylinux1": "2.5", "manylinux2010": "2.12", "manylinux2014": "2.17"}
_ARCHS = ("x86_64", "aarch64")
_ENVIRONMENT = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix",
                "platform_machine": "x86_64", "implementation_name": "cpython",
                "platform_python_implementation": "CPython", "python_version": "3.12",
                "python_full_version": "3.12.0", "extra": ""}  # fmt: skip
_MOST_FILES = 40


def normalised(name: str) -> str:
    """A distribution's name as indexes write it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def by_version(files: Iterable[IndexFile], project: str) -> dict[str, list[IndexFile]]:
    """Files by the version in their names; those of other projects are left out."""
    found: dict[str, list[IndexFile]] = {}
    for file in files:
        match = _WHEEL.fullmatch(file.name) or _SDIST.fullmatch(file.name)
        version = Version.maybe(match["version"]) if match else None
        is_own = match is not None and normalised(match["name"]) == project
        if match is not None and is_own and version is not None and version.is_exact:
            found.setdefault(match["version"], []).append(file)
    return found


def best_wheel(files: Iterable[IndexFile]) -> IndexFile | None:
    """The wheel whose METADATA is read: for Linux on x86_64, of the highest build number."""
    wheels = [(f, m) for f in files if (m := _WHEEL.fullmatch(f.name))]

    def order(pair: tuple[IndexFile, re.Match[str]]) -> tuple[bool, bool, int]:
        platform = pair[1]["platform"]
        is_linux = "linux" in platform or platform == "any"
        return is_linux, platform.endswith(("x86_64", "any")), _number(pair[1]["build"])

    best = max(wheels, key=order, default=None)
    return best[0] if best else None


def _number(text: str | None) -> int:
    match = re.match(r"\d{1,9}", text or "")
    return int(match[0]) if match else 0


def release_of(
    named: tuple[str, str], files: list[IndexFile], metadata: bytes | None, today: str
) -> Release:
    """The row of a project's version; without METADATA it has no pins."""
    project, version = named
    wheels = [m for f in files if (m := _WHEEL.fullmatch(f.name)) and _is_linux(m["platform"])]
    stated = _header(metadata)
    python = str(stated.get("Requires-Python") or "") or _first(f.requires_python for f in files)
    seen = "METADATA and file list" if metadata is not None else "file list"
    return Release(
        version=version,
        released=min((f.uploaded for f in files if f.uploaded), default=""),
        requires_python=python if Specifier.parse(python) is not None else "",
        pythons=_pythons(wheels),
        yanked=all(f.yanked for f in files),
        prerelease=Version(version).is_prerelease,
        pins=_pins(stated.get_all("Requires-Dist") or []),
        min_glibc=_glibc(wheels),
        archs=tuple(a for a in _ARCHS if any(m["platform"].endswith(a) for m in wheels)),
        files=tuple(_artefacts(files)),
        source=(f"package index, {project} {version}: {seen}",),
        confidence=Confidence.DECLARED,
        checked=today,
    )


def _header(metadata: bytes | None) -> Message:
    text = (metadata or b"").decode("utf-8", "replace")
    return HeaderParser().parsestr(text.replace("\r\n", "\n").partition("\n\n")[0])


def _first(texts: Iterable[str]) -> str:
    return next(filter(None, texts), "")


def _is_linux(platform: str) -> bool:
    return "linux" in platform


def _pythons(wheels: list[re.Match[str]]) -> tuple[str, ...]:
    """Interpreters of wheels that are made for each; none where one wheel serves many."""
    if any(m["abi"] in ("abi3", "none") for m in wheels):
        return ()
    tags = {m["abi"] if m["abi"].endswith("t") else m["python"] for m in wheels}
    return tuple(sorted(tags, key=lambda tag: (len(tag.rstrip("t")), tag)))


def _glibc(wheels: list[re.Match[str]]) -> str | None:
    """The glibc that the wheel for x86_64 is tagged with; of several tags the lowest."""
    mine = [m["platform"] for m in wheels if m["platform"].endswith("x86_64")]
    floors = [min(found, key=_order) for platform in mine if (found := _floors(platform))]
    return max(floors, key=_order, default=None)


def _floors(platform: str) -> list[str]:
    found = [f"{a}.{b}" for a, b in _MANYLINUX.findall(platform)]
    return found + [glibc for tag, glibc in _OLD_TAGS.items() if f"{tag}_" in platform]


def _order(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def _pins(lines: list[str]) -> dict[str, str]:
    """Requirements that hold on Linux without extras, as specifiers by name."""
    from packaging.markers import UndefinedEnvironmentName
    from packaging.requirements import InvalidRequirement, Requirement

    pins: dict[str, str] = {}
    for line in lines:
        try:
            found = Requirement(str(line))
            asked = found.marker is None or found.marker.evaluate(_ENVIRONMENT)
            spec = str(found.specifier) or "*"
        except (InvalidRequirement, UndefinedEnvironmentName, ValueError):
            continue
        if asked and found.url is None and Specifier.parse(spec) is not None:
            pins.setdefault(normalised(found.name), spec)
    return pins


def _artefacts(files: list[IndexFile]) -> Iterable[Artefact]:
    """Wheels for Linux and the source, by name; of very many the first."""
    kept = [f for f in files if not f.name.endswith(".whl") or _is_for_linux(f.name)]
    for file in sorted(kept, key=lambda f: f.name)[:_MOST_FILES]:
        yield Artefact(file=file.name, size=file.size, sha256=file.sha256)


def _is_for_linux(name: str) -> bool:
    match = _WHEEL.fullmatch(name)
    return match is not None and (_is_linux(match["platform"]) or match["platform"] == "any")
