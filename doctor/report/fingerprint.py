"""What makes a finding the same finding in the next run: for baselines and code scanning."""

from __future__ import annotations

import hashlib
import re

from doctor.findings import Finding
from doctor.report import Report

_HOME = re.compile(r"/(?:(?:var/)?home|Users)/[^/\s]+|/root(?=/|$)")
# "vllm:4711" and "container:0123456789ab" get other numbers at the next start.
_NUMBER = re.compile(r"(?<=:)(?:\d+|[0-9a-f]{12,64})$")
_WORD = re.compile(r"[^\W\d_]+")


def fingerprint(report: Report, target: str, finding: Finding) -> str:
    """32 hex digits, equal over runs, other versions and figures, and reordered facts.

    Made of the code, the host's name in its fleet, what is at fault, and the words of the
    message: without figures, paths and order.
    """
    words = sorted({word for part in finding.message.split() for word in _words(part)})
    parts = (report.name, finding.code, _lasting(target), _lasting(finding.subject), *words)
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:32]


def _lasting(subject: str) -> str:
    return _NUMBER.sub("", _HOME.sub("~", subject))


def _words(part: str) -> list[str]:
    if "/" in part or "@" in part or any(char.isdigit() for char in part):
        return []
    return [word.lower() for word in _WORD.findall(part)]


def is_known(report: Report, target: str, finding: Finding) -> bool:
    """Tell whether the baseline has the finding."""
    return bool(report.baseline) and fingerprint(report, target, finding) in (report.baseline or ())
