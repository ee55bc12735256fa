"""What all facts have in common: they compare and print by their fields.

Generated methods are most of what importing eighty dataclasses costs, so facts are declared
with `@dataclass(frozen=True, repr=False, eq=False)` and take these from here.
"""

from __future__ import annotations

from typing import Any


class Record:
    """Equality, hash and repr by fields, for frozen dataclasses."""

    def _values(self) -> tuple[Any, ...]:
        # Not __dict__: a decoder may leave defaults on the class.
        names: dict[str, Any] = getattr(self, "__dataclass_fields__", {})
        return tuple(getattr(self, name) for name in names)

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other) or not isinstance(other, Record):
            return False
        return self._values() == other._values()

    def __hash__(self) -> int:
        return hash((type(self), *self._values()))

    def __repr__(self) -> str:
        names: dict[str, Any] = getattr(self, "__dataclass_fields__", {})
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__name__}({fields})"
