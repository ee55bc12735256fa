"""Markdown for pull requests, issues and the step summary of a workflow."""

from __future__ import annotations

import re

from doctor.findings import Finding, Remedy, Severity, TargetDiagnosis, Verdict
from doctor.report import Report, Style
from doctor.report.asking import crashed
from doctor.report.clean import clean, clean_line
from doctor.report.fingerprint import is_known
from doctor.report.ladder import ladder

# Words and signs, so that no meaning hangs on a picture or a colour.
VERDICTS = {
    Verdict.PASS: "✅ pass",
    Verdict.FAIL: "❌ fail",
    Verdict.CANNOT_TELL: "❓ cannot tell",
    Verdict.NOTHING_TO_JUDGE: "⚪ nothing to judge",
}
STATES = {
    "ok": "✅ ok",
    "error": "❌ error",
    "warning": "⚠️ warning",
    "info": "🔵 note",
    "-": "⚪ not judged",
}
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~!&$])")


def escape(text: str) -> str:
    """Prose in which nothing is markup, a mention or a table's border."""
    # Only a character of no width stops a mention: escapes are undone before names are looked for.
    return _SPECIAL.sub(r"\\\1", clean_line(text, 2000)).replace("@", "@\u200b")


def code(text: str) -> str:
    """A code span, also where the text has backticks; borders of tables are escaped."""
    plain = clean_line(text, 2000).replace("|", "\\|")
    ticks = "`" * (max((len(run) for run in re.findall("`+", plain)), default=0) + 1)
    room = " " if plain.startswith("`") or plain.endswith("`") else ""
    return f"{ticks}{room}{plain}{room}{ticks}" if plain else ""


def block(lines: tuple[str, ...]) -> str:
    """A code block that its content cannot end."""
    text = "\n".join(clean(line, 2000).replace("\n", " ") for line in lines)
    fence = "`" * max(3, max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    return f"{fence}sh\n{text}\n{fence}"


def render(report: Report, style: Style) -> str:
    """The verdict as heading, each target's cause, and the ladder."""
    diagnosis = report.diagnosis
    source = f" · {escape(report.source)}" if report.source else ""
    parts = [f"## {VERDICTS[diagnosis.verdict]}{source}"]
    for target in diagnosis.targets:
        parts += _target(report, target, style)
    parts += [_ladder(report), *_hidden(report)]
    parts.append(f"<sub>doctor, by the matrix of {escape(diagnosis.matrix_as_of)}</sub>")
    return "\n\n".join(part for part in parts if part) + "\n"


def _ladder(report: Report) -> str:
    rows = [
        f"| {step.rung.value} | {STATES.get(step.state, step.state)} | {escape(step.observed)} |"
        for step in ladder(report.facts, report.diagnosis)
    ]
    return "\n".join(["| rung | state | observed |", "|---|---|---|", *rows]) if rows else ""


def _target(report: Report, target: TargetDiagnosis, style: Style) -> list[str]:
    parts = [f"### {VERDICTS[target.verdict]}: {code(target.subject)}"]
    if target.primary is not None:
        parts += primary(target.primary, _known(report, target, target.primary))
    rest = [
        f"- {_also(finding)}{_known(report, target, finding)}"
        for finding in target.findings
        if finding is not target.primary
        and (style.verbose or finding.severity is not Severity.INFO)
    ]
    parts += ["\n".join(rest)] if rest else []
    parts += [f"Bug: {code(o.code)} crashed: {escape(o.reason)}" for o in crashed(target)]
    if target.missing and (style.verbose or target.verdict is Verdict.CANNOT_TELL):
        parts.append(f"Not known: {', '.join(code(name) for name in target.missing)}")
    return parts


def _known(report: Report, target: TargetDiagnosis, finding: Finding) -> str:
    return " (known from the baseline)" if is_known(report, target.subject, finding) else ""


def _also(finding: Finding) -> str:
    word = STATES[finding.severity.value]
    return f"{word} **{finding.cause}** `{finding.code}`: {escape(finding.message)}"


def primary(finding: Finding, note: str = "") -> list[str]:
    """The finding in full: message, evidence, remedies."""
    parts = [f"**{finding.cause}** `{finding.code}`{note}: {escape(finding.message)}"]
    seen = [f"- {code(e.fact)}{f' ({escape(e.at)})' if e.at else ''}" for e in finding.evidence]
    parts += ["\n".join(seen)] if seen else []
    for number, remedy in enumerate(finding.remedies, 1):
        parts += _remedy(remedy, number if len(finding.remedies) > 1 else 0)
    return parts


def _remedy(remedy: Remedy, number: int) -> list[str]:
    head = f"**Fix {number}:**" if number else "**Fix:**"
    notes = [part for part in (remedy.risk, "needs a reboot" if remedy.reboot else "") if part]
    note = f" ({escape('; '.join(notes))})" if notes else ""
    parts = [f"{head} {escape(remedy.action)}{note}"]
    return [*parts, block(remedy.commands)] if remedy.commands else parts


def _hidden(report: Report) -> list[str]:
    lines = []
    for hidden in report.hidden:
        until = f", until {hidden.until}" if hidden.until else ""
        lines.append(f"- {_also(hidden.finding)} ({escape(hidden.reason + until)})")
    lines += [f"- {escape(note)}" for note in report.notes]
    return ["Hidden by the ignore list, and notes:\n\n" + "\n".join(lines)] if lines else []
