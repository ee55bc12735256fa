"""Bring the matrix up to date from the package index that this user has."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from datetime import date

from doctor.errors import UsageError
from doctor.matrix import load_matrix
from doctor.matrix.index import Index
from doctor.matrix.update import Note, Outcome, Updater, projects

_ADDRESSES = ("UV_DEFAULT_INDEX", "UV_INDEX_URL")


def index_of(environ: Mapping[str, str], settings: Mapping[str, str]) -> Index:
    """The index that pip or uv asks here; `settings` are pip's, by option.

    Raises UsageError if none is to be asked (pip's no-index).
    """
    if settings.get("no-index", "").lower() in ("1", "true", "yes", "on"):
        raise UsageError("pip is told to use no index", "unset no-index, or run this elsewhere")
    stated = [settings.get("index-url", ""), *(environ.get(name, "") for name in _ADDRESSES)]
    address = next(filter(None, (text.strip() for text in stated)), "") or _usual()
    if not address.startswith(("https://", "http://")):
        raise UsageError(f"the index {address[:80]!r} is not a web address", "pip config list")
    certificates = settings.get("cert", "") or environ.get("SSL_CERT_FILE", "")
    return Index(address, certificates)


def _usual() -> str:
    """The address that pip asks where nothing is configured, as pip itself knows it."""
    try:
        from pip._internal.models.index import PyPI
    except ImportError:
        hint = "pip config set global.index-url ADDRESS"
        raise UsageError("no package index is configured, and there is no pip", hint) from None
    return str(PyPI.simple_url)


def update(names: tuple[str, ...], note: Note) -> tuple[Index, Iterator[Outcome]]:
    """The index, and one outcome a domain as it is done."""
    from doctor.profile.index import pip_settings

    matrix = load_matrix()
    index = index_of(os.environ, pip_settings())
    found = Updater(matrix, index, date.today().isoformat())
    return index, found.run(projects(matrix, names), note)
