"""Put facts from several inputs together: later ones fill gaps, contradictions are noted."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, is_dataclass, replace
from typing import Any

from doctor.facts import Device, Facts, Reading, Version, to_wire
from doctor.facts.record import Record

# Names by which the records of a list are told apart.
_KEYS = ("id", "a", "name", "path", "pid", "number", "text")
_SAME_SIZE = 0.06
# Words that do not contradict each other (a container may stand in a virtual machine);
# the one that says more comes first.
_RANKED = {
    "platform": ("wsl2", "jetson", "container", "vm", "bare"),
    "kind": ("container", "image", "conda", "venv"),
}


def merge(*parts: Facts) -> Facts:
    """The facts of all parts. Of two values that differ the first stays and a note says so."""
    if not parts:
        return Facts()
    notes: list[str] = []
    merged = parts[0]
    for part in parts[1:]:
        merged = _record(merged, part, "", notes)
    return replace(merged, notes=tuple(dict.fromkeys((*merged.notes, *notes))))


def _record(first: Any, second: Any, where: str, notes: list[str]) -> Any:
    if first == second:
        return first
    changed: dict[str, Any] = {}
    for item in fields(first):
        old, new = getattr(first, item.name), getattr(second, item.name)
        if not (new is old or _is_silent(new, item.default)):
            changed[item.name] = _value(old, new, _join(where, item.name), notes)
    return replace(first, **changed) if changed else first


def _is_silent(value: Any, default: object) -> bool:
    """Tell whether a record or reading is what stands where nobody said anything."""
    return value is default and isinstance(value, (Record, Reading))


def _join(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _value(first: Any, second: Any, where: str, notes: list[str]) -> Any:
    if first == second or second in (None, "", (), {}):
        return first
    if isinstance(first, Reading) and isinstance(second, Reading):
        return _reading(first, second, where, notes)
    if first in (None, "", (), {}):
        return second
    if is_dataclass(first) and type(first) is type(second):
        return _record(first, second, where, notes)
    if isinstance(first, tuple) and isinstance(second, tuple):
        return _rows(first, second, where, notes)
    if isinstance(first, dict) and isinstance(second, dict):
        return _table(first, second, where, notes)
    if isinstance(first, Version) and isinstance(second, Version):
        return _versions(first, second, where, notes)
    return _chosen(first, second, where, notes)


def _reading(
    first: Reading[Any], second: Reading[Any], where: str, notes: list[str]
) -> Reading[Any]:
    if not second.is_known:
        # That a thing is absent or unreadable says more than that nobody spoke of it.
        return second if first == Reading(missing=first.missing) and second.at else first
    if not first.is_known:
        return second
    value = _value(first.value, second.value, where, notes)
    at = ", ".join(dict.fromkeys(filter(None, (first.at, second.at))))
    partial = first.partial and second.partial
    return replace(first, value=value, at=first.at if value == first.value else at, partial=partial)


def _rows(first: tuple[Any, ...], second: tuple[Any, ...], where: str, notes: list[str]) -> Any:
    """Records that share a key become one; the others of the second follow."""
    merged = {_key(row): row for row in first}
    for row in _placed(first, second):
        key = _key(row)
        if key in merged and is_dataclass(row):
            merged[key] = _record(merged[key], row, f"{where}[{key[0]}]", notes)
        else:
            merged.setdefault(key, row)
    return tuple(merged.values())


def _placed(first: tuple[Any, ...], second: tuple[Any, ...]) -> tuple[Any, ...]:
    """Devices of the second under the ids that the first has for their places on the bus.

    Tools number devices differently; an address that is not one device's own tells nothing.
    """
    if not all(isinstance(row, Device) for row in (*first, *second)):
        return second
    places = Counter(row.pci.value for row in first)
    known = {row.pci.value: row.id for row in first if row.pci.value and places[row.pci.value] == 1}
    return tuple(replace(row, id=known.get(row.pci.value, row.id)) for row in second)


def _key(row: Any) -> tuple[str, ...]:
    """What tells a record from others; a pair of devices has two names."""
    if not is_dataclass(row):
        return (str(row),)
    if hasattr(row, "a") and hasattr(row, "b"):
        return (str(row.a), str(row.b))
    name = next((str(getattr(row, key)) for key in _KEYS if getattr(row, key, None)), "")
    return (name or str(row),)


def _table(
    first: dict[str, Any], second: dict[str, Any], where: str, notes: list[str]
) -> dict[str, Any]:
    merged = dict(first)
    for key, value in second.items():
        known = merged.get(key)
        merged[key] = value if known is None else _value(known, value, f"{where}.{key}", notes)
    return merged


def _versions(first: Version, second: Version, where: str, notes: list[str]) -> Version:
    """The more exact of two versions that may be the same."""
    if first.same_as(second) is False:
        chosen: Version = _chosen(first, second, where, notes)
        return chosen
    if first.is_exact and second.is_exact:
        return first if len(first.text) >= len(second.text) else second
    return first if first.is_exact else second


def _chosen(first: Any, second: Any, where: str, notes: list[str]) -> Any:
    """Keep the first of two values; a cut name gives way to a whole one."""
    if isinstance(first, str) and isinstance(second, str):
        for cut, whole in ((first, second), (second, first)):
            if cut.endswith("...") and whole.startswith(cut[:-3].rstrip()):
                return whole
    ranked = _RANKED.get(where.rpartition(".")[2], ())
    if first in ranked and second in ranked:
        return min(first, second, key=ranked.index)
    if where.endswith("memory_mib") and isinstance(first, int) and isinstance(second, int):
        # People state nominal sizes: 80 GB is 81559 MiB on the card.
        close = abs(first - second) <= _SAME_SIZE * max(first, second)
        return min(first, second) if close else _noted(first, second, where, notes)
    return _noted(first, second, where, notes)


def _noted(first: Any, second: Any, where: str, notes: list[str]) -> Any:
    notes.append(f"{where} is {_brief(first)} or {_brief(second)}: took the first")
    return first


def _brief(value: Any) -> str:
    return str(to_wire(value))[:120]
