"""The resolver's answer for a person: the stack, what else works, why not newer, what would."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from itertools import groupby

from doctor.findings import Finding
from doctor.report import Style
from doctor.report.clean import clean_line
from doctor.stack.model import PROVEN, Judged, Resolution, Stack, Unlock

_LABEL = 11
_SHOWN = 6


def render_text(found: Resolution, style: Style) -> str:
    """Sections with a line each; sources and all refusals with `verbose`."""
    return "\n".join(_Page(style).lines(found)) + "\n"


class _Page:
    """Lays out one answer."""

    def __init__(self, style: Style) -> None:
        self.style = style

    def lines(self, found: Resolution) -> Iterator[str]:
        yield self._head(found)
        if found.choice is not None:
            yield from self._field("why", f"{found.choice.goal}: {found.choice.why}")
        if found.offers:
            yield from self._stack(found.offers[0])
        for note in found.notes:
            yield from self._field("note", note)
        for finding in found.host:
            yield from self._finding(finding)
        yield from self._others(found.offers[1:])
        yield from self._refused(found)
        yield from self._unlocks(found.unlocks)

    def _head(self, found: Resolution) -> str:
        if not found.offers:
            none = "no stack works" if found.refused else "no build is known for these devices"
            what = "this host must be mended first" if found.host else none
            return f"{found.engine}: {what}, by the matrix of {found.matrix_as_of}"
        best = found.offers[0]
        word = "works here" if best.state == PROVEN else "possible, not proven"
        return f"{_name(best.stack)}: {word}, by the matrix of {found.matrix_as_of}"

    def _stack(self, offer: Judged) -> Iterator[str]:
        stack = offer.stack
        if stack is None:
            return
        yield from self._field(stack.kind, stack.artifact)
        yield from self._field("torch", _torch(stack))
        yield from self._field("CUDA", stack.cuda)
        for name, value in stack.parts:
            yield from self._field(name, value)
        yield from self._field("Python", _python(stack))
        yield from self._field("index", stack.index)
        yield from self._field("also ask", stack.extra_index)
        yield from self._field("driver", _driver(stack))
        yield from self._field("on", ", ".join(stack.devices))
        for name, value in stack.env:
            yield from self._field("set", f"{name}={value}")
        yield from self._field("with", " ".join(stack.flags))
        for lack in offer.lacks:
            yield from self._field("lacks", lack)
        for warning in offer.warnings:
            yield from self._field("warning", warning.message)
        if self.style.verbose:
            yield from self._field("source", "; ".join(offer.candidate.sources))

    def _others(self, offers: tuple[Judged, ...]) -> Iterator[str]:
        for title, state in (("also works", True), ("possible, not proven", False)):
            mine = [offer for offer in offers if (offer.state == PROVEN) is state]
            if mine:
                yield ""
                yield title
            for offer in mine:
                yield from self._item(_line(offer))
                for lack in offer.lacks[:2]:
                    yield from self._item(f"lacks: {lack}", deeper=True)

    def _refused(self, found: Resolution) -> Iterator[str]:
        if not found.refused:
            return
        yield ""
        yield "refused"
        groups = [tuple(group) for _, group in groupby(found.refused, _reason)]
        shown = groups if self.style.verbose else groups[:_SHOWN]
        for group in shown:
            yield from self._group(group)
        if len(shown) < len(groups):
            yield from self._item(f"and {sum(map(len, groups[len(shown) :]))} more (-v lists them)")

    def _group(self, group: tuple[Judged, ...]) -> Iterator[str]:
        first, last = group[0], group[-1]
        span = f"{first.candidate.version or first.candidate.artifact}"
        if len(group) > 1 and first.candidate.version != last.candidate.version:
            span += f" to {last.candidate.version}"
        yield from self._item(f"{span}, {_build(first)}")
        yield from self._finding(first.findings[0], deeper=True)

    def _unlocks(self, unlocks: Iterable[Unlock]) -> Iterator[str]:
        for number, unlock in enumerate(unlocks):
            if number == 0:
                yield ""
                yield "would unlock more"
            note = " (reboot)" if unlock.reboot else ""
            yield from self._item(f"{unlock.change}{note}: {_line(unlock.gains)}")
            for command in unlock.commands:
                yield f"      $ {clean_line(command, 2000)}"

    def _finding(self, finding: Finding, deeper: bool = False) -> Iterator[str]:
        yield from self._item(f"{finding.cause} [{finding.code}]: {finding.message}", deeper)
        if self.style.verbose and finding.sources:
            yield from self._item(f"source: {'; '.join(finding.sources)}", deeper)

    def _item(self, text: str, deeper: bool = False) -> Iterator[str]:
        indent = "    " if deeper else "  "
        yield from self._wrapped(text, indent, indent + "  ")

    def _field(self, label: str, text: str) -> Iterator[str]:
        if text:
            head = f"  {label + ' ':<{_LABEL}}"
            yield from self._wrapped(text, head, " " * (_LABEL + 2))

    def _wrapped(self, text: str, first: str, rest: str) -> Iterator[str]:
        yield from textwrap.wrap(
            clean_line(text, 2000),
            self.style.width,
            initial_indent=first,
            subsequent_indent=rest,
            break_on_hyphens=False,
            break_long_words=False,
        )


def _name(stack: Stack | None) -> str:
    return clean_line(f"{stack.engine} {stack.version}".strip()) if stack else ""


def _torch(stack: Stack) -> str:
    build = f" ({stack.torch_build})" if stack.torch_build else ""
    return f"{stack.torch}{build}" if stack.torch else ""


def _python(stack: Stack) -> str:
    if stack.kind == "image":
        return f"{stack.python} (inside the image)" if stack.python else ""
    accepted = f" (accepts {stack.pythons})" if stack.pythons else ""
    return f"{stack.python}{accepted}" if stack.python else stack.pythons


def _driver(stack: Stack) -> str:
    if not stack.driver_floor:
        return ""
    ceiling = f", up to branch {stack.driver_ceiling}" if stack.driver_ceiling else ""
    return f"{stack.driver_floor} or newer{ceiling}"


def _line(offer: Judged) -> str:
    stack = offer.stack
    if stack is None:
        return ""
    parts = [_name(stack), f"{stack.kind} {stack.artifact}"]
    parts += [f"torch {_torch(stack)}"] if stack.torch else []
    parts += [f"CUDA {stack.cuda}"] if stack.cuda else []
    parts += [f"{name}={value}" for name, value in stack.env]
    return ", ".join(parts)


def _reason(judged: Judged) -> tuple[str, str]:
    finding = judged.findings[0] if judged.findings else None
    return judged.candidate.kind, finding.code if finding else ""


def _build(judged: Judged) -> str:
    candidate = judged.candidate
    cuda = f", CUDA {candidate.cuda}" if candidate.cuda else ""
    torch = f", torch {candidate.torch.version}" if candidate.torch else ""
    return f"{candidate.kind}{cuda}{torch}"
