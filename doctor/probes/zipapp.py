"""Build the zipapp: facts, binaries and probes in one file that any Python 3.9 runs.

python -m doctor.probes.zipapp doctor.pyz
"""

from __future__ import annotations

import os
import sys
import tokenize
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec

from doctor.errors import UsageError
from doctor.probes import zipapp_pruning

_FOLDERS = ("facts", "binaries", "probes")
_FILES = ("__init__.py", "errors.py")
_MAIN = "probes/zipapp_main.py"
_BINDINGS = "pynvml.py"
# What builds the archive, and what only writes recordings and reads them.
_NOT_SHIPPED = (
    *("zipapp.py", "zipapp_main.py", "zipapp_pruning.py"),
    *("condense.py", "recorded.py", "recording.py", "recording_host.py", "scrub.py"),
)
# The files that say what is asked of NVML.
_ASKING = ("probes/nvml.py", "probes/nvml_questions.py")
_SHEBANG = b"#!/usr/bin/env python3\n"
# The earliest that a zip file can state: one source, one archive, to the last bit.
_WHEN = (1980, 1, 1, 0, 0, 0)
_COMPILED = (".so", ".pyd", ".dll", ".dylib", ".o", ".a")
SIZE_LIMIT = 200_000


def build(target: str) -> int:
    """Write the zipapp and return its size in bytes.

    Raises UsageError if the folders hold compiled code or the archive grows too large.
    """
    with open(target, "wb") as file:
        file.write(_SHEBANG)
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for name, path in sorted(_members()):
                member = zipfile.ZipInfo(name, _WHEN)
                member.external_attr = 0o644 << 16
                archive.writestr(member, _source_of(name, path), zipfile.ZIP_DEFLATED)
    size = os.path.getsize(target)
    if size > SIZE_LIMIT:
        raise UsageError(
            f"{target} has {size} bytes; the limit is {SIZE_LIMIT}", "reinstall llm-doctor"
        )
    os.chmod(target, 0o755)  # noqa: S103 - a program for everyone
    return size


def _source_of(name: str, path: str) -> str:
    with open(path, encoding="utf-8") as file:
        source = file.read()
    if name == _BINDINGS:
        source = zipapp_pruning.pruned(source, _asked_of_nvml())
    return slimmed(source)


def _asked_of_nvml() -> frozenset[str]:
    texts = []
    for name in _ASKING:
        with open(os.path.join(_package(), name), encoding="utf-8") as file:
            texts.append(file.read())
    return zipapp_pruning.words("\n".join(texts))


def _package() -> str:
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def slimmed(source: str) -> str:
    """The source without comments and docstrings; every line keeps its number.

    The comment that a file begins with stays: it is its licence.
    """
    lines = source.splitlines(keepends=True)
    tokens = list(tokenize.generate_tokens(iter(lines).__next__))
    previous = 0
    for index, token in enumerate(tokens):
        if token.type == tokenize.COMMENT and previous:
            _replace(lines, token, "")
        elif index + 1 < len(tokens) and _is_docstring(token, previous, tokens[index + 1]):
            _replace(lines, token, '""')
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            previous = token.type
    return "".join(lines)


def _is_docstring(token: tokenize.TokenInfo, previous: int, follower: tokenize.TokenInfo) -> bool:
    """A string that is a statement of its own; `previous` is 0 at the start of the file."""
    starts = previous in (0, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    return token.type == tokenize.STRING and starts and follower.type == tokenize.NEWLINE


def _replace(lines: list[str], token: tokenize.TokenInfo, text: str) -> None:
    """Put `text` in place of a token that ends its line; further lines of it stay, empty."""
    (first, column), (last, _) = token.start, token.end
    lines[first - 1] = (lines[first - 1][:column] + text).rstrip() + "\n"
    lines[first:last] = ["\n"] * (last - first)


def _members() -> Iterator[tuple[str, str]]:
    """Names in the archive with the files that they come from."""
    package = _package()
    yield "__main__.py", os.path.join(package, _MAIN)
    for name in _FILES:
        yield f"doctor/{name}", os.path.join(package, name)
    for folder in _FOLDERS:
        yield from _sources(package, folder)
    pynvml = find_spec("pynvml")
    if pynvml is not None and pynvml.origin:
        yield _BINDINGS, pynvml.origin


def _sources(package: str, folder: str) -> Iterator[tuple[str, str]]:
    for place, _, names in os.walk(os.path.join(package, folder)):
        for name in names:
            path = os.path.join(place, name)
            if name.endswith(_COMPILED) or ".so." in name:
                raise UsageError(f"{path} is compiled code", "the probes are source only")
            if name.endswith(".py") and name not in _NOT_SHIPPED:
                yield os.path.relpath(path, os.path.dirname(package)), path


if __name__ == "__main__":
    print(build(sys.argv[1]))
