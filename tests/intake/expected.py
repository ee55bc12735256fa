"""Compare facts with what a data file says of them."""

from __future__ import annotations

from typing import Any

from doctor.facts import Facts, to_wire


def differences(facts: Facts, expected: dict[str, Any]) -> list[str]:
    """Places where `expected`, a part of the wire form, does not hold.

    A reading is written as its value, or `{missing: reason}`; lists are compared
    whole, records within them key by key; `null` means that nothing is stated.
    """
    return list(_differ(to_wire(facts), expected, "facts"))


def _differ(found: Any, expected: Any, where: str) -> list[str]:
    if isinstance(found, dict) and "value" in found and not _is_reading(expected):
        found = found["value"]
    if isinstance(expected, dict):
        table = found if isinstance(found, dict) else {}
        return [
            line
            for key, value in expected.items()
            for line in _differ(table.get(key), value, f"{where}.{key}")
        ]
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        pairs = enumerate(zip(found, expected, strict=True))
        return [line for i, (f, e) in pairs for line in _differ(f, e, f"{where}[{i}]")]
    return [] if found == expected else [f"{where}: {found!r}, expected {expected!r}"]


def _is_reading(expected: Any) -> bool:
    return isinstance(expected, dict) and ("missing" in expected or "value" in expected)
