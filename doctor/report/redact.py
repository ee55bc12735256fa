"""Take names of people and machines out of a report before anybody reads it.

One step for all formats, and the default: reports are pasted into issues.
"""

from __future__ import annotations

import os
import re
from dataclasses import is_dataclass
from operator import is_
from pathlib import Path
from typing import Any

from doctor.facts import Version
from doctor.findings import Finding, OutcomeKind, Severity
from doctor.probes.scrub import Scrubber
from doctor.report import Report

_SHORTEST = 5
_PLAIN = frozenset((type(None), bool, int, float, Version, Severity, OutcomeKind))


class Redactor:
    """Replaces the same name by the same other one in everything it is given."""

    def __init__(self, home: str, host_name: str) -> None:
        self._scrubber = Scrubber(home, host_name)
        user = home.rpartition("/")[2]
        word = re.escape(user) if len(user) >= _SHORTEST else r"(?!)"
        self._user = re.compile(rf"(?<![A-Za-z0-9]){word}(?![A-Za-z0-9])")
        self._seen: dict[str, str] = {}
        self._findings: dict[int, Finding] = {}

    def report(self, report: Report) -> Report:
        """The report without names, addresses, serial numbers, identifiers and tokens."""
        self._findings.clear()
        redacted: Report = self.value(report)
        return redacted

    def text(self, text: str) -> str:
        """One text, redacted."""
        known = self._seen.get(text)
        if known is None:
            known = self._seen[text] = self._user.sub("user", self._scrubber.text(text))
        return known

    def value(self, value: Any) -> Any:
        """Any value of a report; what holds nothing to hide is returned as it is."""
        kind = type(value)
        if kind is str:
            return self.text(value)
        if kind in _PLAIN:
            return value
        if kind is tuple or kind is list:
            changed = [self.value(item) for item in value]
            same = all(map(is_, changed, value))
            return value if same else kind(changed)
        if kind is dict:
            return {self.value(key): self.value(item) for key, item in value.items()}
        if kind is Finding:
            return self._finding(value)
        return self._record(value) if is_dataclass(value) else value

    def _finding(self, finding: Finding) -> Finding:
        """One finding stands in several places of a report, and stays one."""
        known = self._findings.get(id(finding))
        if known is None:
            known = self._findings[id(finding)] = self._record(finding)
        return known

    def _record(self, record: Any) -> Any:
        """A copy with redacted fields, made without the constructor: values stay valid."""
        changed = {}
        for name, old in record.__dict__.items():
            new = self.value(old)
            if new is not old:
                changed[name] = new
        if not changed:
            return record
        copy = object.__new__(type(record))
        copy.__dict__.update(record.__dict__, **changed)
        return copy


def redactor() -> Redactor:
    """A redactor that knows the names of this machine and of whoever runs doctor."""
    try:
        home = str(Path.home())
    except RuntimeError:
        home = ""
    return Redactor(home, os.uname().nodename)
