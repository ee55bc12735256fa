"""The report for a terminal: the ladder, then per target the one cause, its evidence, its fix.

What matters stands last, where it stays in sight: the verdict, its cause, where to read on.
"""

from __future__ import annotations

import textwrap

from doctor.findings import Finding, OutcomeKind, Remedy, Severity, TargetDiagnosis, Verdict
from doctor.report import Report, Style
from doctor.report.asking import crashed, deciding
from doctor.report.clean import clean_line
from doctor.report.fingerprint import is_known
from doctor.report.ladder import Step, ladder
from doctor.report.paint import STATES, VERDICTS, paint

_STEP, _FIELD = 15, 10
_MISSING_SHOWN = 6
_LONG = 10_000


def render(report: Report, style: Style) -> str:
    """Lay the report out in `style.width` columns; short when all is well."""
    page = _Page(report, style)
    lines = page.brief() if style.quiet else page.whole()
    return "\n".join(line.rstrip() for line in lines) + "\n"


class _Page:
    """Lays out one report in one style."""

    def __init__(self, report: Report, style: Style) -> None:
        self.report = report
        self.style = style
        self._shown: set[tuple[str, str]] = set()

    def brief(self) -> list[str]:
        """A line a target."""
        targets = self.report.diagnosis.targets
        return [self._brief(target) for target in targets] or [self._verdict()]

    def whole(self) -> list[str]:
        """Everything, in the order in which a person looks at it."""
        report = self.report
        steps = ladder(report.facts, report.diagnosis)
        lines = [] if report.source == "this host" else [clean_line(report.source)]
        lines += [""] if lines and steps else []
        for step in steps:
            lines += self._step(step)
        for target in report.diagnosis.targets:
            lines += ["", *self._target(target)]
        return [*lines, *self._overlooked(), "", *self._end()]

    def _paint(self, text: str, *names: str) -> str:
        return paint(self.style, text, *names)

    def _hang(self, text: str, first: str, indent: int) -> list[str]:
        """`text` wrapped after `first`, which is `indent` columns wide without its colours."""
        room = max(self.style.width - indent, 20)
        head, *rest = textwrap.wrap(text, room, break_on_hyphens=False) or [""]
        return [first + head, *(" " * indent + line for line in rest)]

    def _field(self, label: str, text: str) -> list[str]:
        return self._hang(text, f"  {label:<8}", _FIELD) if text else []

    def _step(self, step: Step) -> list[str]:
        word, colour = STATES.get(step.state, (step.state, "green"))
        first = f"{step.rung.value:<9} {self._paint(f'{word:<4}', colour)} "
        return self._hang(clean_line(step.observed), first, _STEP)

    def _head(self, target: TargetDiagnosis) -> str:
        word, *codes = VERDICTS[target.verdict]
        subject = self._paint(clean_line(target.subject), "bold")
        return f"{subject}: {self._paint(word, *codes)}"

    def _brief(self, target: TargetDiagnosis) -> str:
        first = target.primary
        said = f", {first.cause} [{first.code}]: {clean_line(first.message)}" if first else ""
        return self._head(target) + said

    def _target(self, target: TargetDiagnosis) -> list[str]:
        lines = [self._head(target)]
        if target.primary is not None:
            lines += self._primary(target, target.primary)
        rest = [f for f in target.findings if f is not target.primary]
        lines += [line for finding in rest for line in self._also(target, finding)]
        return lines + self._candidates(target) + self._crashed(target) + self._unknown(target)

    def _crashed(self, target: TargetDiagnosis) -> list[str]:
        """Rules that gave no answer by a fault of their own: the verdict lacks them."""
        said = (f"{o.code} crashed, please report it: {o.reason}" for o in crashed(target))
        return [line for text in said for line in self._field("bug", clean_line(text, _LONG))]

    def _primary(self, target: TargetDiagnosis, finding: Finding) -> list[str]:
        colour = STATES[finding.severity.value][1]
        title = self._paint(f"{finding.cause} [{finding.code}]", colour, "bold")
        lines = [f"  {title}"]
        lines += self._hang(
            clean_line(finding.message, _LONG) + self._known(target, finding), "  ", 2
        )
        key = (finding.code, finding.message)
        if key in self._shown:
            return [*lines, "  (as above)"]
        self._shown.add(key)
        from doctor.explain import section  # a healthy report needs no rule's page

        lines += self._evidence(finding)
        if finding.severity is not Severity.INFO:
            lines += self._field("why", section(finding.code, "Why"))
        if not finding.remedies:
            lines += self._field("fix", section(finding.code, "How to fix"))
        for number, remedy in enumerate(finding.remedies, 1):
            lines += self._remedy(remedy, number if len(finding.remedies) > 1 else 0)
        if self.style.verbose:
            for source in finding.sources:
                lines += self._field("source", clean_line(source, 1000))
        if finding.extrapolated:
            lines += self._field("note", clean_line(f"extrapolated from {finding.extrapolated}"))
        return lines

    def _known(self, target: TargetDiagnosis, finding: Finding) -> str:
        known = is_known(self.report, target.subject, finding)
        return " (known from the baseline)" if known else ""

    def _evidence(self, finding: Finding) -> list[str]:
        lines = []
        for item in finding.evidence:
            at = f"  ({clean_line(item.at)})" if item.at else ""
            lines += self._field("seen", clean_line(item.fact) + at)
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

    def _also(self, target: TargetDiagnosis, finding: Finding) -> list[str]:
        if finding.severity is Severity.INFO and not self.style.verbose:
            return []
        word, colour = STATES[finding.severity.value]
        text = f"{finding.cause} [{finding.code}]{self._known(target, finding)}: "
        text += clean_line(finding.message, _LONG)
        return self._hang(text, f"  {self._paint(f'{word:<8}', colour)}", _FIELD)

    def _candidates(self, target: TargetDiagnosis) -> list[str]:
        """Other causes that the log's words may have, each with what would settle it."""
        named = target.primary.cause if target.primary else ""
        lines = []
        for suspect in target.candidates:
            label = "settle" if suspect.cause == named else "or"
            text = f"{suspect.cause}: {suspect.decide}" if suspect.decide else suspect.cause
            lines += self._field(label, clean_line(text, 1000))
        return lines

    def _unknown(self, target: TargetDiagnosis) -> list[str]:
        """What stands between the facts and a verdict; with -v every fact that a rule lacked."""
        if self.style.verbose:
            reasons = {o.missing: o.reason for o in target.outcomes if o.reason != "not-stated"}
            named = [f"{n} ({reasons[n]})" if n in reasons else n for n in target.missing]
            return self._field("unknown", clean_line(", ".join(named), _LONG))
        if target.verdict is not Verdict.CANNOT_TELL:
            return []
        named = deciding(target) if target.outcomes else list(target.missing)
        lines = []
        for text in named[:_MISSING_SHOWN]:
            lines += self._field("unknown", clean_line(text, 1000))
        return lines

    def _overlooked(self) -> list[str]:
        """What was kept out of the judgement is said, so that nothing is hidden in silence."""
        lines: list[str] = []
        for hidden in self.report.hidden:
            until = f", until {hidden.until}" if hidden.until else ""
            what = f"{hidden.finding.cause} [{hidden.finding.code}] of {hidden.target}"
            lines += self._field("ignored", clean_line(f"{what}: {hidden.reason}{until}", 1000))
        contradictions = self.report.facts.notes if self.style.verbose else ()
        for note in (*self.report.notes, *contradictions):
            lines += self._field("note", clean_line(note, 1000))
        return ["", *lines] if lines else []

    def _end(self) -> list[str]:
        diagnosis = self.report.diagnosis
        causes = [t.primary for t in diagnosis.targets if t.primary]
        first = min(causes, key=lambda f: -f.severity.weight, default=None)
        if first is not None:
            yet = "but " if diagnosis.verdict is Verdict.PASS else ""
            yet = "likeliest " if first.severity is Severity.INFO else yet
            said = (
                f": {yet}{first.cause} [{first.code}], explained by `doctor explain {first.code}`"
            )
        else:
            said = self._open()
        as_of = (
            f"by the matrix of {clean_line(diagnosis.matrix_as_of)}"
            if diagnosis.matrix_as_of
            else ""
        )
        lines = self._hang(said, self._verdict(), len(VERDICTS[diagnosis.verdict][0]))
        lines += self._compared()
        return [*lines, as_of] if as_of and diagnosis.targets else lines

    def _compared(self) -> list[str]:
        """How much of it is new, where a baseline was named."""
        if self.report.baseline is None:
            return []
        found = [(t, f) for t in self.report.diagnosis.targets for f in t.findings]
        known = sum(is_known(self.report, t.subject, f) for t, f in found)
        return [f"baseline: {known} known, {len(found) - known} new"]

    def _open(self) -> str:
        """How much was not known, where nothing was found."""
        targets = self.report.diagnosis.targets
        if not targets:
            return (
                ": no accelerator here and no target was asked for "
                "(--engine, --python or --facts names one)"
            )
        kinds = [o.kind for target in targets for o in target.outcomes]
        unsure = kinds.count(OutcomeKind.CANNOT_TELL)
        hint = "" if self.style.verbose else " (-v names them)"
        return f"; {unsure} rules lacked a fact{hint}" if unsure else ""

    def _verdict(self) -> str:
        word, *codes = VERDICTS[self.report.diagnosis.verdict]
        return self._paint(word, *codes)
