"""Small value types that the field talks in; each travels as its text."""

from __future__ import annotations

import re
from typing import Any

_CC = re.compile(r"(\d{1,3})\.(\d{1,2})")


class TextValue:
    """A value that is equal to another of its type when their texts are, and travels as text.

    Plain classes and not dataclasses, so that decoders ask `parse` for them.
    """

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Any:
        """Read the text form; raise ValueError for anything else."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"


class ComputeCapability(TextValue):
    """A CUDA compute capability; orders by number (9.0 < 10.0), not as text."""

    __slots__ = ("major", "minor")

    def __init__(self, major: int, minor: int) -> None:
        self.major = major
        self.minor = minor

    @classmethod
    def parse(cls, text: str) -> ComputeCapability:
        """Read "8.9"; raise ValueError for anything else."""
        match = _CC.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"not a compute capability: {text[:40]!r}")
        return cls(int(match[1]), int(match[2]))

    @property
    def sm(self) -> str:
        """The name of its machine code, such as "sm_89"."""
        return f"sm_{self.major}{self.minor}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ComputeCapability):
            return False
        return (self.major, self.minor) == (other.major, other.minor)

    def __hash__(self) -> int:
        return hash((self.major, self.minor))

    def __lt__(self, other: ComputeCapability) -> bool:
        return (self.major, self.minor) < (other.major, other.minor)

    def __le__(self, other: ComputeCapability) -> bool:
        return (self.major, self.minor) <= (other.major, other.minor)

    def __gt__(self, other: ComputeCapability) -> bool:
        return other < self

    def __ge__(self, other: ComputeCapability) -> bool:
        return other <= self

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"
