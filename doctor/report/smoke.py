"""The report of `doctor smoke`: the ladder for people, `doctor/smoke/v1` for machines."""

from __future__ import annotations

import json
import shlex
import textwrap
from dataclasses import asdict
from typing import Any

from doctor.report import Style
from doctor.report.clean import clean_line
from doctor.smoke.outcome import SmokeOutcome, SmokeVerdict
from doctor.smoke.steps import State, Step

SCHEMA = "doctor/smoke/v1"
_CODES = {"red": "31", "yellow": "33", "green": "32", "bold": "1"}
_WORDS = {State.PASSED: ("ok", "green"), State.FAILED: ("FAIL", "red"), State.SKIPPED: ("-", "")}
_NAME, _WORD = 12, 5


def render_json(outcome: SmokeOutcome) -> str:
    """One JSON document."""
    data: dict[str, Any] = {
        "schema": SCHEMA,
        "verdict": outcome.verdict.value,
        "target": {
            "url": outcome.url,
            "engine": outcome.engine,
            "version": outcome.version,
            "model": outcome.model,
            "command": list(outcome.command),
        },
        "steps": [{**asdict(step), "state": step.state.value} for step in outcome.steps],
        "fault": _fault(outcome),
        "proves": list(outcome.proves),
        "leaves_open": list(outcome.leaves_open),
        "notes": list(outcome.notes),
        "log": outcome.log_path,
        "stopped": outcome.stopped,
        "seconds": outcome.seconds,
        "record": asdict(outcome.record) if outcome.record else None,
    }
    return json.dumps(data, indent=1) + "\n"


def _fault(outcome: SmokeOutcome) -> dict[str, Any] | None:
    if outcome.fault is None:
        return None
    found = {"name": outcome.fault.fault, "step": outcome.fault.name, "seen": outcome.fault.text}
    log = asdict(outcome.log_cause) if outcome.log_cause else None
    return {**found, "meaning": outcome.meaning, "log": log}


def render_text(outcome: SmokeOutcome, style: Style) -> str:
    """The ladder, the fault with what the log says, then how far the proof reaches."""
    page = _Page(style)
    return "\n".join(page.lines(outcome)) + "\n"


def render_command(command: tuple[str, ...], env: dict[str, str], config: dict[str, Any]) -> str:
    """What would be started, ready to paste; settings of a configuration file as comments."""
    settings = [f"# {place} = {json.dumps(value)}" for place, value in config.items()]
    variables = [f"{name}={shlex.quote(value)}" for name, value in env.items()]
    return "\n".join([*settings, " ".join([*variables, shlex.join(command)])]) + "\n"


class _Page:
    def __init__(self, style: Style) -> None:
        self._style = style

    def lines(self, outcome: SmokeOutcome) -> list[str]:
        lines = [self._title(outcome), *(self._step(step) for step in outcome.steps)]
        lines += [line for note in outcome.notes for line in self._field("note", note)]
        if outcome.fault is not None:
            lines += ["", *self._fault(outcome)]
        return [*lines, "", *self._verdict(outcome)]

    def _title(self, outcome: SmokeOutcome) -> str:
        engine = " ".join(part for part in (outcome.engine, outcome.version) if part)
        parts = (engine, outcome.model, outcome.url)
        return clean_line(f"smoke {', '.join(part for part in parts if part)}")

    def _step(self, step: Step) -> str:
        word, colour = _WORDS[step.state]
        head = f"{step.name:<{_NAME}} {self._paint(f'{word:<{_WORD}}', colour)}"
        room = max(self._style.width - _NAME - _WORD - 1, 20)
        text = clean_line(step.text)
        if not self._style.verbose and len(text) > room:
            text = f"{text[: room - 3]}..."
        return (head + text).rstrip()

    def _fault(self, outcome: SmokeOutcome) -> list[str]:
        fault, cause = outcome.fault, outcome.log_cause
        assert fault is not None  # noqa: S101 - asked for a failed outcome only
        lines = [self._paint(f"{fault.fault} (at: {fault.name})", "red", "bold")]
        lines += self._field("seen", clean_line(fault.text))
        lines += self._field("means", outcome.meaning)
        if cause is not None and cause.line:
            lines += self._field("log", f"line {cause.number}: {clean_line(cause.line, 300)}")
        if cause is not None and cause.cause:
            named = f"{cause.cause} [{cause.code}]: {cause.message}"
            lines += self._field("cause", clean_line(named))
            for action in cause.remedies:
                lines += self._field("fix", clean_line(action, 1000))
        if outcome.log_path:
            lines += self._field("kept", clean_line(outcome.log_path))
        return lines

    def _verdict(self, outcome: SmokeOutcome) -> list[str]:
        proven = outcome.verdict is SmokeVerdict.PROVEN
        words = {
            SmokeVerdict.PROVEN: "proven",
            SmokeVerdict.NOT_PROVEN: "not proven",
            SmokeVerdict.NOT_LAUNCHED: "not proven: the server never became ready",
        }[outcome.verdict]
        lines = [f"{self._paint(words, 'green' if proven else 'red', 'bold')}, {outcome.seconds} s"]
        for text in outcome.proves:
            lines += self._field("shown", text)
        for text in outcome.leaves_open:
            lines += self._field("open", text)
        if proven and outcome.log_path:
            lines += self._field("log", clean_line(outcome.log_path))
        return lines

    def _field(self, label: str, text: str) -> list[str]:
        if not text:
            return []
        first, *rest = textwrap.wrap(text, max(self._style.width - 8, 20)) or [""]
        return [f"  {label:<6}{first}", *(f"        {line}" for line in rest)]

    def _paint(self, text: str, *names: str) -> str:
        codes = [_CODES[name] for name in names if name]
        if not self._style.colour or not codes:
            return text
        return f"\x1b[{';'.join(codes)}m{text}\x1b[0m"
