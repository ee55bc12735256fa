"""pyproject.toml and lock files (uv, Poetry, PDM, pylock) with the lines of what they name."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from typing import Any

from doctor.errors import UsageError
from doctor.facts import Package, Version
from doctor.intake.formats.requirements import applies, required_package, requirement
from doctor.intake.names import package_name
from doctor.intake.wanted import Wanted, at_line, label_of_index, placed

_LOCKED = re.compile(r"^name ?= ?[\"']([\w.-]{1,99})[\"']")
_QUOTED = re.compile(r"[\"']([A-Za-z0-9][\w.-]{0,99})")
_KEY = re.compile(r"^([A-Za-z0-9][\w.-]{0,99}) ?=")
_OWN = ("virtual", "editable", "directory")
_CARETS = re.compile(r"[~^]\d")


def read_project(text: str, name: str) -> Wanted:
    """What a project asks for, or what a lock file has resolved. Raises UsageError."""
    data = _parsed(text, name)
    lines = text.split("\n")
    locked = _rows(data.get("package")) or _rows(data.get("packages"))
    python = _text(data.get("requires-python"))
    if locked:
        packages = _locked(locked, lines, name)
        return replace(_python(python, lines, name), packages=packages, whole=True)
    project = _table(data.get("project"))
    packages = _asked(project.get("dependencies"), lines, name)
    poetry = _table(_table(_table(data.get("tool")).get("poetry")).get("dependencies"))
    packages = packages or _poetry(poetry, lines, name)
    python = _text(project.get("requires-python")) or _text(poetry.get("python"))
    label, line = _label(data, lines)
    at = at_line(name, line) if label else ""
    wanted = _python(python, lines, name)
    return replace(wanted, packages=packages, label=label, label_at=at)


def is_project(name: str) -> bool:
    """Tell by a file's name whether it is a project or lock file."""
    return name.rpartition("/")[2].endswith((".toml", ".lock"))


def _parsed(text: str, name: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return dict(tomllib.loads(text))
    except (ValueError, RecursionError) as fault:
        reason = str(fault)[:200]
        raise UsageError(f"{name}: {reason}", "mend the TOML at the place named") from None


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _rows(value: Any) -> list[dict[str, Any]]:
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def _python(text: str, lines: list[str], name: str) -> Wanted:
    """A Python version or bounds that doctor's versions know, with its line."""
    number = next((n for n, line in enumerate(lines, 1) if text and text in line), 1)
    known = text if text and not _CARETS.match(text) and Version.maybe(text) else ""
    return Wanted(python=known, python_at=at_line(name, number) if known else "")


def _first(lines: list[str], pattern: re.Pattern[str], wanted: str) -> int:
    """The first line on which the pattern finds that package."""
    for number, line in enumerate(lines, 1):
        match = pattern.search(line.strip()[:400])
        if match and package_name(match[1]) == wanted:
            return number
    return 1


def _locked(rows: list[dict[str, Any]], lines: list[str], name: str) -> tuple[Package, ...]:
    """The packages for Linux; the project itself, which has no release, is left out."""
    starts: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        match = _LOCKED.match(line)
        if match:
            starts.setdefault(package_name(match[1]), number)
    found: dict[str, Package] = {}
    for row in rows:
        key = package_name(_text(row.get("name")))
        version = Version.maybe(_text(row.get("version")))
        if key and version and _is_for_linux(row) and not set(_table(row.get("source"))) & {*_OWN}:
            found.setdefault(key, placed(Package(key, version), name, starts.get(key, 1)))
    return tuple(found.values())


def _is_for_linux(row: dict[str, Any]) -> bool:
    """Of a package that a lock resolved several times, the one whose markers Linux meets."""
    markers = row.get("resolution-markers") or [row.get("marker")]
    texts = [marker for marker in markers if isinstance(marker, str)]
    parsed = [requirement(f"x; {text}") for text in texts]
    known = [found for found in parsed if found is not None]
    return not known or any(applies(found) for found in known)


def _asked(listed: Any, lines: list[str], name: str) -> tuple[Package, ...]:
    texts = [text for text in listed if isinstance(text, str)] if isinstance(listed, list) else []
    found = [required_package(r) for t in texts if (r := requirement(t.strip())) and applies(r)]
    return tuple(placed(p, name, _first(lines, _QUOTED, p.name)) for p in found)


def _poetry(table: dict[str, Any], lines: list[str], name: str) -> tuple[Package, ...]:
    """Poetry's own table; its caret and tilde are no bounds that packages know."""
    found = []
    for key, value in table.items():
        wanted = package_name(key)
        stated = _text(value) or _text(_table(value).get("version"))
        if wanted != "python":
            version = None if _CARETS.match(stated) else Version.maybe(stated)
            found.append(placed(Package(wanted, version), name, _first(lines, _KEY, wanted)))
    return tuple(found)


def _label(data: dict[str, Any], lines: list[str]) -> tuple[str, int]:
    """The build that uv takes torch from: the index named for it, else any that names a build."""
    uv = _table(_table(data.get("tool")).get("uv"))
    indexes = {_text(row.get("name")): _text(row.get("url")) for row in _rows(uv.get("index"))}
    named = _table(uv.get("sources")).get("torch")
    named = next(iter(_rows(named)), named)
    url = indexes.get(_text(_table(named).get("index")), "")
    listed = uv.get("extra-index-url")
    urls = [url, *indexes.values(), *(listed if isinstance(listed, list) else ())]
    chosen = next((u for u in urls if isinstance(u, str) and label_of_index(u)), "")
    number = next((n for n, line in enumerate(lines, 1) if chosen and chosen in line), 1)
    return label_of_index(chosen), number
