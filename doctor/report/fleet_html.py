"""Many hosts as a page: counts, equal faults together, spread of versions, host by rung."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from doctor.facts import Facts
from doctor.findings import Rung
from doctor.report import Fleet, Report, Style, Unreadable
from doctor.report.fleet_groups import Fault, faults, main_cause, spread, verdicts, versions
from doctor.report.html_machine import scrolling
from doctor.report.html_page import STATES, TONES, VERDICTS, esc, fixes, icon, page, title_of
from doctor.report.ladder import Step, devices_in_words, engines_in_words, ladder

_NAMES_SHOWN, _WORDINGS_SHOWN, _VALUES_SHOWN, _FAULTS_SHOWN = 200, 8, 8, 8
_MESSAGE, _BRIEF = 160, 110
_LETTERS = {"ok": "o", "error": "e", "warning": "w", "info": "i", "-": "n"}
_TONE_LETTERS = {"ok": "o", "error": "e", "warning": "w", "none": "n"}


def render_fleet(fleet: Fleet, style: Style) -> str:
    """The page of a fleet; everything can be read without its script, which only filters."""
    total = len(fleet.hosts) + len(fleet.unreadable)
    body = (
        f'{_head(fleet, total)}<main class="wrap" id="main" tabindex="-1">'
        f"{_faults(fleet, style)}{_grid(fleet)}{_spread(fleet)}{_unreadable(fleet.unreadable)}"
        f"{_overlooked(fleet)}</main>{_foot(fleet)}"
    )
    return page(f"{total} hosts", body, "page.js", "fleet.js", "fleet.css")


def _head(fleet: Fleet, total: int) -> str:
    counts = [
        (VERDICTS[verdict][0], VERDICTS[verdict][1], n) for verdict, n in verdicts(fleet).items()
    ]
    counts += [("warning", "Unreadable", len(fleet.unreadable))] if fleet.unreadable else []
    tiles = "".join(
        f'<p class="{tone}">{icon(tone)}<b>{n}</b> {word.lower()}</p>' for tone, word, n in counts
    )
    return (
        '<header class="top"><div class="wrap">'
        f'<p class="brand"><b>doctor</b> <span>{esc(fleet.source)}</span></p>'
        f'<div class="verdict"><h1>{total} hosts</h1></div><div class="tiles">{tiles}</div>'
        f"{_shares(counts, total)}</div></header>"
    )


def _shares(counts: Sequence[tuple[str, str, int]], total: int) -> str:
    rects, left = [], 0.0
    for tone, _, count in counts:
        width = 100 * count / max(total, 1)
        rects.append(
            f'<rect class="{tone}" x="{left:.2f}%" width="{max(width - 0.2, 0.1):.2f}%"'
            ' height="100%"/>'
        )
        left += width
    return f'<svg class="shares" aria-hidden="true">{"".join(rects)}</svg>'


def _faults(fleet: Fleet, style: Style) -> str:
    rows = [_fault(fault) for fault in faults(fleet, style.verbose)]
    if not rows:
        return '<section class="card"><h2>Faults</h2><p>None found.</p></section>'
    first = f'<ol class="faults">{"".join(rows[:_FAULTS_SHOWN])}</ol>'
    rest = f'<ol class="faults">{"".join(rows[_FAULTS_SHOWN:])}</ol>'
    more = len(rows) - _FAULTS_SHOWN
    folded = f'<details class="rest"><summary>{more} more</summary>{rest}</details>'
    return f'<section class="card"><h2>Faults</h2>{first}{folded if more > 0 else ""}</section>'


def _fault(fault: Fault) -> str:
    finding = fault.example
    tone, word = TONES[finding.severity], STATES[finding.severity.value][1]
    on = f" on {len(fault.roots)}" if len(fault.roots) < len(fault.hosts) else ""
    role = f", the root cause{on}" if fault.roots else ""
    many = f'<p class="many">{len(fault.hosts)}<span>host{"s" * (len(fault.hosts) > 1)}</span></p>'
    wordings = fault.most_said
    more = len(wordings) - _WORDINGS_SHOWN
    rest = f"<li>and {more} more wordings</li>" if more > 0 else ""
    listed = "".join(_wording(text, names) for text, names in wordings[:_WORDINGS_SHOWN])
    return (
        f'<li class="{tone}">{many}<div><h3>{title_of(finding.cause)} '
        f"<span>{word} {esc(finding.code)} on the rung {finding.rung.value}{role}</span></h3>"
        f"<p>{esc(finding.message)}</p>"
        f"<details><summary>Hosts, and how to fix it</summary>"
        f'<ul class="wordings">{listed}{rest}</ul>{fixes(finding.remedies)}</details></div></li>'
    )


def _wording(text: str, names: Sequence[str]) -> str:
    shown = ", ".join(esc(name) for name in names[:_NAMES_SHOWN])
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    count = f"{len(names)} hosts: " if len(names) > 1 else ""
    return f'<li>{esc(text)}<div class="names">{count}{shown}{more}</div></li>'


def _spread(fleet: Fleet) -> str:
    boxes = "".join(_box(name, counted) for name, counted in spread(fleet).items())
    if not boxes:
        return ""
    return (
        '<section class="card"><h2>Spread of versions</h2>'
        f'<div class="spread">{boxes}</div></section>'
    )


def _box(name: str, counted: Counter[str]) -> str:
    listed = counted.most_common(_VALUES_SHOWN)
    top = max(counted.values())
    rows = "".join(
        f'<li><button type="button" data-find="{name}={esc(value, 200)}">'
        f"<span>{esc(value, 200)}</span>"
        f'<span>{n}</span><svg aria-hidden="true"><rect width="{100 * n / top:.1f}%" '
        'height="100%"/></svg></button></li>'
        for value, n in listed
    )
    more = len(counted) - len(listed)
    rest = f'<li class="note">and {more} more</li>' if more > 0 else ""
    return f"<div><h3>{name}</h3><ul>{rows}{rest}</ul></div>"


def _grid(fleet: Fleet) -> str:
    ladders = [(r, {s.rung: s for s in ladder(r.facts, r.diagnosis)}) for r in fleet.hosts]
    used = [rung for rung in Rung if any(rung in steps for _, steps in ladders)]
    heads = "".join(f'<th scope="col">{rung.value}</th>' for rung in used)
    rows = "\n".join(_row(report, steps, used) for report, steps in ladders)
    table = (
        f'<table><thead><tr><th scope="col">host</th><th scope="col">verdict</th>{heads}'
        f'<th scope="col">cause</th></tr></thead><tbody>{rows}</tbody></table>'
    )
    inside = scrolling("Hosts by rung", table, "grid")
    return (
        f'<section class="card" id="hosts"><h2>Hosts</h2>{_filters(fleet, used)}{inside}</section>'
    )


def _filters(fleet: Fleet, used: Sequence[Rung]) -> str:
    words = "".join(f"<option>{VERDICTS[v][1].lower()}</option>" for v in verdicts(fleet))
    rungs = "".join(f'<option value="{n}">{r.value}</option>' for n, r in enumerate(used, 2))
    return (
        '<div class="filters" hidden><label>Words in the row<input id="words" type="search" '
        'autocomplete="off" placeholder="name, cause, driver=…"></label>'
        f'<label>Verdict<select id="verdict"><option value="">any</option>{words}</select></label>'
        f'<label>Fault at<select id="rung"><option value="">any rung</option>{rungs}</select>'
        '</label><output id="shown" aria-live="polite"></output></div>'
    )


def _row(report: Report, steps: dict[Rung, Step], used: Sequence[Rung]) -> str:
    tone, word = VERDICTS[report.diagnosis.verdict]
    cause = main_cause(report)
    why = f"<b>{title_of(cause.cause)}</b> {_cut(cause.message, _MESSAGE)}" if cause else ""
    cells = "".join(_cell(steps.get(rung)) for rung in used)
    verdict = f'<td class="{_TONE_LETTERS[tone]}">{word.lower()}</td>'
    name = f"{esc(report.name, 80)}<small>{_brief(report.facts)}</small>"
    return (
        f'<tr data-has="{_facets(report)}"><th scope="row">{name}</th>'
        f'{verdict}{cells}<td class="cause">{why}</td></tr>'
    )


def _facets(report: Report) -> str:
    """Versions for the filter: "|system=ubuntu 22.04|driver=550.54.14|"."""
    return "|" + "".join(f"{name}={esc(v, 200)}|" for name, v in versions(report.facts))


def _brief(facts: Facts) -> str:
    """What tells hosts apart at a glance."""
    driver = facts.nvidia.driver.value or facts.ascend.driver.value or facts.rocm.version.value
    parts = (
        devices_in_words(facts, with_details=False),
        str(driver or ""),
        engines_in_words(facts),
    )
    return _cut(" · ".join(part for part in parts if part), _BRIEF)


def _cut(text: str, room: int) -> str:
    return esc(text if len(text) <= room else f"{text[: room - 1]}…")


def _cell(step: Step | None) -> str:
    if step is None:
        return "<td></td>"
    return f'<td class="{_LETTERS[step.state]}">{STATES[step.state][1]}</td>'


def _unreadable(lost: Sequence[Unreadable]) -> str:
    rows = "".join(f"<li><b>{esc(u.name)}</b>: {esc(u.reason)}</li>" for u in lost)
    if not rows:
        return ""
    return f'<section class="card"><h2>Not readable</h2><ul class="evidence">{rows}</ul></section>'


def _overlooked(fleet: Fleet) -> str:
    counted = Counter(
        f"<b>{title_of(h.finding.cause)}</b>: {esc(h.reason)}"
        for r in fleet.hosts
        for h in r.hidden
    )
    rows = [f"<li>{text} ({count} times)</li>" for text, count in counted.items()]
    notes = dict.fromkeys(note for r in fleet.hosts for note in r.notes)
    rows += [f"<li>{esc(note)}</li>" for note in notes]
    if not rows:
        return ""
    listed = f'<ul class="evidence">{"".join(rows)}</ul>'
    return f'<section class="card"><h2>Ignored on purpose, and notes</h2>{listed}</section>'


def _foot(fleet: Fleet) -> str:
    as_of = next((r.diagnosis.matrix_as_of for r in fleet.hosts), "")
    return (
        f'<footer class="wrap">Judged by the compatibility matrix of {esc(as_of)}. '
        "An empty cell: nothing was observed there.</footer>"
    )
