"""How one Python environment is laid out: its version and the folders of its path."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Optional

from doctor.facts import Missing, PythonInfo, Reading, Version, missing, seen
from doctor.facts.host import SystemPackage
from doctor.probes.host import Host
from doctor.probes.pyenvs import PYTHON_FOLDER, Environment, kind_of, python_folders

_CONDA_PYTHON = re.compile(r"python-(3(?:\.\d{1,3}){1,2})(?:\D[\w.]*)?-\w+\.json")
_PATCHLEVEL = re.compile(r'^#define\s+PY_VERSION\s+"([^"\n]{1,40})"', re.MULTILINE)
_NUMBERS = re.compile(r"3(?:\.\d{1,3}){1,2}(?:(?:a|b|rc)\d{1,3})?")
_SETTING = re.compile(r"^\s*([\w-]+)\s*=\s*(.*?)\s*$", re.MULTILINE)


@dataclass(frozen=True)
class Layout:
    """The Python of an environment and the folders that it imports from, in order.

    `headers` is the folder that should hold Python.h.
    """

    python: Reading[PythonInfo]
    sites: tuple[str, ...]
    headers: str = ""


@dataclass(frozen=True)
class VenvConfig:
    """What pyvenv.cfg states; `home` is the folder of the Python that it was made with."""

    version: str = ""
    implementation: str = "cpython"
    home: str = ""
    uses_system: bool = False


def parse_pyvenv_cfg(text: str) -> VenvConfig:
    """Read pyvenv.cfg as venv, virtualenv and uv write it."""
    stated = {key.lower(): value for key, value in _SETTING.findall(text)}
    version = _NUMBERS.match(stated.get("version") or stated.get("version_info") or "")
    return VenvConfig(
        version[0] if version else "",
        stated.get("implementation", "cpython").lower() or "cpython",
        stated.get("home", ""),
        stated.get("include-system-site-packages", "").lower() == "true",
    )


def read(host: Host, environment: Environment, packages: tuple[SystemPackage, ...]) -> Layout:
    """Lay an environment out; `packages` tell the exact version of the system's Python."""
    if environment.kind == "venv":
        return _venv(host, environment)
    folder = _folder_in_use(host, environment)
    if not folder:
        nothing = missing(Missing.NOT_READABLE, f"{environment.root}/lib")
        return Layout(nothing, ())
    version, at = _version(host, environment, folder, packages)
    python = _info(folder, version, environment)
    headers = f"{environment.root}/include/{folder}"
    return Layout(seen(python, at), _prefix_sites(host, environment.root, folder), headers)


def _venv(host: Host, environment: Environment) -> Layout:
    at = f"{environment.root}/pyvenv.cfg"
    text = host.read_text(at, 1 << 16)
    config = parse_pyvenv_cfg(text.value or "")
    folder = _venv_folder(host, environment.root, config.version)
    if text.value is None or not (folder or config.version):
        reason = missing(text.missing or Missing.NOT_READABLE, at)
        return Layout(reason, _sites(host, environment.root, folder))
    base = config.home.rpartition("/")[0]
    version = config.version or PYTHON_FOLDER.sub(r"\2.*", folder)
    sites = _sites(host, environment.root, folder)
    if config.uses_system and base:
        sites += _prefix_sites(host, base, folder)
    python = _info(folder, version, environment, config.implementation)
    return Layout(seen(python, at), tuple(dict.fromkeys(sites)), f"{base}/include/{folder}")


def _venv_folder(host: Host, root: str, version: str) -> str:
    """The folder of the version that pyvenv.cfg states; one moved to a new Python has two."""
    folders = python_folders(host, f"{root}/lib")
    short = ".".join(version.split(".")[:2])
    fitting = [f for f in folders if short and PYTHON_FOLDER.sub(r"\2", f) == short]
    return next(iter(fitting or folders), "")


def _folder_in_use(host: Host, environment: Environment) -> str:
    """The Python that the named executable, or else bin/python3, leads to."""
    for path in (environment.executable, f"{environment.root}/bin/python3"):
        name = (host.real_path(path).value or "").rpartition("/")[2] if path else ""
        if PYTHON_FOLDER.fullmatch(name):
            return name
    found = python_folders(host, f"{environment.root}/lib")
    return max(found, key=lambda name: int(name.rstrip("t").partition(".")[2]), default="")


def _version(
    host: Host, environment: Environment, folder: str, packages: tuple[SystemPackage, ...]
) -> tuple[str, str]:
    """The version as exactly as files tell it, and where it was read."""
    root = environment.root
    if environment.kind == "conda":
        for name in host.list_dir(f"{root}/conda-meta").value or ():
            match = _CONDA_PYTHON.fullmatch(name)
            if match:
                return match[1], f"{root}/conda-meta/{name}"
    header = f"{root}/include/{folder}/patchlevel.h"
    match = _PATCHLEVEL.search(host.read_text(header, 1 << 16).value or "")
    if match and Version.maybe(match[1].rstrip("+")):
        return match[1].rstrip("+"), header
    for package in packages if root == "/usr" else ():
        numbers = _NUMBERS.match(package.version)
        if package.name in (folder, "python3") and numbers and numbers[0].count(".") > 1:
            return numbers[0], f"package {package.name}"
    return PYTHON_FOLDER.sub(r"\2.*", folder), f"{root}/lib/{folder}"


def _info(
    folder: str, version: str, environment: Environment, implementation: str = ""
) -> PythonInfo:
    kind = PYTHON_FOLDER.fullmatch(folder)
    name = implementation or ("pypy" if kind and kind[1] == "pypy" else "cpython")
    executable = environment.executable or f"{environment.root}/bin/python3"
    return PythonInfo(Version(version), name, kind[3] if kind else "", executable)


def _sites(host: Host, root: str, folder: str) -> tuple[str, ...]:
    """site-packages below lib and lib64, the latter only where it is not a link to lib."""
    found: dict[Optional[str], str] = {}
    for lib in ("lib", "lib64"):
        site = f"{root}/{lib}/{folder}/site-packages"
        real = host.real_path(site)
        if not real.is_absent:
            found.setdefault(real.value, site)
    return tuple(found.values())


def _prefix_sites(host: Host, root: str, folder: str) -> tuple[str, ...]:
    """The path of a Python that is no virtual environment; Debian's has folders of its own."""
    sites = _sites(host, root, folder)
    home = host.environ().get("HOME", "")
    user = f"{home}/.local/lib/{folder}/site-packages"
    if root == "/usr":
        local = f"/usr/local/lib/{folder}/dist-packages"
        debian = (local, "/usr/lib/python3/dist-packages", f"/usr/lib/{folder}/dist-packages")
        local_sites = () if kind_of(host, "/usr/local") else _sites(host, "/usr/local", folder)
        sites = (*local_sites, *(d for d in debian if not host.real_path(d).is_absent), *sites)
    first = (user,) if home and not host.real_path(user).is_absent else ()
    return (*first, *sites)
