"""How a run shows itself while it works, and what it came to."""

from __future__ import annotations

import json
from typing import TextIO

from doctor.provision.apply import Outcome, Watcher
from doctor.provision.playbook import RoleResult, TaskEvent
from doctor.provision.step import Step
from doctor.report.clean import clean, clean_line

SCHEMA = "doctor/run/v1"
_CLEAR = "\r\x1b[K"


class RunProgress:
    """Steps as lines on a stream; on a terminal also the task that runs now."""

    def __init__(self, stream: TextIO, width: int = 80) -> None:
        self._stream = stream
        self._terminal = stream.isatty()
        self._width = width

    @property
    def watcher(self) -> Watcher:
        """What the worker tells."""
        return Watcher(self._begins, self._task, self._ended)

    def _begins(self, number: int, of: int, step: Step) -> None:
        self._say(f"[{number}/{of}] {clean_line(step.title)}")

    def _task(self, event: TaskEvent) -> None:
        if event.kind == "start" and self._terminal:
            text = f"      {clean_line(event.task)} ..."
            self._stream.write(f"{_CLEAR}{text[: self._width - 1]}")
            self._stream.flush()

    def _ended(self, step: Step, failure: str, seconds: float) -> None:
        word = f"failed: {clean(failure)}" if failure else f"done in {seconds:.1f} s"
        self._say(f"      {step.name} {word}")

    def _say(self, text: str) -> None:
        clear = _CLEAR if self._terminal else ""
        self._stream.write(f"{clear}{text}\n")
        self._stream.flush()


def render_text(outcome: Outcome) -> str:
    """What it came to, in a few lines."""
    words = {
        "applied": "done: the machine is what it shall be",
        "rolled-back": "failed, and taken back: the machine is what it was before",
        "given-up": "failed, and not taken back",
        "suspended": "failed, and a person must decide how to go on"
        if outcome.failure
        else "suspended: reboot this machine; the run goes on by itself after that, "
        "or with doctor apply PROFILE --resume",
    }
    lines = [words[outcome.end]]
    if outcome.proof:
        lines.append(f"proven: {clean_line(outcome.proof)}")
    if outcome.failure:
        lines.append(clean(outcome.failure))
    if outcome.run:
        lines.append(f"run {outcome.run}")
    if outcome.failure and outcome.end in ("given-up", "suspended"):
        lines.append("next: doctor apply PROFILE --resume, or doctor rollback PROFILE")
    return "\n".join(lines) + "\n"


def render_json(outcome: Outcome) -> str:
    """The outcome for programs."""
    found = {
        "schema": SCHEMA,
        "end": outcome.end,
        "run": outcome.run,
        "failure": outcome.failure,
        "steps": outcome.steps,
        "proof": outcome.proof,
    }
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


def render_rehearsal(results: list[tuple[str, RoleResult]]) -> str:
    """What each role would change, or why it could not say."""
    lines = []
    for title, result in results:
        words = f"would change {result.changed} of {result.tasks} tasks"
        lines.append(f"check: {clean_line(title)}: {clean(result.failure) or words}")
    return "\n".join(lines) + "\n"
