"""Learn of new releases from the user's package index; never of claims."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from doctor.errors import UsageError
from doctor.facts import Version
from doctor.matrix.index import Index
from doctor.matrix.index_page import IndexFile, NotFetched
from doctor.matrix.learnt import write_learnt
from doctor.matrix.model import Release
from doctor.matrix.query import Matrix
from doctor.matrix.update_release import best_wheel, by_version, release_of

# Of one project at once: whoever was away for years gets the newest.
MOST_NEW = 20
_BESIDE = ("torchvision", "torchaudio", "torch-npu", "transformers")

Note = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Outcome:
    """What came of one domain: new versions, the newest that the index has, or why nothing.

    `unread` are new versions whose METADATA could not be read: their pins are not known.
    """

    domain: str
    project: str
    new: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    newest: str = ""
    failed: str = ""


def projects(matrix: Matrix, names: Iterable[str] = ()) -> dict[str, str]:
    """Projects of the index by domain: of the domains named, else of all that are installed.

    Raises UsageError for a name that is no domain with releases.
    """
    found = {name: name for name in _BESIDE}
    for row in reversed(matrix.stacks.deliveries):
        found[row.engine] = row.package
    chosen = {}
    for name in names:
        domain = matrix.engine(matrix.canonical(name) or name)
        if domain is None or not domain.releases:
            raise UsageError(f"no releases are kept of {name[:60]!r}", f"known: {', '.join(found)}")
        chosen[domain.name] = found.get(domain.name) or next(iter(domain.packages), domain.name)
    return chosen or found


class Updater:
    """Asks one index for the projects of a matrix, and keeps what is new.

    Each domain is written when it is done, so that an interruption leaves nothing half.
    """

    def __init__(self, matrix: Matrix, index: Index, today: str) -> None:
        self._matrix = matrix
        self._index = index
        self._today = today

    def run(self, wanted: dict[str, str], note: Note) -> Iterator[Outcome]:
        """One outcome a domain; raises RemoteError if the index cannot be reached."""
        for number, (domain, project) in enumerate(wanted.items()):
            note(number, len(wanted), project)
            yield self._one(domain, project)

    def _one(self, domain: str, project: str) -> Outcome:
        try:
            listed = by_version(self._index.project(project), project)
        except NotFetched as fault:
            return Outcome(domain, project, failed=str(fault))
        versions = sorted(listed, key=lambda text: Version(text).low, reverse=True)
        new = [text for text in versions if self._is_new(domain, Version(text))][:MOST_NEW]
        rows = [self._read(project, text, listed[text]) for text in new]
        if rows:
            write_learnt(domain, tuple(row for row, _ in rows), self._today)
        finals = [text for text in versions if not Version(text).is_prerelease]
        return Outcome(
            domain,
            project,
            new=tuple(new),
            unread=tuple(row.version for row, is_read in rows if not is_read),
            newest=next(iter(finals or versions), ""),
        )

    def _is_new(self, domain: str, version: Version) -> bool:
        """A final release above the newest final one that is known; a candidate above all."""
        known = [v for _, v in self._matrix.versions(domain)]
        peers = known if version.is_prerelease else [v for v in known if not v.is_prerelease]
        is_above = all(version.newer_than(v) is True for v in peers)
        return is_above and self._matrix.release(domain, version) is None

    def _read(self, project: str, version: str, files: list[IndexFile]) -> tuple[Release, bool]:
        """The row, and whether METADATA was read for it."""
        wheel = best_wheel(files)
        metadata = None
        if wheel is not None:
            try:
                metadata = self._index.metadata(wheel)
            except NotFetched:
                metadata = None
        return release_of((project, version), files, metadata, self._today), metadata is not None
