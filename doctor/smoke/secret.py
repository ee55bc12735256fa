"""API keys by reference: env:NAME or file:PATH. The key itself is never shown or stored."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from doctor.errors import UsageError
from doctor.named_files import read_named

_LONGEST = 4096
# So many characters of a key at the end of a text are no chance.
_TELLING = 4
_HINT = "write env:NAME or file:PATH; the key itself would be seen in the process list"


@dataclass(frozen=True)
class Secret:
    """A key and where it came from. Printing it shows the reference alone."""

    reference: str = ""
    value: str = field(default="", repr=False)

    def __str__(self) -> str:
        return self.reference

    def hide(self, text: str) -> str:
        """The text without the key, nor the beginning of one at which the text was cut off."""
        if not self.value:
            return text
        shown = text.replace(self.value, f"<{self.reference}>")
        for length in range(min(len(self.value), len(shown)), _TELLING - 1, -1):
            if shown.endswith(self.value[:length]):
                return f"{shown[:-length]}<{self.reference}>"
        return shown


def read_secret(reference: str) -> Secret:
    """Look a key up; "" is no key. Raises UsageError for what is no reference or holds no key."""
    if not reference:
        return Secret()
    kind, _, name = reference.partition(":")
    if kind == "env" and name:
        value = os.environ.get(name, "")
        where = f"the environment variable {name} is not set"
    elif kind == "file" and name:
        value, where = _read(Path(name)), f"{name} is empty"
    else:
        raise UsageError("--api-key takes a reference", _HINT)
    value = value.strip()
    if not value:
        raise UsageError(f"no API key: {where[:200]}", "set it, or leave --api-key out")
    if len(value) > _LONGEST or not value.isascii() or not value.isprintable():
        raise UsageError(f"what {reference[:200]} holds is no API key", "one line of plain text")
    return Secret(reference, value)


def _read(path: Path) -> str:
    try:
        return read_named(path, _LONGEST + 2).decode("ascii", "replace")
    except OSError as fault:
        raise UsageError(f"cannot read {path}: {fault.strerror}", "name a readable file") from None
