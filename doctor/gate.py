"""What a check may overlook: findings of a baseline, and findings that a person ignores.

The ignore list is read from a file named by a flag or from the user's own configuration,
never from the working directory: whoever sends a repository must not silence its check.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass, fields, replace
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from doctor.binaries.cache import user_folder
from doctor.errors import UsageError
from doctor.findings import Finding, Severity, TargetDiagnosis, overall, verdict_of
from doctor.named_files import read_named
from doctor.report import Hidden, Report
from doctor.report.baseline import SCHEMA as BASELINE_SCHEMA

_EXAMPLE = (
    'for example: [[ignore]] cause = "engine-vulnerable", reason = "ports are closed", '
    "until = 2027-01-31; doctor/config.schema.json lists all keys"
)


@dataclass(frozen=True)
class Ignore:
    """One entry of the ignore list: a cause or code, where, why, and until which day.

    `subject` and `host` are patterns with `*`; a subject is a target, scope or device id.
    """

    reason: str
    cause: str = ""
    code: str = ""
    subject: str = "*"
    host: str = "*"
    until: date | None = None


@dataclass(frozen=True)
class Config:
    """doctor.toml: the ignore list."""

    ignore: tuple[Ignore, ...] = ()


def read_config(named: str = "") -> tuple[Config, str]:
    """The configuration and its path: the file named, else the user's own, else none.

    Raises UsageError for a file that cannot be read, says unknown things, or, if it was not
    named, can be changed by others than its user.
    """
    path = Path(named) if named else own_config()
    if path is None or (not named and not os.path.isfile(path)):
        return Config(), ""
    if not named:
        _refuse_foreign(path)
    import msgspec  # most hosts have no such file

    try:
        data = _toml(path)
        config = msgspec.convert(data, Config)
        _known_only(data)
    except OSError as fault:
        raise UsageError(f"{path}: {fault.strerror}", "name a readable doctor.toml") from None
    except (ValueError, RecursionError) as fault:  # of TOML and of the shape alike
        raise UsageError(f"{path}: {fault}", _EXAMPLE) from None
    for entry in config.ignore:
        _check(entry, path)
    return config, str(path)


def own_config() -> Path | None:
    """Where the user's own configuration lies: never in the folder where one stands."""
    base = user_folder("XDG_CONFIG_HOME", ".config")
    return Path(base) / "doctor" / "doctor.toml" if base else None


def _toml(path: Path) -> Any:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(read_named(path).decode("utf-8"))


def _known_only(data: dict[str, Any]) -> None:
    """Raise ValueError for a key that nothing reads: a misspelt entry must not be silent."""
    import difflib  # few runs have an ignore list

    for record, shape in [(data, Config), *((entry, Ignore) for entry in data.get("ignore", ()))]:
        known = [field.name for field in fields(shape)]
        for key in sorted(set(record) - set(known)):
            near = difflib.get_close_matches(key, known, n=1)
            meant = f"did you mean `{near[0]}`?" if near else f"known: {', '.join(known)}"
            raise ValueError(f"unknown field `{key}`: {meant}")


def _refuse_foreign(path: Path) -> None:
    status = path.stat()
    if status.st_uid not in (os.getuid(), 0) or status.st_mode & 0o022:
        raise UsageError(f"{path}: others can change it", f"chmod go-w {path}, or use --config")


def _check(entry: Ignore, path: Path) -> None:
    if not entry.reason.strip():
        raise UsageError(f"{path}: an ignore entry has no reason", "say why, for the next reader")
    if not entry.cause and not entry.code:
        raise UsageError(f"{path}: an ignore entry names neither cause nor code", _EXAMPLE)


def read_baseline(path: str) -> frozenset[str]:
    """Fingerprints of a baseline or of a JSON report; raises UsageError if it is neither."""
    from doctor.intake.detect import read_text

    try:
        data = json.loads(read_text(path))
    except (ValueError, RecursionError):
        data = None
    found = data.get("findings") if isinstance(data, dict) else None
    if isinstance(data, dict) and data.get("schema") == BASELINE_SCHEMA and isinstance(found, dict):
        return frozenset(found)
    raise UsageError(f"{path}: not a baseline", "write one with -o baseline=FILE")


def gate(config: str, baseline: str, today: date) -> Gate:
    """The gate of the files named; raises UsageError for files that are none."""
    entries, source = read_config(config)
    return Gate(entries, source, read_baseline(baseline) if baseline else None, today)


@dataclass(frozen=True)
class Gate:
    """What to overlook; `source` is the file of the ignore list."""

    config: Config = Config()
    source: str = ""
    baseline: frozenset[str] | None = None
    today: date = date.max

    def apply(self, report: Report) -> Report:
        """Take ignored findings out and note them; findings of the baseline stay, marked."""
        report = replace(report, baseline=self.baseline)
        if not self.config.ignore:
            return report
        hidden: list[Hidden] = []
        targets = tuple(
            self._target(target, report.name, hidden) for target in report.diagnosis.targets
        )
        diagnosis = replace(report.diagnosis, targets=targets, verdict=overall(targets))
        return replace(
            report,
            diagnosis=diagnosis,
            hidden=tuple(hidden),
            notes=(*report.notes, *self._expired()),
        )

    def _target(self, target: TargetDiagnosis, host: str, hidden: list[Hidden]) -> TargetDiagnosis:
        kept = []
        for finding in target.findings:
            entry = self._entry(target.subject, host, finding)
            if entry is None:
                kept.append(finding)
            else:
                until = entry.until.isoformat() if entry.until else ""
                hidden.append(Hidden(target.subject, finding, entry.reason, until))
        if len(kept) == len(target.findings):
            return target
        # The likeliest cause is a note, and stays the first where it was.
        serious = (f for f in kept if f.severity is not Severity.INFO or f is target.primary)
        primary = next(serious, None)
        verdict = verdict_of(primary, target.outcomes)
        return replace(target, findings=tuple(kept), primary=primary, verdict=verdict)

    def _entry(self, target: str, host: str, finding: Finding) -> Ignore | None:
        for entry in self.config.ignore:
            named = entry.cause in ("", finding.cause) and entry.code in ("", finding.code)
            places = (target, finding.subject)
            here = any(fnmatchcase(place, entry.subject) for place in places)
            if named and here and fnmatchcase(host, entry.host) and not self._is_over(entry):
                return entry
        return None

    def _is_over(self, entry: Ignore) -> bool:
        return entry.until is not None and self.today > entry.until

    def _expired(self) -> list[str]:
        return [
            f"{self.source}: ignoring {entry.code or entry.cause} ended on {entry.until}"
            for entry in self.config.ignore
            if self._is_over(entry)
        ]
