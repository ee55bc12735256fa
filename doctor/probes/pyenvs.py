"""Where this host has Python environments. Found by looking at files; no Python is started."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from doctor.probes.host import Host

PYTHON_FOLDER = re.compile(r"(python|pypy)(3\.\d{1,3})(t?)")
_CONDA_HOMES = ("miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba", ".conda")
# Folders whose every entry is an environment of its own.
_COLLECTIONS = (
    ".local/share/uv/tools",
    ".local/share/pipx/venvs",
    ".local/pipx/venvs",
    ".virtualenvs",
    ".pyenv/versions",
)
_SYSTEM = ("/usr", "/usr/local")
_MOST_FOUND = 64


@dataclass(frozen=True)
class Environment:
    """A Python environment: `kind` venv, conda or system; `asked` if it was named or is active.

    `executable` is the Python that was named, "" if it was found otherwise.
    """

    root: str
    kind: str
    asked: bool = False
    executable: str = ""


def discover(
    host: Host, named: Iterable[str] = (), running: Iterable[str] = ()
) -> tuple[Environment, ...]:
    """All environments, those that were named first, each real folder once.

    `named` are executables or folders that a person gave, `running` executables of
    engine processes.
    """
    found: dict[str, Environment] = {}
    for environment in _candidates(host, named, running):
        real = host.real_path(environment.root).value or environment.root
        found.setdefault(real, environment)
    return tuple(found.values())


def _candidates(host: Host, named: Iterable[str], running: Iterable[str]) -> Iterator[Environment]:
    env = host.environ()
    folder, homes = env.get("PWD", ""), _homes(host, env.get("HOME", ""))
    for path in [*(absolute(path, folder) for path in named), *running]:
        yield from _at(host, path)
    active = (env.get("VIRTUAL_ENV", ""), absolute(".venv", folder), env.get("CONDA_PREFIX", ""))
    yield from _folders(host, active, asked=True)
    for path in _SYSTEM:
        if host.real_path(f"{path}/bin/python3").is_known:
            yield Environment(path, "system", asked=True)
    elsewhere = [path for home in homes for path in _in_home(host, home)]
    elsewhere += _with_named(host, [f"/opt/{name}" for name in ("conda", *_CONDA_HOMES)])
    yield from _folders(host, elsewhere[:_MOST_FOUND], asked=False)


def _homes(host: Host, home: str) -> list[str]:
    """The home of this user; of a tree, which belongs to nobody here, all homes."""
    if home:
        return [home]
    return ["/root", *_entries(host, "/home")]


def _folders(host: Host, paths: Iterable[str], asked: bool) -> Iterator[Environment]:
    """Those of the folders that are environments."""
    for path in paths:
        kind = kind_of(host, path) if path.startswith("/") else ""
        if kind:
            yield Environment(path, kind, asked)


def absolute(path: str, folder: str) -> str:
    """The path from the root, "." left out and ".." kept as the system keeps it."""
    full = path if path.startswith("/") else f"{folder}/{path}"
    return "/" + "/".join(part for part in full.split("/") if part not in ("", "."))


def _at(host: Host, path: str) -> Iterator[Environment]:
    """The environment that a folder is, or that an executable belongs to."""
    if not path.startswith("/"):
        return
    if kind_of(host, path):
        yield from _folders(host, (path,), asked=True)
        return
    # A Python that is a link belongs to the folder of the link, if that is an environment.
    for executable in (path, host.real_path(path).value or path):
        root = executable.rpartition("/")[0].rpartition("/")[0] or "/usr"
        kind = kind_of(host, root)
        if kind:
            yield Environment(root, kind, True, path)
            return


def kind_of(host: Host, root: str) -> str:
    """Tell venv, conda and system apart by what lies in the folder; "" if it is none."""
    if host.stat(f"{root}/pyvenv.cfg").is_known:
        return "venv"
    if host.list_dir(f"{root}/conda-meta").is_known:
        return "conda"
    return "system" if python_folders(host, f"{root}/lib") else ""


def python_folders(host: Host, folder: str) -> tuple[str, ...]:
    """Folders of a library folder that belong to one Python each, such as "python3.12"."""
    names = host.list_dir(folder).value or ()
    return tuple(name for name in names if PYTHON_FOLDER.fullmatch(name))


def _in_home(host: Host, home: str) -> Iterator[str]:
    """Conda's own list, its usual homes, and the environments of tools that keep many."""
    listed = host.read_text(f"{home}/.conda/environments.txt", 1 << 16).value or ""
    yield from (line.strip() for line in listed.splitlines() if line.startswith("/"))
    yield from _with_named(host, [f"{home}/{name}" for name in _CONDA_HOMES])
    for name in _COLLECTIONS:
        yield from _entries(host, f"{home}/{name}")


def _with_named(host: Host, homes: Iterable[str]) -> Iterator[str]:
    """Homes of conda, each followed by its named environments."""
    for path in homes:
        yield path
        yield from _entries(host, f"{path}/envs")


def _entries(host: Host, folder: str) -> Iterator[str]:
    yield from (f"{folder}/{name}" for name in host.list_dir(folder).value or ())
