"""Find the environment that holds an engine, and the engine's version, by looking at files."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from doctor.errors import UsageError
from doctor.extras import how_to_add
from doctor.facts import Package, Scope, Version
from doctor.matrix.launching import Launch
from doctor.probes import scopes
from doctor.probes.dists import normalized
from doctor.probes.local import LocalHost
from doctor.smoke.launch import LaunchError

_BUILD = re.compile(r"^version:\s*(\d{1,9})\b", re.MULTILINE)
_INSTALLS = ("/usr/local/Ascend/mindie/latest/mindie-service",)


@dataclass(frozen=True)
class Place:
    """Where an engine lives: its Python, the folder of its commands, its version if known.

    `install` is the folder that it was put in: its own, or site-packages.
    """

    python: str = ""
    bin: str = ""
    install: str = ""
    version: Version | None = None
    has_torch: bool = False


def find_place(row: Launch, python: str = "") -> Place:
    """The environment named by `python`, else the first one here that holds the engine.

    Raises UsageError if the named one is none or lacks the engine, LaunchError if there is
    no such engine here.
    """
    if row.engine == "xllamacpp":
        return Place(sys.executable, str(Path(sys.executable).parent), version=_own(row.package))
    program = row.command[0]
    if not program.startswith("{"):
        return _on_path(program)
    if program.startswith("{install}"):
        return _installed(program)
    return _in_environment(row, python)


def _own(package: str) -> Version | None:
    """The version of a distribution in the Python that runs this."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return Version.maybe(version(package))
    except PackageNotFoundError:
        raise LaunchError(f"{package} is not installed", how_to_add("smoke")) from None


def _on_path(program: str) -> Place:
    found = shutil.which(program)
    if found is None:
        raise LaunchError(f"{program} is not on PATH", "install it, or put its folder on PATH")
    return Place(bin=str(Path(found).parent), version=_build_of(found))


def _build_of(program: str) -> Version | None:
    """The build number that llama-server prints; it is about to be run anyway."""
    if Path(program).name != "llama-server":
        return None
    try:
        said = subprocess.run(
            [program, "--version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = _BUILD.search(said.stdout + said.stderr)
    return Version.maybe(f"b{match[1]}") if match else None


def _installed(program: str) -> Place:
    for folder in (os.environ.get("MIES_INSTALL_PATH", ""), *_INSTALLS):
        if folder and Path(program.replace("{install}", folder)).exists():
            return Place(install=folder)
    raise LaunchError(f"{Path(program).name} was not found", "set MIES_INSTALL_PATH to its folder")


def _in_environment(row: Launch, python: str) -> Place:
    package = normalized(row.package)
    named = str(Path(python).absolute()) if python else sys.prefix
    found = scopes.read(LocalHost(), (named,))
    if python:
        found = tuple(scope for scope in found if _is_at(scope, named))
        if not found:
            raise UsageError(
                f"--python {python[:200]}: no Python environment there",
                "name a python executable or an environment's folder",
            )
    for scope in found:
        installed = scope.package(package)
        if installed is not None and installed.version is not None:
            return _place(scope, installed)
    where = f"is not in {python[:200]}" if python else "is in no Python environment here"
    raise LaunchError(f"{row.package} {where}", "name its environment with --python")


def _place(scope: Scope, installed: Package) -> Place:
    folder = f"{scope.root}/bin"
    info = scope.python.value
    executable = info.executable if info and info.executable else f"{folder}/python3"
    has_torch = scope.package("torch") is not None
    return Place(executable, folder, installed.location, installed.version, has_torch)


def _is_at(scope: Scope, named: str) -> bool:
    python = scope.python.value
    places = {scope.root, python.executable if python else ""}
    return bool({named, str(Path(named).parent.parent)} & places)
