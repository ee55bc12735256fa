"""The last answer for an environment, good for as long as nothing that led to it has changed."""

from __future__ import annotations

from typing import Any, Optional

from doctor.binaries.cache import Memory, identity_of
from doctor.binaries.fact_records import from_binary_record, to_binary_record
from doctor.facts import Binary
from doctor.probes.host import Host

_KIND, _NAME = "answer", "libraries"


def recall(memory: Memory, host: Host, asked: list[Any]) -> Optional[tuple[Binary, ...]]:
    """The libraries, if the same was asked and each file and folder looked at is the same."""
    kept = memory.recall(_KIND, _NAME, asked)
    if not isinstance(kept, list) or len(kept) != 2:
        return None
    touched, records = kept
    if not isinstance(touched, dict) or not isinstance(records, list):
        return None
    if any(look(host, path) != identity for path, identity in touched.items()):
        return None
    found = [from_binary_record(record) for record in records]
    return None if None in found else tuple(b for b in found if b is not None)


def keep(
    memory: Memory, asked: list[Any], touched: dict[str, list[int]], found: tuple[Binary, ...]
) -> None:
    """Keep an answer with the identity of all that it came from."""
    memory.keep(_KIND, _NAME, asked, [touched, [to_binary_record(binary) for binary in found]])
    memory.save()


def look(host: Host, path: str) -> list[int]:
    """What tells a file or folder from its later self; empty if it is not there."""
    local = host.local_path(path)
    return list(identity_of(local) or ()) if local is not None else []
