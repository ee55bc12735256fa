"""Send an image to a registry, from wherever it was built."""

from __future__ import annotations

from dataclasses import dataclass

from doctor.errors import RemoteError, UsageError
from doctor.images import buildah, classic
from doctor.images.building import Say


@dataclass(frozen=True)
class Pushed:
    """Where an image lies now; `image` names it by digest."""

    target: str
    digest: str

    @property
    def image(self) -> str:
        """The name to run it by: nobody can publish something else under it."""
        return f"{classic.split_tag(self.target)[0]}@{self.digest}"


def push(reference: str, target: str, builder: str, say: Say) -> Pushed:
    """Push; raises UsageError for an image that is nowhere, RemoteError where it is refused."""
    if "@" in target:
        raise UsageError(f"{target[:120]!r} names a digest", "push to a tag; it gets its digest")
    if builder == "buildah" or (builder == "auto" and not _engine_holds(reference)):
        return Pushed(target, buildah.push(reference, target, say))
    return Pushed(target, classic.push(reference, target, say))


def _engine_holds(reference: str) -> bool:
    """Whether the engine has it; if it does not and buildah has it, the latter is meant."""
    from doctor.images.engine import connect, find_image

    try:
        with connect() as client:
            find_image(client, reference)
            return True
    except (UsageError, RemoteError):
        if buildah.holds(reference):
            return False
        raise
