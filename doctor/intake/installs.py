"""Commands that install Python packages or a Python: pip, uv, conda, apt. Nothing is run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from doctor.facts import Package, Version
from doctor.intake.formats.requirements import applies, required_package, requirement
from doctor.intake.names import package_name
from doctor.intake.project_toml import is_project, read_project
from doctor.intake.requirement_file import read_requirements
from doctor.intake.shell_commands import Command
from doctor.intake.wanted import Files, Wanted, label_of_backend, label_of_index, placed

_PIP = re.compile(r"(?:\S{0,200}/)?pip[\d.]{0,5}")
_PYTHON = re.compile(r"(?:\S{0,200}/)?python[\d.]{0,5}")
_CONDA = re.compile(r"(?:\S{0,200}/)?(?:conda|mamba|micromamba)")
_APT = re.compile(r"(?:apt-get|apt|aptitude|dnf|yum|microdnf|apk|zypper)")
_APT_PYTHON = re.compile(r"python(3\.\d{1,2})(?:-(?:minimal|dev|venv|distutils|full))?")
_CONDA_SPEC = re.compile(r"(?:[\w.-]{1,60}::)?([A-Za-z0-9][\w.-]{0,99})(?:={1,2}([\w.]{1,40}))?.*")
_INDEX = ("-i", "--index-url", "--extra-index-url", "-f", "--find-links", "--index",
          "--default-index")  # fmt: skip
_FILES = ("-r", "--requirement", "--requirements")
_CONSTRAINTS = ("-c", "--constraint", "--constraints", "-e", "--editable")
# Other options of pip and uv that take a value of their own.
_VALUED = ("-t", "--target", "--python", "-p", "--prefix", "--root", "--platform", "--only-binary",
           "--no-binary", "--python-version", "--timeout", "--retries", "--cache-dir", "--log",
           "--proxy", "--trusted-host", "--index-strategy", "--prerelease", "--resolution", "--src",
           "--no-build-isolation-package", "--config-settings", "-b", "--build-constraint",
           "--upgrade-strategy", "--implementation", "--abi", "--progress-bar", "--cert",
           "--link-mode", "--override", "--exclude-newer", "--extra", "--group")  # fmt: skip
_CUDA_PACKAGES = ("pytorch-cuda", "cuda-version")


@dataclass(frozen=True)
class Shell:
    """Where a command stands: file, line by place in its text, variables, files beside it."""

    name: str
    line_at: Callable[[int], int]
    values: Mapping[str, str]
    files: Files

    def at(self, place: int) -> str:
        """The line of a place, as evidence names it."""
        return f"{self.name}:{self.line_at(place)}"


def installed_by(command: Command, shell: Shell) -> Wanted:
    """What a command installs; nothing for any other command."""
    words, skipped = _installer(command.words)
    if words is None:
        return _system(command, shell)
    wanted = _environment({**shell.values, **command.env}, shell.at(command.place))
    places = command.places[skipped:]
    for option, value, index in _arguments(words):
        wanted = wanted.then(_one(option, value, places[index], shell))
    return wanted


def _installer(words: tuple[str, ...]) -> tuple[tuple[str, ...] | None, int]:
    """The arguments of `pip install`, `python -m pip install` or `uv pip install`."""
    skip = 0
    if _PYTHON.fullmatch(words[0]) and words[1:2] == ("-m",):
        skip = 2
    elif words[0].rpartition("/")[2] == "uv" and words[1:2] == ("pip",):
        skip = 1
    elif words[0].rpartition("/")[2] == "uv" and words[1:2] == ("add",):
        return words[2:], 2
    rest = words[skip:]
    if len(rest) < 2 or not _PIP.fullmatch(rest[0]) or "install" not in rest[1:4]:
        return None, 0
    start = rest.index("install") + 1
    return rest[start:], skip + start


def _arguments(words: tuple[str, ...]) -> Iterator[tuple[str, str, int]]:
    """Options with their values, and what is asked for under the option ""."""
    index = 0
    while index < len(words):
        word, here = words[index], index
        index += 1
        if not word.startswith("-"):
            yield "", word, here
            continue
        option, equals, value = word.partition("=")
        takes = option in (*_INDEX, *_FILES, *_CONSTRAINTS, *_VALUED, "--torch-backend")
        if not equals and takes and index < len(words):
            value = words[index]
            index += 1
        yield option, value, here


def _one(option: str, value: str, place: int, shell: Shell) -> Wanted:
    at = shell.at(place)
    if option in _INDEX:
        label = label_of_index(value)
        return Wanted(label=label, label_at=at) if label else Wanted()
    if option == "--torch-backend":
        label = label_of_backend(value)
        return Wanted(label=label, label_at=at) if label else Wanted()
    if option in _FILES:
        return from_file(value, at, shell)
    if option or value in (".", "..") or value.startswith(("./", "/", "../")):
        return Wanted()
    found = requirement(value)
    if found is None:
        return Wanted(notes=(f"{at}: not understood: {value[:80]}",))
    package = placed(required_package(found), shell.name, shell.line_at(place))
    return Wanted((package,)) if applies(found) else Wanted()


def from_file(named: str, at: str, shell: Shell) -> Wanted:
    """What a file beside this one asks for; a note if it is not there to be read."""
    found = shell.files(named, shell.name)
    if found is None:
        return Wanted(notes=(f"{at}: {named[:80]} is not read",))
    path, text = found
    return read_project(text, path) if is_project(path) else read_requirements(
        text, path, shell.files
    )  # fmt: skip


def _environment(values: Mapping[str, str], at: str) -> Wanted:
    """What variables of pip and uv select."""
    names = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL",
             "UV_INDEX", "UV_DEFAULT_INDEX", "PIP_FIND_LINKS")  # fmt: skip
    urls = [url for name in names for url in values.get(name, "").split()]
    labels = [label for url in urls if (label := label_of_index(url))]
    backend = label_of_backend(values.get("UV_TORCH_BACKEND", ""))
    label = next(iter(labels), "") or backend
    return Wanted(label=label, label_at=at) if label else Wanted()


def _system(command: Command, shell: Shell) -> Wanted:
    """A Python of the system's packages, of uv or of conda, and conda's packages."""
    words, at = command.words, shell.at(command.place)
    if _CONDA.fullmatch(words[0]) and {"install", "create"} & set(words[1:3]):
        return _conda(command, shell)
    if _APT.fullmatch(words[0]) and {"install", "add"} & set(words[1:4]):
        found = next((m[1] for word in words if (m := _APT_PYTHON.fullmatch(word))), "")
        return Wanted(python=f"{found}.*", python_at=at) if found else Wanted()
    if words[0].rpartition("/")[2] == "uv":
        return _uv(words, at, shell)
    return Wanted()


def _uv(words: tuple[str, ...], at: str, shell: Shell) -> Wanted:
    """`uv venv --python 3.12`, `uv python install 3.12`, `uv sync`."""
    if words[1:2] == ("sync",):
        found = from_file("uv.lock", at, shell)
        return found if found.packages else from_file("pyproject.toml", at, shell)
    if words[1:2] not in (("venv",), ("python",)):
        return Wanted()
    text = next(
        (w for w in words[2:] if re.fullmatch(r"(?:--python=)?3\.\d{1,2}[\d.]{0,4}", w)), ""
    )
    version = text.rpartition("=")[2]
    minor = f"{version}.*" if version.count(".") == 1 else version
    return Wanted(python=minor, python_at=at) if version else Wanted()


def _conda(command: Command, shell: Shell) -> Wanted:
    wanted = Wanted()
    start = 2 if command.words[1] in ("install", "create") else 3
    for index, word in enumerate(command.words[start:], start):
        match = None if word.startswith("-") else _CONDA_SPEC.fullmatch(word)
        if match is None or command.words[index - 1] in ("-c", "--channel", "-n", "--name", "-p"):
            continue
        place = command.places[index]
        wanted = wanted.then(_conda_spec(match[1], match[2] or "", place, shell))
    return wanted


def _conda_spec(name: str, version: str, place: int, shell: Shell) -> Wanted:
    at = shell.at(place)
    exact = f"{version}.*" if version.count(".") == 1 else version
    if name == "python":
        return Wanted(python=exact, python_at=at) if version else Wanted()
    if name in _CUDA_PACKAGES:
        label = f"cu{version.replace('.', '')}" if version.count(".") == 1 else ""
        return Wanted(label=label, label_at=at) if label else Wanted()
    package = Package(package_name(name), Version.maybe(exact))
    return Wanted((placed(package, shell.name, shell.line_at(place)),))
