"""Scan files and set what is in them against cards: the work behind `doctor scan`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from doctor.binaries.archives import Progress
from doctor.binaries.coverage import Tally, tally
from doctor.binaries.scan import Scan, Scanned, scan
from doctor.binaries.sources import BinaryUnreadable
from doctor.errors import ExitCode, UsageError
from doctor.facts import ComputeCapability
from doctor.matrix import Matrix


@dataclass(frozen=True)
class ScanRow:
    """One file with its count per card, in the order of the cards."""

    file: Scanned
    tallies: tuple[Tally, ...]


@dataclass(frozen=True)
class ScanReport:
    """A scan set against cards; `asked` is True if a person named them."""

    scan: Scan
    cards: tuple[ComputeCapability, ...]
    rows: tuple[ScanRow, ...]
    asked: bool = False

    def total(self, place: int) -> Tally:
        """All files' groups for the card at `place`."""
        return sum((row.tallies[place] for row in self.rows), Tally())


def scan_for(path: str, cards: Sequence[str], matrix: Matrix, progress: Progress) -> ScanReport:
    """Scan `path` for cards such as "8.9"; raises UsageError for what cannot be read."""
    wanted = tuple(_capability(text) for text in cards)
    try:
        found = scan(path, progress)
    except BinaryUnreadable as reason:
        raise UsageError(f"{path}: {reason}", "give a library, a wheel or a folder") from None
    rows = tuple(
        ScanRow(file, tuple(tally(file.contents.kernels, card, matrix.tegra) for card in wanted))
        for file in found.files
    )
    return ScanReport(found, wanted, rows, asked=bool(cards))


def exit_code(report: ScanReport) -> ExitCode:
    """1 if cards were asked for, there is CUDA code, and one of the cards can run none of it."""
    totals = [report.total(place) for place in range(len(report.cards))]
    refused = any(total.total and not total.sass + total.ptx for total in totals)
    return ExitCode.NO if report.asked and refused else ExitCode.OK


def _capability(text: str) -> ComputeCapability:
    try:
        return ComputeCapability.parse(text.removeprefix("sm_"))
    except ValueError:
        raise UsageError(
            f"--cc {text[:20]!r} is not a compute capability", "write it as 8.9"
        ) from None
