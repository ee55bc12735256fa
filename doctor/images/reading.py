"""Read an image whole, once, forward: from the engine or from a file, into a host for probes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from doctor.errors import UsageError
from doctor.images import engine
from doctor.images.archive import open_archive
from doctor.images.config import ImageConfig
from doctor.images.host import ImageHost
from doctor.images.kept import Keeper
from doctor.images.streams import Chunks, Meter, Metered, Progress, unpacked
from doctor.images.tar import Stream, TarReader
from doctor.images.tree import ImageTree

LIMIT_S = 1800.0
_DISK = "/var/tmp"  # noqa: S108 - a private folder is made in it


def ignore_progress(done: int, total: int, name: str) -> None:
    """Show nothing."""


@dataclass(frozen=True)
class Opened:
    """An image that was read under the name `ref`; it is gone when the reading ends."""

    ref: str
    config: ImageConfig
    tree: ImageTree
    keeper: Keeper

    @property
    def host(self) -> ImageHost:
        """The image as probes see it."""
        return ImageHost(self.tree, self.keeper, self.config.env)


@contextmanager
def read_image(
    ref: str, progress: Progress = ignore_progress, limit_s: float = LIMIT_S
) -> Iterator[Opened]:
    """Read an image of the engine, or an archive or OCI layout at a path.

    Raises UsageError for what is no image or takes longer than `limit_s`, and RemoteError
    where the engine does not answer.
    """
    with ExitStack() as stack:
        scratch = tempfile.TemporaryDirectory(prefix="doctor-image-", dir=_scratch())
        folder = stack.enter_context(scratch)
        with _named(ref):
            config, layers = open_image(ref, stack)
            tree, keeper = ImageTree(), Keeper(folder)
            meter = Meter(progress, limit_s)
            for layer in layers:
                tree.begin_layer()
                _fill(tree, keeper, unpacked(Metered(layer, meter)), meter)
        yield Opened(ref, config, tree, keeper)


@contextmanager
def _named(ref: str) -> Iterator[None]:
    """Say of which image an error speaks, and what next, where it does not by itself."""
    try:
        yield
    except UsageError as fault:
        said = str(fault) if ref in str(fault) else f"{ref}: {fault}"
        hint = fault.hint or "save it again: docker save -o image.tar IMAGE"
        raise UsageError(said, hint) from None


def _scratch() -> str | None:
    """Where copies lie: not in memory, as /tmp does on many systems, unless that is wanted."""
    usable = os.path.isdir(_DISK) and os.access(_DISK, os.W_OK | os.X_OK)
    return _DISK if usable and not os.environ.get("TMPDIR") else None


def is_file(ref: str) -> bool:
    """Tell whether a reference names a file or folder here: by its look, or because it is there."""
    return ref.startswith(("/", "./", "../", "~")) or ref.endswith(".tar") or os.path.exists(ref)


def need_image(ref: str) -> None:
    """Raise what `read_image` raises for an image that cannot be opened; nothing is read."""
    with ExitStack() as stack, _named(ref):
        if is_file(ref):
            open_archive(ref, stack)
        else:
            engine.find_image(stack.enter_context(engine.connect()), ref)


def open_image(ref: str, stack: ExitStack) -> tuple[ImageConfig, Iterable[Stream]]:
    """The configuration of an image and its layers from the lowest up; closed with `stack`."""
    if is_file(ref):
        found = open_archive(ref, stack)
        return found.config, found.streams
    client = stack.enter_context(engine.connect())
    image = engine.find_image(client, ref)
    chunks = stack.enter_context(engine.exported(client, image))
    return engine.config_of(image, ref), (Chunks(chunks),)


def _fill(tree: ImageTree, keeper: Keeper, stream: Stream, meter: Meter) -> None:
    reader = TarReader(stream)
    for member in reader:
        meter.name = member.name
        entry = tree.add(member)
        if entry is not None:
            path = "/" + "/".join(p for p in member.name.split("/") if p not in ("", "."))
            keeper.take(path, entry, member, reader)
