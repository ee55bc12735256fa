"""What `doctor fit` prints."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from doctor.fitting import FitReport
from doctor.report import Style
from doctor.report.clean import clean_line
from doctor.sizing.advice import Change
from doctor.sizing.ladder import Step
from doctor.sizing.offload import Offload
from doctor.sizing.parallel import Parallel
from doctor.sizing.prediction import Fit, Prediction, gib
from doctor.sizing.support import Support
from doctor.sizing.survey import LENGTH, SizeRow

_LABEL = 14
_PART = 12
_NO_MEMORY = "memory of the device"
_GB = 10**9
_WORDS = {Fit.FITS: "fits", Fit.DOES_NOT: "does not fit", Fit.UNCERTAIN: "uncertain"}
_COLOURS = {Fit.FITS: "32", Fit.DOES_NOT: "31", Fit.UNCERTAIN: "33"}


def render_text(report: FitReport, style: Style) -> str:
    """The verdict, a bar of the memory, and what would change the verdict."""
    if report.prediction is None:
        return "\n".join(_survey(report)) + "\n"
    found = report.prediction
    lines = [*_head(report, found, style), ""]
    lines += [*_bar(found, style), *_parts(found), ""]
    lines += [*_capacity(found), *_changes(report, style), *_ladder(report.steps)]
    lines += [*_parallel(report.parallel, style), *_thumb(report), *_what_if(report)]
    lines += _notes(report, found, style)
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _paint(text: str, verdict: Fit, style: Style) -> str:
    return f"\x1b[{_COLOURS[verdict]};1m{text}\x1b[0m" if style.colour else text


def _head(report: FitReport, found: Prediction, style: Style) -> Iterator[str]:
    version = f" {report.asked.version}" if report.asked.version else ""
    where = f"{len(report.asked.cards)} x {found.card.name}" if found.card else report.source
    form = found.serving.quantization
    precision = form.format.key if form else "16 bit"
    head = f"{found.model.name} ({precision}) with {report.asked.engine}{version} on {where}"
    yield clean_line(head)
    why = f": {found.why}" if found.why else ""
    yield f"{_paint(_WORDS[found.verdict], found.verdict, style)}{clean_line(why)}"
    for answer in report.refused:
        text = f"but {report.asked.engine} does not take {answer.method} here: {answer.text}"
        yield from _wrapped(text, style, 2)
    if _NO_MEMORY in found.missing:
        yield "say it with --memory-gib"


def _segments(found: Prediction) -> list[tuple[str, str, int]]:
    """Letter, name and bytes of each part of one device."""
    weights = found.weights.bytes if found.weights else 0
    kv = max(found.pool or 0, 0)
    return [
        ("W", "weights", weights),
        ("A", "activations", found.activation),
        ("G", "CUDA graphs", found.graphs_charged),
        ("o", "other", found.non_torch),
        ("K", "KV pool", kv),
    ]


def _bar(found: Prediction, style: Style) -> Iterator[str]:
    """A bar of one device; letters, so that it reads on any terminal."""
    if found.card is None or found.pool is None or not found.card.total:
        return
    room = min(max(style.width - 30, 20), 64)
    text = ""
    used = 0
    for letter, _, size in _segments(found):
        used += size
        text += letter * (round(min(used / found.card.total, 1) * room) - len(text))
    over = "!" if used > found.card.total else ""
    yield f"{'one device':<{_LABEL}}[{text:.<{room}}]{over} {gib(found.card.total)}"


def _parts(found: Prediction) -> Iterator[str]:
    if found.offload is not None:
        yield from _offload(found.offload)
        return
    for letter, name, size in _segments(found):
        if name == "KV pool":
            yield from _pool(found)
        elif size:
            how = f"  {found.weights.how}" if name == "weights" and found.weights else ""
            yield f"  {letter} {name:<{_PART}}{gib(size):>12}{how}"
    if found.graphs:
        yield f"    {'beside it':<{_PART}}{gib(found.graphs):>12}  CUDA graphs, after the pool"


def _pool(found: Prediction) -> Iterator[str]:
    if not found.has_pool_model:
        yield f"  no pool model for {clean_line(found.serving.engine)}: weights and KV only"
    if found.pool is not None and found.pool_low is not None and found.pool_high is not None:
        span = f"{gib(found.pool_low)} to {gib(found.pool_high)}"
        yield f"  K {'KV pool':<{_PART}}{gib(found.pool):>12}  likely {span}"


def _offload(shared: Offload) -> Iterator[str]:
    for share in shared.shares:
        name = clean_line(share.card.name)
        yield f"  {name}: {share.layers} of {shared.layers} layers, {gib(share.bytes)}"
    yield f"  the CPU: {gib(shared.cpu)} of weights and KV"
    yield f"  a layer takes {gib(shared.layer)}, the compute buffer {gib(shared.scratch)}"


def _capacity(found: Prediction) -> Iterator[str]:
    length = found.offload.context if found.offload else found.serving.length
    if found.token:
        yield f"{'KV a token':<{_LABEL}}{found.token:,.0f} bytes on each device"
    if found.request is not None and length:
        yield f"{'one request':<{_LABEL}}{gib(found.request)} for {length} tokens"
    if found.tokens is not None:
        yield f"{'pool holds':<{_LABEL}}{found.tokens:,} tokens"
    if found.concurrency is not None and found.pool is not None:
        yield f"{'at once':<{_LABEL}}{found.concurrency:.2f} requests of that length"
    if found.longest is not None:
        yield f"{'longest':<{_LABEL}}{found.longest:,} tokens in one request"


def _changes(report: FitReport, style: Style) -> Iterator[str]:
    if not report.changes:
        return
    yield ""
    yield "makes it fit, cheapest first"
    for number, change in enumerate(report.changes, 1):
        length = change.prediction.serving.length
        reach = f" (requests of {length:,} tokens)" if length else ""
        yield from _wrapped(f"  {number}. {change.text}{reach}", style, 5)
        flags = _flags(change)
        if flags:
            yield f"     {flags}"


def _flags(change: Change) -> str:
    """The change as options of the engine's command line."""
    parts = []
    for name, value in change.args.items():
        option = f"--{name.replace('_', '-')}"
        parts.append(option if value is True else f"{option} {value}")
    return "" if change.cards else " ".join(parts)


def _ladder(steps: tuple[Step, ...]) -> Iterator[str]:
    if not steps:
        return
    yield ""
    yield "precision"
    for step in steps:
        yield f"  {step.bits:>2} bit  {_step(step)}"


def _step(step: Step) -> str:
    if step.prediction is None or step.support is not Support.YES:
        return clean_line(step.why)
    longest = step.prediction.longest
    reach = f", requests of up to {longest:,} tokens" if longest else ""
    name = step.format.key if step.format else ""
    name = name if step.method in ("gguf", name) else f"{name} ({step.method})"
    return f"{name:<22}{_WORDS[step.prediction.verdict]}{reach}"


def _parallel(shared: Parallel | None, style: Style) -> Iterator[str]:
    if shared is None:
        return
    yield ""
    text = f"share by tensor parallel {shared.tp}, pipeline parallel {shared.pp}; {shared.why}"
    yield from _wrapped("; ".join((text, *shared.notes)), style, 2)


def _thumb(report: FitReport) -> Iterator[str]:
    if report.thumb is None or report.ours is None:
        return
    yield ""
    ours, thumb = report.ours / _GB, report.thumb / _GB
    yield f"{'rule of thumb':<{_LABEL}}{thumb:.1f} GB for all; here {ours:.1f} GB"


def _what_if(report: FitReport) -> Iterator[str]:
    if not report.cells:
        return
    yield ""
    yield "  tokens  KV     verdict        at once"
    for cell in report.cells:
        found = cell.prediction
        many = f"{found.concurrency:.1f}" if found.concurrency is not None else ""
        yield f"{cell.length:>8}  {cell.kv:<5}  {_WORDS[found.verdict]:<13}  {many}"


def _notes(report: FitReport, found: Prediction, style: Style) -> Iterator[str]:
    if found.assumed:
        yield ""
        yield from _wrapped(f"assumed: {'; '.join(found.assumed)}", style, 2)
    if found.card is not None and not found.card.is_read:
        yield from _wrapped(f"device memory: {found.card.how}", style, 2)
    if style.verbose:
        yield from _wrapped(f"source: {'; '.join(found.sources)}", style, 2)
        yield f"matrix of {report.matrix_as_of}"


def _wrapped(text: str, style: Style, indent: int) -> list[str]:
    room = max(style.width, 40)
    return textwrap.wrap(clean_line(text, 2000), room, subsequent_indent=" " * indent)


def _survey(report: FitReport) -> Iterator[str]:
    names = dict.fromkeys(card.name for card in report.asked.cards)
    where = f"{len(report.asked.cards)} x {', '.join(names)}" if names else "no device with memory"
    length = report.asked.args.get("max_model_len", LENGTH)
    engine = f"{report.asked.engine} {report.asked.version or ''}".strip()
    yield clean_line(f"what fits with {engine} on {where}, requests of {length} tokens")
    yield ""
    yield f"{'model':<8}{'ranks':<8}{'16 bit':<16}{'8 bit':<16}{'4 bit':<16}"
    for row in report.rows:
        cells = [f"{_cell(step):<16}" for step in row.steps]
        yield f"{row.size:<8}{_ranks(row):<8}{''.join(cells)}".rstrip()


def _ranks(row: SizeRow) -> str:
    return f"{row.tp}x{row.pp}" if row.pp > 1 else str(row.tp)


def _cell(step: Step) -> str:
    if step.prediction is None:
        return "not taken" if step.support is Support.NO else "not known"
    return _WORDS[step.prediction.verdict]
