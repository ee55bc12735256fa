"""The report of `doctor scan`: a table for people, `doctor/scan/v1` for machines."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from doctor.binaries.coverage import Tally
from doctor.facts import CodeTarget, Coverage, to_wire
from doctor.report import Style
from doctor.report.clean import clean_line
from doctor.scanning import ScanReport, ScanRow

SCHEMA = "doctor/scan/v1"
_LEGEND = (
    "yes: machine code for all kernel groups; n/m: for n of m, kJ: for k more by JIT, the rest is "
    "for other cards; JIT: only PTX, compiled at the first start; no: nothing that this card can "
    "run. compute_80@9.0 is PTX of ISA 9.0"
)
_NAMES_SHOWN = 12
_NAME_WIDTH, _CODE_WIDTH = 24, 28


def render_json(report: ScanReport) -> str:
    """One JSON document."""
    scan = report.scan
    data = {
        "schema": SCHEMA,
        "path": scan.path,
        "kind": scan.kind,
        "wheel": to_wire(scan.wheel),
        "cards": [str(card) for card in report.cards],
        "soc": list(scan.socs),
        "incomplete": scan.incomplete,
        "files": [_file(report, row) for row in report.rows],
    }
    return json.dumps(data, indent=1) + "\n"


def _file(report: ScanReport, row: ScanRow) -> dict[str, Any]:
    contents = row.file.contents
    data: dict[str, Any] = to_wire(contents.binary(row.file.path))
    if row.missing is not None:
        data["unresolved"] = list(row.missing)
    if row.ptx_cuda is not None:
        data["ptx_cuda"] = str(row.ptx_cuda)
    data["compression"] = list(contents.compression)
    data["soname"] = contents.linkage.soname
    if contents.kernels:
        pairs = zip(report.cards, row.tallies, strict=True)
        data["coverage"] = {str(card): _counts(tally) for card, tally in pairs}
    return data


def _counts(tally: Tally) -> dict[str, Any]:
    numbers = {"sass": tally.sass, "ptx": tally.ptx, "none": tally.none}
    return {"result": tally.coverage.value, **numbers}


def render_text(report: ScanReport, style: Style) -> str:
    """A table of the files with GPU code, then what the whole needs."""
    coded = [row for row in report.rows if _code(row)]
    lines = [_title(report)]
    if coded:
        lines += ["", *_table(report, coded, style)]
    lines += ["", *_summary(report, len(report.rows) - len(coded), style)]
    return "\n".join(lines) + "\n"


def _title(report: ScanReport) -> str:
    scan = report.scan
    named = f"{scan.wheel.name} {scan.wheel.version}".strip() or scan.path
    tags = f" ({', '.join(scan.wheel.tags)})" if scan.wheel.tags else ""
    return clean_line(f"{scan.kind} {named}{tags}: {_count(len(report.rows))}")


def _count(number: int) -> str:
    return "1 library" if number == 1 else f"{number} libraries"


def _code(row: ScanRow) -> list[str]:
    """What the file holds for GPUs, in words: machine code, then PTX with its ISA."""
    contents = row.file.contents
    targets = {t for group in contents.kernels for t in group.targets}
    words = [str(t) for t in sorted(targets, key=_target_order)]
    words += [*contents.gfx, *contents.soc]
    if contents.sealed:
        words.append(f"({contents.sealed})")
    return words


def _target_order(target: CodeTarget) -> tuple[bool, int, str]:
    return (target.kind is Coverage.PTX, target.arch, target.suffix)


def _table(report: ScanReport, rows: Sequence[ScanRow], style: Style) -> list[str]:
    head = ["file", "CUDA", *(str(card) for card in report.cards), "GPU code"]
    cells = [_cells(row, _shared(report)) for row in rows]
    widths = [max(len(line[i]) for line in [head, *cells]) for i in range(len(head) - 1)]
    others = sum(widths[1:]) + 2 * len(widths)
    if others + min(widths[0], _NAME_WIDTH) + _CODE_WIDTH > style.width:
        return [line for cell in cells for line in _block(cell, head, style)]
    widths[0] = min(widths[0], max(style.width - others - _CODE_WIDTH, _NAME_WIDTH))
    room = max(style.width - others - widths[0], _CODE_WIDTH)
    lines = []
    for line in [head, *cells]:
        name = textwrap.wrap(line[0], widths[0]) or [""]
        code = textwrap.wrap(line[-1], room, break_on_hyphens=False) or [""]
        for place in range(max(len(name), len(code))):
            middle = line[1:-1] if place == 0 else [""] * (len(line) - 2)
            fields = [_at(name, place), *middle, _at(code, place)]
            lines.append("  ".join(f.ljust(w) for f, w in zip(fields, [*widths, 0], strict=True)))
    return [line.rstrip() for line in lines]


def _block(cells: Sequence[str], head: Sequence[str], style: Style) -> list[str]:
    """One file where the table has no room: its name, then the cards by what they can run."""
    by_result: dict[str, list[str]] = {}
    for card, result in zip(head[2:-1], cells[2:-1], strict=True):
        by_result.setdefault(result, []).append(card)
    stated = [("CUDA", cells[1]), *((r, " ".join(c)) for r, c in by_result.items() if r)]
    lines = textwrap.wrap(cells[0], max(style.width, _NAME_WIDTH)) or [""]
    for label, text in (*stated, ("code", cells[-1])):
        lines += [
            f"  {line}" for line in _field(label, text, replace(style, width=style.width - 2))
        ]
    return lines


def _shared(report: ScanReport) -> str:
    """The leading part of the paths that the title has named already."""
    path = report.scan.path
    return {"file": path.rpartition("/")[0] + "/", "folder": path.rstrip("/") + "/"}.get(
        report.scan.kind, ""
    )


def _cells(row: ScanRow, shared: str) -> list[str]:
    contents = row.file.contents
    results = [_result(tally) for tally in row.tallies]
    cuda = str(contents.toolkit or contents.binary("").cuda or "")
    if not cuda and row.ptx_cuda is not None:
        cuda = f"{row.ptx_cuda} (PTX)"
    name = clean_line(row.file.path.removeprefix(shared))
    return [name, cuda, *results, clean_line(" ".join(_code(row)), 2000)]


def _result(tally: Tally) -> str:
    if not tally.total:
        return ""
    if tally.sass == tally.total:
        return "yes"
    if tally.sass:
        return f"{tally.sass}{f'+{tally.ptx}J' if tally.ptx else ''}/{tally.total}"
    return "JIT" if tally.ptx else "no"


def _at(items: Sequence[str], place: int) -> str:
    return items[place] if place < len(items) else ""


def _summary(report: ScanReport, plain: int, style: Style) -> list[str]:
    contents = [row.file.contents for row in report.rows]
    floors = [c.glibc for c in contents]
    glibc = max((f for f in floors if f), key=lambda version: version.low, default=None)
    cuda = sorted({str(c.binary("").cuda) for c in contents if c.binary("").cuda})
    lines = _field("glibc", f"{glibc} or newer" if glibc else "", style)
    lines += _field("CUDA", ", ".join(f"runtime {version}" for version in cuda), style)
    lines += _field("Ascend", ", ".join(report.scan.socs), style)
    lines += _field("missing", _names(_missing(report), style), style)
    lines += _field("outside", _names(_outside(report), style), style)
    lines += _field("plain", f"{_count(plain)} without GPU code" if plain else "", style)
    for row in report.rows:
        if row.file.contents.unreadable:
            text = f"{row.file.path}: {row.file.contents.unreadable}"
            lines += _field("broken", clean_line(text), style)
    lines += _field("note", report.scan.incomplete, style)
    legend = any(_result(tally) not in ("", "yes") for row in report.rows for tally in row.tallies)
    return lines + _field("legend", _LEGEND if legend else "", style)


def _missing(report: ScanReport) -> list[str]:
    """Libraries that this machine does not have, each with the number of files that ask for it."""
    asked = Counter(name for row in report.rows for name in row.missing or ())
    return [f"{name} ({count})" for name, count in sorted(asked.items())]


def _outside(report: ScanReport) -> list[str]:
    """What an archive asks for and does not hold; whether it is there only its home can tell."""
    if any(row.missing is not None for row in report.rows):
        return []
    links = [row.file.contents.linkage for row in report.rows]
    own = {row.file.path.rsplit("/", 1)[-1] for row in report.rows} | {k.soname for k in links}
    return sorted({name for link in links for name in link.needed} - own)


def _names(names: Sequence[str], style: Style) -> str:
    shown = names if style.verbose else names[:_NAMES_SHOWN]
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return clean_line(", ".join(shown), 4000) + more


def _field(label: str, text: str, style: Style) -> list[str]:
    if not text:
        return []
    wrapped = textwrap.wrap(text, max(style.width - 9, 24), break_on_hyphens=False)
    first = f"{label:<8} {wrapped[0]}"
    return [first, *(f"{'':<9}{line}" for line in wrapped[1:])]
