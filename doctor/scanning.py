"""Scan files and set what is in them against cards: the work behind `doctor scan`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from doctor.binaries.archives import Progress
from doctor.binaries.coverage import Tally, tally
from doctor.binaries.ldcache import parse_cache
from doctor.binaries.loader import DRIVER_LIBRARIES, Loader, SearchPath
from doctor.binaries.scan import Scan, Scanned, scan
from doctor.binaries.sources import BinaryUnreadable
from doctor.binaries.tree import LocalTree, read_bytes
from doctor.errors import ExitCode, UsageError
from doctor.facts import CodeTarget, ComputeCapability, Version
from doctor.matrix import Matrix
from doctor.probes import nvidia
from doctor.probes.host import Host

_LD_CACHE, _LD_CACHE_LIMIT = "/etc/ld.so.cache", 16 << 20


@dataclass(frozen=True)
class ScanRow:
    """One file with its count per card, in the order of the cards.

    `missing` are libraries that this machine does not have for it; None where that
    cannot be told, as for a member of a wheel. `ptx_cuda` is the oldest CUDA, and so
    the oldest driver's, that compiles its newest PTX.
    """

    file: Scanned
    tallies: tuple[Tally, ...]
    missing: tuple[str, ...] | None = None
    ptx_cuda: Version | None = None


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


def scan_for(
    path: str, cards: Sequence[str], host: Host, matrix: Matrix, progress: Progress
) -> ScanReport:
    """Scan `path` for cards such as "8.9", else for those of `host`, this machine.

    A machine without cards is shown every architecture that the newest compiler knows.
    Raises UsageError for what cannot be read.
    """
    wanted = tuple(map(_capability, cards)) or _cards(host) or _usual_cards(matrix)
    try:
        found = scan(os.path.realpath(path), progress)
    except BinaryUnreadable as reason:
        raise UsageError(f"{path}: {reason}", "give a library, a wheel or a folder") from None
    if found.kind == "folder" and not found.files:
        raise UsageError(f"{path} holds no library", "give a library, a wheel or another folder")
    missing = _missing(found, host)
    rows = tuple(
        ScanRow(
            file,
            tuple(tally(file.contents.kernels, card, matrix.tegra) for card in wanted),
            missing.get(file.path),
            _ptx_cuda(file, matrix),
        )
        for file in found.files
    )
    return ScanReport(found, wanted, rows, asked=bool(cards))


def exit_code(report: ScanReport) -> ExitCode:
    """1 if cards were asked for, there is CUDA code, and one of the cards can run none of it."""
    totals = [report.total(place) for place in range(len(report.cards))]
    refused = any(total.total and not total.sass + total.ptx for total in totals)
    return ExitCode.NO if report.asked and refused else ExitCode.OK


def _cards(host: Host) -> tuple[ComputeCapability, ...]:
    """The compute capabilities of the machine's own cards, each once."""
    devices = nvidia.read(host, host.environ()).devices.value or ()
    found = (device.compute_capability.value for device in devices)
    return tuple(dict.fromkeys(card for card in found if card is not None))


def _usual_cards(matrix: Matrix) -> tuple[ComputeCapability, ...]:
    """What the newest CUDA compiler makes code for, boards with a SoC left out."""
    newest = max(matrix.cuda.compilers, key=lambda row: Version(row.cuda).low, default=None)
    targets = map(CodeTarget.parse, newest.targets if newest else ())
    plain = {target.capability for target in targets if not target.suffix}
    return tuple(sorted(plain - matrix.tegra))


def _ptx_cuda(file: Scanned, matrix: Matrix) -> Version | None:
    isas = [t.isa for kernels in file.contents.kernels for t in kernels.targets if t.isa]
    return matrix.cuda_of_isa(max(isas)) if isas else None


def _missing(found: Scan, host: Host) -> dict[str, tuple[str, ...]]:
    """Per file what the loader would not find, neither on this machine nor in the scan itself.

    Libraries of the driver are left out: who scans need not have a card.
    """
    if found.kind not in ("file", "folder"):
        return {}
    folders = host.environ().get("LD_LIBRARY_PATH", "").split(":")
    environment = tuple(folder for folder in folders if folder.startswith("/"))
    cache = parse_cache(read_bytes(_LD_CACHE, _LD_CACHE_LIMIT))
    loader = Loader(LocalTree(), SearchPath(environment, cache))
    own = {file.path.rpartition("/")[2] for file in found.files}
    own |= {file.contents.linkage.soname for file in found.files} | DRIVER_LIBRARIES
    missing = {}
    for file in found.files:
        opened = loader.open(file.path)
        if opened is not None:
            unresolved = loader.results[opened.real].unresolved
            missing[file.path] = tuple(name for name in unresolved if name not in own)
    return missing


def _capability(text: str) -> ComputeCapability:
    try:
        return ComputeCapability.parse(text)
    except ValueError:
        raise UsageError(
            f"--cc {text[:20]!r} is not a compute capability", "write it as 8.9"
        ) from None
