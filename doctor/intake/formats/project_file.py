"""pyproject.toml and lock files (uv, Poetry, PDM): an environment that does not exist yet."""

from __future__ import annotations

import re
from itertools import islice

from doctor.facts import Facts, Package, Version
from doctor.intake.formats.requirements import applies, hypothetical, required_package, requirement
from doctor.intake.names import package_name
from doctor.probes.tool_text import LIMIT

_MAX = 5000
_PROJECT = re.compile(r"^\[(?:project|tool\.poetry(?:\.dependencies)?)\][ \t]*$", re.MULTILINE)
_LOCKED = re.compile(
    r"^\[\[package\]\]\nname = \"([\w.-]{1,99})\"\nversion = \"([^\"\n]{1,60})\""
    r"(?:\nsource = \{ (\w{1,20}))?",
    re.MULTILINE,
)
_DEPENDENCIES = re.compile(
    r"^dependencies ?= ?\[((?:[^\n]{0,500}\n){0,600}?[^\n]{0,500}?)\][ \t]*$", re.MULTILINE
)
_STRING = re.compile(r"[\"']([A-Za-z0-9][^\"'\n]{0,300})[\"']")
_POETRY = re.compile(
    r"^([A-Za-z][\w.-]{0,99}) ?= ?(?:\{[^\n]{0,80}?version ?= ?)?\"([^\"\n]{1,60})\"", re.MULTILINE
)
_PYTHON = re.compile(
    r"^(?:requires-python|python-versions|python) ?= ?\"([^\"\n]{1,60})\"", re.MULTILINE
)


def looks_like(text: str) -> bool:
    """Tell by the tables of a project or a lock file."""
    return "[[package]]" in text or _PROJECT.search(text) is not None


def parse(text: str) -> Facts:
    """What a lock file has resolved, or what a project asks for."""
    python = _PYTHON.search(text)
    locked = "[[package]]" in text
    packages = _locked(text) if locked else _project(text)
    return hypothetical(packages, partial=not locked, python=python[1] if python else "")


def _locked(text: str) -> list[Package]:
    """The packages of a lock file; the project itself, which has no release, is left out."""
    found = islice(_LOCKED.finditer(text), _MAX)
    own = ("virtual", "editable", "directory")
    return [Package(package_name(m[1]), Version.maybe(m[2])) for m in found if m[3] not in own]


def _project(text: str) -> list[Package]:
    """The dependencies of a project, those of its extras left out."""
    section = _section(text, "project")
    listed = _DEPENDENCIES.search(section)
    texts = islice(_STRING.findall(listed[1]), _MAX) if listed else ()
    found = [required_package(r) for item in texts if (r := requirement(item)) and applies(r)]
    return found or _poetry(_section(text, "tool.poetry.dependencies"))


def _section(text: str, name: str) -> str:
    """The lines of a table up to the next one."""
    start = text.find(f"[{name}]\n")
    if start < 0:
        return ""
    end = text.find("\n[", start)
    return text[start : end if end > 0 else len(text)][:LIMIT]


def _poetry(section: str) -> list[Package]:
    """Poetry's own table; its caret and tilde are no bounds that packages know."""
    rows = islice(_POETRY.finditer(section), _MAX)
    return [Package(package_name(m[1]), Version.maybe(m[2])) for m in rows if m[1] != "python"]
