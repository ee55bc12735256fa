"""Versions as people and machines state them: exact, or known only within bounds.

`Version("580.95.05")` is exact. `Version("580.*")` and `Version(">=0.8,<0.9")` are
known only within bounds, so a comparison may have no answer: it returns None, and
a rule that needs the answer must say *cannot tell*.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Optional

from doctor.facts.pep440 import Key, Parts, parse_exact
from doctor.facts.record import Record
from doctor.facts.values import TextValue

_MAX_CHARS = 200
_CLAUSE = re.compile(r"\s*(~=|===|==|!=|<=|>=|<|>)\s*([^\s,]{1,100})\s*")
_LOWEST: Key = (-1,)
_HIGHEST: Key = (1 << 70,)


def _prefix_bounds(text: str) -> Optional[tuple[Key, Key]]:
    """Bounds of "580.*": from its first development release up to, not including, 581."""
    parts = parse_exact(text[:-2])
    if parts is None or parts.pre or parts.post is not None or parts.dev is not None:
        return None
    upper = (*parts.release[:-1], parts.release[-1] + 1)
    low = Parts(parts.epoch, parts.release, None, None, 0, "").key()
    high = Parts(parts.epoch, upper, None, None, 0, "").key()
    return low, high


def _range_bounds(text: str) -> Optional[tuple[Key, Key]]:
    """Bounds of a specifier such as ">=0.8,<0.9"; exclusions are not bounds."""
    low, high = _LOWEST, _HIGHEST
    spec = Specifier.parse(text)
    if spec is None:
        return None
    for op, version in spec.clauses:
        if op in (">=", ">", "~=", "==", "==="):
            low = max(low, version.low)
        if op in ("<", "<=", "==", "==="):
            high = min(high, version.high if op != "<" else version.low)
    return low, high


class Version(TextValue):
    """A version, exact or within bounds; `text` is what was stated.

    `low` and `high` are its bounds as sort keys: equal for an exact version, else
    `high` is exclusive. Raises ValueError if `text` is not a version, a prefix
    ("12.4.*"), a PEP 440 specifier or a llama.cpp build ("b7474").
    """

    __slots__ = ("high", "low", "text")

    def __init__(self, text: str) -> None:
        self.text = text.strip()
        bounds = self._bounds(self.text) if len(self.text) <= _MAX_CHARS else None
        if bounds is None:
            raise ValueError(f"not a version: {text[:60]!r}")
        self.low, self.high = bounds

    @classmethod
    def parse(cls, text: str) -> Version:
        """Read any of the forms; raise ValueError for anything else."""
        return cls(text)

    @staticmethod
    @lru_cache(maxsize=8192)
    def _bounds(text: str) -> Optional[tuple[Key, Key]]:
        if text[:1] in "<>=!~" and text:
            return _range_bounds(text)
        if text.endswith(".*"):
            return _prefix_bounds(text)
        parts = parse_exact(text)
        return None if parts is None else (parts.key(), parts.key())

    @classmethod
    def maybe(cls, text: Optional[str]) -> Optional[Version]:
        """Return the version, or None for what is not one."""
        try:
            return cls(text) if text else None
        except ValueError:
            return None

    @property
    def is_exact(self) -> bool:
        """True if one version is meant, not a range."""
        return self.low == self.high

    @property
    def release(self) -> tuple[int, ...]:
        """The numbers as written ("580.95.05" gives (580, 95, 5)); of a range, its lower end."""
        parts = parse_exact(self.text[:-2] if self.text.endswith(".*") else self.text)
        if parts is not None:
            return parts.release
        return tuple(self.low[1]) if len(self.low) > 1 else ()

    @property
    def major(self) -> Optional[int]:
        """The first number: a driver's branch, a CUDA major."""
        return self.release[0] if self.release else None

    @property
    def minor(self) -> Optional[int]:
        """The second number, or None where it was not stated."""
        return self.release[1] if len(self.release) > 1 else None

    @property
    def local(self) -> str:
        """The local label of an exact version: "cu128" of "2.8.0+cu128"."""
        parts = parse_exact(self.text)
        return parts.local if parts else ""

    @property
    def public(self) -> str:
        """The version without its local label."""
        return self.text.partition("+")[0]

    @property
    def is_prerelease(self) -> bool:
        """True for an exact alpha, beta, rc or development release."""
        parts = parse_exact(self.text)
        return parts is not None and (parts.pre is not None or parts.dev is not None)

    def older_than(self, other: Version) -> Optional[bool]:
        """Tell whether this is below `other`; None if the bounds leave it open."""
        if not self._comparable(other):
            return None
        if self.is_exact and other.is_exact:
            return self.low < other.low
        # The upper end of a range is exclusive, that of an exact version is itself.
        if self.low < other.low if self.is_exact else self.high <= other.low:
            return True
        return False if self.low >= (other.low if other.is_exact else other.high) else None

    def at_least(self, other: Version) -> Optional[bool]:
        """Tell whether this is `other` or newer; None if the bounds leave it open."""
        older = self.older_than(other)
        return None if older is None else not older

    def newer_than(self, other: Version) -> Optional[bool]:
        """Tell whether this is above `other`; None if the bounds leave it open."""
        return other.older_than(self)

    def same_as(self, other: Version) -> Optional[bool]:
        """Tell whether both are one public version; None if the bounds leave it open."""
        if not self._comparable(other):
            return None
        if self.is_exact and other.is_exact:
            return self.low == other.low
        if self._disjoint(other):
            return False
        return None

    def _disjoint(self, other: Version) -> bool:
        below = self.high < other.low or (self.high == other.low and not self.is_exact)
        above = other.high < self.low or (other.high == self.low and not other.is_exact)
        return below or above

    def _comparable(self, other: Version) -> bool:
        """Build numbers (b7474) and versions are two scales."""
        own, its = self.low, other.low
        return len(own) < 2 or len(its) < 2 or (own[0] == -1) == (its[0] == -1)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, repr=False, eq=False)
class Specifier(Record):
    """A PEP 440 specifier set, such as ">=5.16.1,<5.21.0"."""

    text: str
    clauses: tuple[tuple[str, Version], ...]

    @classmethod
    def parse(cls, text: str) -> Optional[Specifier]:
        """Read a specifier; None for what is not one. "any" and "" admit everything."""
        stripped = text.strip()
        if stripped in ("", "any", "*"):
            return cls(stripped, ())
        clauses = []
        for part in stripped.strip("()").split(","):
            match = _CLAUSE.fullmatch(part)
            version = Version.maybe(match[2]) if match else None
            if match is None or version is None or match[2][0] in "<>=!~":
                return None
            clauses.append((match[1], version))
        return cls(stripped, tuple(clauses))

    def admits(self, version: Version) -> Optional[bool]:
        """Tell whether `version` satisfies every clause; None if that is open."""
        answers = [_clause_admits(op, bound, version) for op, bound in self.clauses]
        if False in answers:
            return False
        return None if None in answers else True

    def __str__(self) -> str:
        return self.text


def _clause_admits(op: str, bound: Version, version: Version) -> Optional[bool]:
    if op in ("==", "==="):
        return _equals(bound, version)
    if op == "!=":
        equal = _equals(bound, version)
        return None if equal is None else not equal
    if op == ">=":
        return version.at_least(bound)
    if op == "<":
        return _below(bound, version)
    if op == "<=":
        newer = version.newer_than(bound)
        return None if newer is None else not newer
    if op == ">":
        return _above(bound, version)
    return _compatible(bound, version)


def _equals(bound: Version, version: Version) -> Optional[bool]:
    if bound.local and version.is_exact and bound.local != version.local:
        return False
    if bound.text.endswith(".*") and version.is_exact:
        return bound.low <= version.low < bound.high
    if bound.text.endswith(".*") and bound.low <= version.low and version.high <= bound.high:
        return True
    return version.same_as(bound)


def _below(bound: Version, version: Version) -> Optional[bool]:
    """PEP 440: "<2.0" leaves out the pre-releases of 2.0 as well."""
    parts = parse_exact(version.text)
    if parts and version.is_prerelease and not bound.is_prerelease:
        final = Parts(parts.epoch, parts.release, None, None, None, "").key()
        return final < bound.low
    limit = parse_exact(bound.text)
    if limit and not version.is_exact and not bound.is_prerelease:
        # "3.11.*" begins at the first pre-release of 3.11, which "<3.11" leaves out too.
        first = Parts(limit.epoch, limit.release, None, None, 0, "").key()
        return False if version.low >= first else version.older_than(bound)
    return version.older_than(bound)


def _above(bound: Version, version: Version) -> Optional[bool]:
    """PEP 440: ">2.0" leaves out the post-releases of 2.0."""
    parts = parse_exact(version.text)
    low = parse_exact(bound.text)
    if parts and low and parts.post is not None and low.post is None:
        final = Parts(parts.epoch, parts.release, parts.pre, None, None, "").key()
        if final == bound.low:
            return False
    return version.newer_than(bound)


def _compatible(bound: Version, version: Version) -> Optional[bool]:
    """PEP 440: "~=2.2.1" means ">=2.2.1,==2.2.*"."""
    prefix = Version(".".join(str(n) for n in bound.release[:-1]) + ".*")
    answers = [version.at_least(bound), _equals(prefix, version)]
    if False in answers:
        return False
    return None if None in answers else True
