"""The last answer for an environment, good for as long as nothing that led to it has changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional

from doctor.binaries.cache import Memory, identity_of
from doctor.binaries.fact_records import from_binary_record, to_binary_record
from doctor.facts import Binary
from doctor.probes.host import Host

_KIND, _NAME = "answer", "libraries"


@dataclass(frozen=True)
class Answer:
    """The libraries of an environment, and the libcuda.so.1 that would load there, or ""."""

    binaries: tuple[Binary, ...]
    libcuda: str = ""


def recall(memory: Memory, host: Host, asked: list[Any]) -> Optional[Answer]:
    """The answer, if the same was asked and each file and folder looked at is the same."""
    kept = memory.recall(_KIND, _NAME, asked)
    if not isinstance(kept, list) or len(kept) != 3:
        return None
    touched, records, libcuda = kept
    if not (isinstance(touched, dict) and isinstance(records, list) and isinstance(libcuda, str)):
        return None
    if any(look(host, path) != identity for path, identity in touched.items()):
        return None
    found = [from_binary_record(record) for record in records]
    sound = tuple(binary for binary in found if binary is not None)
    return Answer(sound, libcuda) if len(sound) == len(found) else None


def keep(memory: Memory, asked: list[Any], touched: dict[str, list[int]], found: Answer) -> None:
    """Keep an answer with the identity of all that it came from."""
    records = [to_binary_record(binary) for binary in found.binaries]
    memory.keep(_KIND, _NAME, asked, [touched, records, found.libcuda])
    memory.save()


def look(host: Host, path: str) -> list[int]:
    """What tells a file or folder from its later self; empty if it is not there."""
    local = host.local_path(path)
    return list(identity_of(local) or ()) if local is not None else []
