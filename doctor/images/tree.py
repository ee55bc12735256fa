"""The merged file system of an image: names, modes and links; content only of what was kept."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.errors import UsageError
from doctor.images.tar import Kind, Member

_MOST_FILES = 500_000
_MOST_BYTES_OF_NAMES = 48 << 20
_WHITEOUT, _OPAQUE = ".wh.", ".wh..wh..opq"


class Entry:
    """A file, folder or link. `path` is its copy on this machine, "" if none was kept.

    `seen` is what a reader found in it as it passed.
    """

    __slots__ = ("children", "kind", "mode", "path", "seen", "size", "target")

    def __init__(self, kind: Kind, mode: int = 0o755, size: int = 0, target: str = "") -> None:
        self.kind = kind
        self.mode = mode
        self.size = size
        self.target = target
        self.path = ""
        self.seen: object = None
        self.children: dict[str, Entry] | None = {} if kind is Kind.FOLDER else None


class ImageTree:
    """Folders of folders. Layers are added from the lowest up; a whiteout hides what is below.

    Names that leave the root are refused, and counted in `refused`.
    """

    def __init__(self) -> None:
        self.root = Entry(Kind.FOLDER)
        self.refused = 0
        self._files = 0
        self._name_bytes = 0
        self._added: dict[int, Entry] = {}

    def begin_layer(self) -> None:
        """From here on, opaque folders hide only what earlier layers put there."""
        self._added.clear()

    def add(self, member: Member) -> Entry | None:
        """Put a member in its place; None for a whiteout and for what has no place in the tree."""
        parts = [part for part in member.name.split("/") if part not in ("", ".")]
        if ".." in parts or "\0" in member.name:
            self.refused += 1
            return None
        if not parts:
            return self.root
        folder = self._folder(parts[:-1])
        if folder.children is None:
            self.refused += 1
            return None
        if parts[-1].startswith(_WHITEOUT):
            self._hide(folder, parts[-1])
            return None
        entry = self._entry(member, folder.children.get(parts[-1]))
        if entry is not None:
            self._put(folder.children, parts[-1], entry)
        return entry

    def find(self, path: str) -> Entry | None:
        """The entry at a path in which no link is followed."""
        entry: Entry | None = self.root
        for part in path.split("/"):
            if part:
                entry = (entry.children or {}).get(part) if entry is not None else None
        return entry

    def walk(self) -> Iterator[tuple[str, Entry]]:
        """Every entry with its path, folders before what is in them."""
        todo = [("", self.root)]
        while todo:
            path, folder = todo.pop()
            for name, entry in (folder.children or {}).items():
                yield f"{path}/{name}", entry
                if entry.children is not None:
                    todo.append((f"{path}/{name}", entry))

    def _entry(self, member: Member, known: Entry | None) -> Entry | None:
        if member.kind is Kind.HARD_LINK:
            found = self.find(member.target)
            if found is None or found.kind is Kind.FOLDER:
                self.refused += 1
                return None
            return found
        if member.kind is Kind.FOLDER and known is not None and known.kind is Kind.FOLDER:
            known.mode = member.mode
            return known
        return Entry(member.kind, member.mode, member.size, member.target)

    def _put(self, children: dict[str, Entry], name: str, entry: Entry) -> None:
        if name not in children:
            self._files += 1
            self._name_bytes += len(name) + len(entry.target)
        if self._files > _MOST_FILES or self._name_bytes > _MOST_BYTES_OF_NAMES:
            raise UsageError(f"the image holds more than {_MOST_FILES} files or too long names")
        children[name] = entry
        self._added[id(entry)] = entry

    def _folder(self, parts: list[str]) -> Entry:
        """The folder of a member; made where the archive does not name it."""
        place = self.root
        for part in parts:
            children = place.children
            if children is None:
                return place
            found = children.get(part)
            if found is None:
                found = Entry(Kind.FOLDER)
                self._put(children, part, found)
            place = found
        return place

    def _hide(self, folder: Entry, name: str) -> None:
        children = folder.children or {}
        if name != _OPAQUE:
            children.pop(name[len(_WHITEOUT) :], None)
            return
        for below in [n for n, entry in children.items() if id(entry) not in self._added]:
            del children[below]
