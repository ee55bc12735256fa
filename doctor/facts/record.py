"""What all facts have in common: they compare and print by their fields.

Generated methods are most of what importing eighty dataclasses costs, so facts are declared
with `@dataclass(frozen=True, repr=False, eq=False)` and take these from here.
"""

from __future__ import annotations


class Record:
    """Equality, hash and repr by fields, for frozen dataclasses."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self), *self.__dict__.values()))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items())
        return f"{type(self).__name__}({fields})"
