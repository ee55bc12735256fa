"""The report for a terminal: the ladder, then per target the one cause, its evidence, its fix."""

from __future__ import annotations

import textwrap

from doctor.findings import Finding, Remedy, Severity, TargetDiagnosis, Verdict
from doctor.report import Report, Style
from doctor.report.clean import clean_line
from doctor.report.ladder import Step, ladder

_CODES = {"red": "31", "yellow": "33", "green": "32", "dim": "2", "bold": "1", "cyan": "36"}
_STATES = {"error": ("FAIL", "red"), "warning": ("warn", "yellow"), "info": ("note", "cyan")}
_LABEL = 9
_MISSING_SHOWN = 6


def render(report: Report, style: Style) -> str:
    """Lay the report out in `style.width` columns; short when all is well."""
    return "\n".join(_Page(style).lines(report)) + "\n"


class _Page:
    """Lays out one report in one style."""

    def __init__(self, style: Style) -> None:
        self.style = style

    def lines(self, report: Report) -> list[str]:
        diagnosis = report.diagnosis
        lines = [] if report.source == "this host" else [clean_line(report.source), ""]
        lines += [self._step(step) for step in ladder(report.facts, diagnosis)]
        shown: set[tuple[str, str]] = set()
        for target in diagnosis.targets:
            lines += ["", *self._target(target, shown)]
        return [*lines, "", self._verdict(report)]

    def _paint(self, text: str, *names: str) -> str:
        if not self.style.colour:
            return text
        return f"\x1b[{';'.join(_CODES[n] for n in names)}m{text}\x1b[0m"

    def _step(self, step: Step) -> str:
        word, colour = _STATES.get(step.state, (step.state, "green"))
        head = f"{step.rung.value:<{_LABEL}} {self._paint(f'{word:<4}', colour)} "
        room = max(self.style.width - _LABEL - 6, 20)
        return head + _shorten(clean_line(step.observed), room)

    def _target(self, target: TargetDiagnosis, shown: set[tuple[str, str]]) -> list[str]:
        word = {
            Verdict.FAIL: self._paint("FAIL", "red", "bold"),
            Verdict.PASS: self._paint("ok", "green", "bold"),
            Verdict.CANNOT_TELL: self._paint("cannot tell", "yellow", "bold"),
        }.get(target.verdict, target.verdict.value)
        lines = [f"{self._paint(clean_line(target.subject), 'bold')}: {word}"]
        if target.primary is not None:
            lines += self._primary(target.primary, shown)
        rest = [f for f in target.findings if f is not target.primary]
        lines += [line for finding in rest for line in self._also(finding)]
        return lines + self._candidates(target) + self._unknown(target)

    def _primary(self, finding: Finding, shown: set[tuple[str, str]]) -> list[str]:
        colour = _STATES[finding.severity.value][1]
        title = self._paint(f"{finding.cause} [{finding.code}]", colour, "bold")
        lines = [f"  {title}", *self._wrap(clean_line(finding.message), 2)]
        key = (finding.code, finding.message)
        if key in shown:
            return [*lines, "  (as above)"]
        shown.add(key)
        from doctor.explain import section  # a healthy report needs no rule's page

        lines += self._evidence(finding)
        lines += self._field("why", section(finding.code, "Why"))
        if not finding.remedies:
            lines += self._field("fix", section(finding.code, "How to fix"))
        for number, remedy in enumerate(finding.remedies, 1):
            lines += self._remedy(remedy, number if len(finding.remedies) > 1 else 0)
        if self.style.verbose:
            lines += self._field("source", "; ".join(finding.sources))
        if finding.extrapolated:
            lines += self._field("note", f"extrapolated from {finding.extrapolated}")
        return lines

    def _evidence(self, finding: Finding) -> list[str]:
        lines = []
        for item in finding.evidence:
            at = self._paint(f"  ({clean_line(item.at)})", "dim") if item.at else ""
            lines.append(f"  {'seen':<8}{clean_line(item.fact)}{at}")
        return lines

    def _remedy(self, remedy: Remedy, number: int) -> list[str]:
        head = f"{number}. {remedy.action}" if number else remedy.action
        notes = [part for part in (remedy.risk, "needs a reboot" if remedy.reboot else "") if part]
        if notes:
            head += f" ({'; '.join(notes)})"
        lines = self._field("fix", clean_line(head, 1000))
        # Commands are never wrapped: people paste them.
        return lines + [
            self._paint(f"          $ {clean_line(c, 2000)}", "bold") for c in remedy.commands
        ]

    def _also(self, finding: Finding) -> list[str]:
        if finding.severity is Severity.INFO and not self.style.verbose:
            return []
        word, colour = _STATES[finding.severity.value]
        text = f"{finding.cause} [{finding.code}]: {clean_line(finding.message)}"
        first, *rest = textwrap.wrap(text, max(self.style.width - 10, 20))
        return [f"  {self._paint(f'{word:<8}', colour)}{first}", *(f"          {r}" for r in rest)]

    def _candidates(self, target: TargetDiagnosis) -> list[str]:
        """Other causes that the log's words may have, each with what would settle it."""
        named = target.primary.cause if target.primary else ""
        lines = []
        for suspect in target.candidates:
            label = "settle" if suspect.cause == named else "or"
            text = f"{suspect.cause}: {suspect.decide}" if suspect.decide else suspect.cause
            lines += self._field(label, clean_line(text))
        return lines

    def _unknown(self, target: TargetDiagnosis) -> list[str]:
        if target.verdict is not Verdict.CANNOT_TELL and not self.style.verbose:
            return []
        names = list(target.missing)
        shown = names if self.style.verbose else names[:_MISSING_SHOWN]
        more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
        return self._field("unknown", clean_line(", ".join(shown)) + more) if names else []

    def _field(self, label: str, text: str) -> list[str]:
        if not text:
            return []
        first, *rest = textwrap.wrap(text, max(self.style.width - 10, 20)) or [""]
        return [f"  {label:<8}{first}", *(f"          {line}" for line in rest)]

    def _wrap(self, text: str, indent: int) -> list[str]:
        room = max(self.style.width - indent, 20)
        return [" " * indent + line for line in textwrap.wrap(text, room)]

    def _verdict(self, report: Report) -> str:
        diagnosis = report.diagnosis
        as_of = f"matrix of {diagnosis.matrix_as_of}" if diagnosis.matrix_as_of else "matrix"
        if diagnosis.verdict is Verdict.NOTHING_TO_JUDGE:
            return (
                "nothing to judge: no accelerator here and no target was asked for "
                "(--engine, --facts or --host names one)"
            )
        colour = {Verdict.FAIL: "red", Verdict.PASS: "green"}.get(diagnosis.verdict, "yellow")
        return f"{self._paint(diagnosis.verdict.value, colour, 'bold')}, by the {as_of}"


def _shorten(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 3] + "..."
