"""Pythons that uv manages, for machines that lack the one that is wanted.

They are those of python-build-standalone; uv knows the sha256 of each and refuses another
file. Where they come from can be set as for uv itself (UV_PYTHON_INSTALL_MIRROR).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from doctor.errors import RemoteError
from doctor.profile.locking import uv_program

COMPLETE = ".complete"
_LIST_S, _INSTALL_S = 60, 1800
_KEY = re.compile(r"cpython-(3\.[0-9]{1,2})\.[0-9]{1,3}-linux-(x86_64|aarch64)-gnu")


def managed_python(minor: str, arch: str) -> str:
    """The name of the newest Python of a minor version ("3.12") that uv can fetch.

    Raises RemoteError if there is none.
    """
    request = f"cpython-{minor}-linux-{arch}-gnu"
    words = ["python", "list", "--only-downloads", "--output-format", "json", request]
    try:
        rows = json.loads(_uv(words, _LIST_S))
        names = [str(row["key"]) for row in rows if _KEY.fullmatch(str(row["key"]))]
    except (ValueError, KeyError, TypeError, RecursionError):
        names = []
    if not names:
        raise RemoteError(f"uv has no Python {minor} for {arch}", "choose another install.python")
    return names[0]


def program_of(name: str) -> str:
    """Where its program lies in its folder."""
    match = _KEY.fullmatch(name)
    return f"bin/python{match[1]}" if match else "bin/python3"


def minor_of(name: str) -> str:
    """The minor version of such a Python; "" for what is none."""
    match = _KEY.fullmatch(name)
    return match[1] if match else ""


def pack_python(name: str, archive: Path) -> None:
    """Fetch a Python and pack its folder, whole or not at all; its mark comes last.

    Raises RemoteError with uv's own words.
    """
    if archive.exists():
        return
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="doctor-python-") as folder:
        options = ["--install-dir", folder, "--no-bin", "--no-progress"]
        _uv(["python", "install", *options, name], _INSTALL_S)
        place = Path(folder, name)
        if not (place / program_of(name)).exists():
            raise RemoteError(f"uv brought {name} without its program", "report it")
        part = archive.with_name(f"{archive.name}.part")
        with tarfile.open(part, "w:gz", compresslevel=1) as packed:
            packed.add(place.resolve(), name, filter=_nobodys)
            mark = Path(folder, COMPLETE)
            mark.touch()
            packed.add(mark, f"{name}/{COMPLETE}", filter=_nobodys)
        os.replace(part, archive)


def _nobodys(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Files belong to whoever unpacks them."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def _uv(words: list[str], limit_s: int) -> str:
    command: list[Any] = [uv_program(), *words, "--no-config"]
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, timeout=limit_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise RemoteError(f"uv did not end within {limit_s} s", "try again") from None
    if answer.returncode:
        said = answer.stderr.strip()[-800:]
        raise RemoteError(f"uv cannot fetch that Python:\n{said}", "see its words above")
    return answer.stdout
