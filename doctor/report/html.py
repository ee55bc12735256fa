"""One host as a page for people: the cause, its evidence, the commands; the ladder beside it."""

from __future__ import annotations

from collections import Counter

from doctor.findings import Finding, OutcomeKind, Severity, TargetDiagnosis, Verdict
from doctor.report import Report, Style
from doctor.report.asking import crashed
from doctor.report.fingerprint import is_known
from doctor.report.html_machine import devices, environments
from doctor.report.html_page import (
    STATES,
    TONES,
    VERDICTS,
    badge,
    esc,
    evidence,
    fixes,
    icon,
    page,
    sources,
    title_of,
)
from doctor.report.ladder import Step, ladder
from doctor.report.pages import page as rule_page

_MISSING_SHOWN, _OTHERS_SHOWN = 400, 60
_KINDS = {
    OutcomeKind.FINDINGS: "found something",
    OutcomeKind.CLEAN: "found nothing",
    OutcomeKind.NOT_APPLICABLE: "do not apply here",
    OutcomeKind.CANNOT_TELL: "lacked a fact",
    OutcomeKind.CRASHED: "crashed",
}


def render(report: Report, style: Style) -> str:
    """The page of one host."""
    word = VERDICTS[report.diagnosis.verdict][1]
    shown: set[tuple[str, str]] = set()
    targets = "".join(_Card(report, target, shown).html() for target in report.diagnosis.targets)
    rest = f"{devices(report.facts)}{environments(report.facts)}{_hidden(report)}"
    body = (
        f'{_head(report)}<main class="wrap" id="main" tabindex="-1"><div class="columns">'
        f'<div class="stack">{targets}</div>'
        f'<aside class="side card" aria-label="Ladder">{_ladder(report)}</aside>'
        f'<div class="stack">{rest}</div></div></main>{_foot(report)}'
    )
    return page(f"{word}: {report.name or report.source}", body, "page.js")


def _head(report: Report) -> str:
    tone, word = VERDICTS[report.diagnosis.verdict]
    brand = f"<b>doctor</b> <span>{esc(report.source)}</span>"
    return (
        f'<header class="top"><div class="wrap"><p class="brand">{brand}</p>'
        f'<div class="verdict {tone}">{icon(tone)}<h1><b>{word}.</b> {_sentence(report)}</h1></div>'
        "</div></header>"
    )


def _sentence(report: Report) -> str:
    """Who cannot work; why is said below, larger."""
    targets = report.diagnosis.targets
    failed = [t for t in targets if t.verdict is Verdict.FAIL]
    if failed:
        who = "This host" if failed[0].subject == "host" else esc(failed[0].subject)
        many = f"{len(failed)} of {len(targets)} targets will not work"
        return many if len(targets) > 1 else f"{who} will not work"
    if report.diagnosis.verdict is Verdict.CANNOT_TELL:
        return "A fact that decides is missing"
    if not targets:
        return "No accelerator here, and no target was asked for"
    warned = any(t.primary for t in targets)
    return "It works, but read the warning" if warned else "Nothing stands in the way"


def _ladder(report: Report) -> str:
    steps = "".join(_step(step) for step in ladder(report.facts, report.diagnosis))
    return f'<h2>What is there, from the ground up</h2><ol class="ladder">{steps}</ol>'


def _step(step: Step) -> str:
    tone, word = STATES.get(step.state, ("none", step.state))
    return (
        f'<li class="{tone}">{icon(tone)}<div><span class="rung">{step.rung.value}</span>'
        f'<span class="state">{word}</span>'
        f'<div class="seen">{esc(step.observed, 600)}</div></div></li>'
    )


class _Card:
    """The card of one target. What an earlier card said in full is only named again."""

    def __init__(
        self, report: Report, target: TargetDiagnosis, shown: set[tuple[str, str]]
    ) -> None:
        self.report = report
        self.target = target
        self._shown = shown

    def html(self) -> str:
        target = self.target
        tone = TONES[target.primary.severity] if target.primary else VERDICTS[target.verdict][0]
        head = f"<header><h2>{esc(target.subject)}</h2>{badge(target.verdict)}</header>"
        first = self._primary(target.primary) if target.primary else ""
        inside = (
            f"{head}{first}{self._also()}{_candidates(target)}{_missing(target)}{_counts(target)}"
        )
        return f'<section class="card target primary {tone}">{inside}</section>'

    def _primary(self, finding: Finding) -> str:
        is_likely = finding.severity is Severity.INFO
        title = f"{'Likeliest: ' if is_likely else ''}{title_of(finding.cause)}"
        head = f'<h3>{title}</h3><p class="lead">{esc(finding.message)}</p>'
        if self._is_repeated(finding):
            return f'{head}<p class="why">As above.</p>'
        page_of_rule = rule_page(finding.code)
        sections = page_of_rule.sections if page_of_rule else {}
        why = "" if is_likely else sections.get("Why", "")
        return (
            head
            + (f'<p class="why"><b>Why:</b> {esc(why)}</p>' if why else "")
            + f"{_extrapolated(finding)}{evidence(finding)}"
            f"{fixes(finding.remedies, sections.get('How to fix', ''))}"
            f"{sources(finding)}{self._tags(finding)}"
        )

    def _is_repeated(self, finding: Finding) -> bool:
        key = (finding.code, finding.message)
        repeated = key in self._shown
        self._shown.add(key)
        return repeated

    def _tags(self, finding: Finding) -> str:
        is_old = is_known(self.report, self.target.subject, finding)
        known = " · known from the baseline" if is_old else ""
        return (
            f'<p class="note">{finding.severity.value} on the rung <b>{finding.rung.value}</b>'
            f"{known} · more: <code>doctor explain {esc(finding.code)}</code></p>"
        )

    def _also(self) -> str:
        rest = [f for f in self.target.findings if f is not self.target.primary]
        if not rest:
            return ""
        heading = "Found as well; often a consequence" if self.target.primary else "Good to know"
        rows = "".join(self._other(finding) for finding in rest[:_OTHERS_SHOWN])
        more = len(rest) - _OTHERS_SHOWN
        note = f'<p class="note">and {more} more; the JSON has them all</p>' if more > 0 else ""
        return f'<div class="also"><p>{heading}</p>{rows}{note}</div>'

    def _other(self, finding: Finding) -> str:
        tone, word = TONES[finding.severity], STATES[finding.severity.value][1]
        line = f"<b>{title_of(finding.cause)}</b> ({word}): {esc(finding.message)}"
        if self._is_repeated(finding):
            return f'<p class="repeated {tone}">{line}</p>'
        return (
            f'<details class="{tone}"><summary>{line}</summary>{evidence(finding)}'
            f"{fixes(finding.remedies)}{sources(finding)}{self._tags(finding)}</details>"
        )


def _extrapolated(finding: Finding) -> str:
    if not finding.extrapolated:
        return ""
    return f'<p class="why">Extrapolated from {esc(finding.extrapolated)}.</p>'


def _candidates(target: TargetDiagnosis) -> str:
    rows = "".join(
        f"<li><b>{title_of(s.cause)}</b>{f': {esc(s.decide)}' if s.decide else ''}</li>"
        for s in target.candidates
    )
    if not rows:
        return ""
    heading = '<p class="label">What it may also be, and what settles it</p>'
    return f'{heading}<ul class="evidence">{rows}</ul>'


def _missing(target: TargetDiagnosis) -> str:
    if not target.missing:
        return ""
    names = "".join(f"<li><code>{esc(n)}</code></li>" for n in target.missing[:_MISSING_SHOWN])
    is_open = " open" if target.verdict is Verdict.CANNOT_TELL else ""
    many = f"{len(target.missing)} facts were" if len(target.missing) > 1 else "1 fact was"
    return (
        f'<details class="label"{is_open}><summary>{many} not known</summary>'
        f'<ul class="missing">{names}</ul></details>'
    )


def _counts(target: TargetDiagnosis) -> str:
    kinds = Counter(outcome.kind for outcome in target.outcomes)
    words = ", ".join(f"{kinds[kind]} {word}" for kind, word in _KINDS.items() if kinds[kind])
    bugs = "".join(
        f'<p class="risk">Bug: {esc(o.code)} crashed: {esc(o.reason)}</p>' for o in crashed(target)
    )
    return f'{bugs}<p class="note">{len(target.outcomes)} rules: {words}.</p>' if words else bugs


def _hidden(report: Report) -> str:
    rows = []
    for hidden in report.hidden:
        until = f", until {esc(hidden.until)}" if hidden.until else ""
        cause = f"<b>{title_of(hidden.finding.cause)}</b> of {esc(hidden.target)}"
        rows.append(f"<li>{cause}: {esc(hidden.reason)}{until}</li>")
    rows += [f"<li>{esc(note)}</li>" for note in report.notes]
    if not rows:
        return ""
    listed = f'<ul class="evidence">{"".join(rows)}</ul>'
    return f'<section class="card"><h2>Ignored on purpose, and notes</h2>{listed}</section>'


def _foot(report: Report) -> str:
    as_of = esc(report.diagnosis.matrix_as_of)
    version = esc(report.diagnosis.matrix_version)
    return (
        f'<footer class="wrap">Judged by the compatibility matrix of {as_of}'
        f"{f' (version {version})' if version else ''}. What is not known is never taken for "
        "absent.</footer>"
    )
