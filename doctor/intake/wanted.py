"""What a file asks to have installed: packages with the line that names each, index, Python."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from doctor.facts import UNSTATED, Package, PythonInfo, Reading, Scope, TorchBuild, Version, seen
from doctor.intake.builds import torch_build
from doctor.probes.tool_text import reading

# (name as written, file that names it) → path and text, or None for what is not to be read.
Files = Callable[[str, str], "tuple[str, str] | None"]

_LABEL = re.compile(r"/(cu\d{2,4}|cpu|rocm\d[\d.]{0,6})/?(?:$|[?#])")
_BACKEND = re.compile(r"cu\d{2,4}|cpu|rocm\d[\d.]{0,6}")


def no_files(named: str, beside: str) -> tuple[str, str] | None:
    """Read nothing: for texts that lie nowhere."""
    del named, beside
    return None


def label_of_index(url: str) -> str:
    """The build that an index is for: "cu128" of .../whl/cu128, "" if it names none."""
    match = _LABEL.search(url[:500])
    return match[1] if match else ""


def label_of_backend(name: str) -> str:
    """The build that uv's --torch-backend names; "" for auto."""
    return name if _BACKEND.fullmatch(name) else ""


@dataclass(frozen=True)
class Wanted:
    """What is asked for in one environment; each package's `location` is the line that asks.

    `label` is the build that an index or option selects, `python` a version or bounds of it.
    `whole` marks a lock file: what it does not name will not be there.
    """

    packages: tuple[Package, ...] = ()
    label: str = ""
    label_at: str = ""
    python: str = ""
    python_at: str = ""
    whole: bool = False
    notes: tuple[str, ...] = ()

    def then(self, later: Wanted) -> Wanted:
        """Both, the later one on top: what it says again it replaces."""
        named = {package.name: package for package in self.packages}
        for package in later.packages:
            known = named.get(package.name)
            if known is None or package.version is not None:
                named[package.name] = package
        # Bounds of a project say less than a Python that is installed.
        renews = bool(later.python) and not (self.python and later.python[0] in "<>=!~")
        return Wanted(
            packages=tuple(named.values()),
            label=later.label or self.label,
            label_at=later.label_at if later.label else self.label_at,
            python=later.python if renews else self.python,
            python_at=later.python_at if renews else self.python_at,
            whole=self.whole or later.whole,
            notes=tuple(dict.fromkeys((*self.notes, *later.notes))),
        )

    def after(self, earlier: Wanted) -> Wanted:
        """What one more command asks for, in an environment that earlier ones have filled.

        An index counts for its own command: it decides the build of torch if it asks for it,
        or if nothing before it did.
        """
        mine, its = self.names("torch"), earlier.names("torch")
        if mine or (self.packages and its):
            chosen = self if mine else earlier
            label, at = chosen.label, chosen.label_at
        else:
            label, at = self.label or earlier.label, self.label_at or earlier.label_at
        return replace(earlier.then(self), label=label, label_at=at)

    def names(self, name: str) -> bool:
        """Tell whether a package is asked for by name."""
        return any(package.name == name for package in self.packages)

    def scope(self, name: str, kind: str = "venv") -> Scope:
        """The environment that does not exist yet."""
        torch = next((p for p in self.packages if p.name == "torch"), None)
        version = Version.maybe(self.python)
        return Scope(
            id=name,
            kind=kind,
            python=reading(PythonInfo(version) if version else None, self.python_at or name),
            packages=seen(self.packages, name, partial=not self.whole)
            if self.packages
            else UNSTATED,
            torch=self._torch(torch),
            variants={"torch": self.label} if self.label else {},
        )

    def _torch(self, package: Package | None) -> Reading[TorchBuild]:
        if package is None or package.version is None:
            return UNSTATED
        build = torch_build(package.version, self.label, self.label_at or package.location)
        return seen(build, package.location)


def at_line(name: str, number: int) -> str:
    """A place in a file, as evidence names it."""
    return f"{name}:{number}"


def placed(package: Package, name: str, number: int) -> Package:
    """A package with the line that asks for it."""
    return replace(package, location=at_line(name, number))
