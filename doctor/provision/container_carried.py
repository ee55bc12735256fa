"""An image that is carried to a machine in a file: where it lies, and by what it is known there.

A container engine that loads an image cannot know the digest that its registry gave it; it
knows it by the digest of its configuration, which the manifest names.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from doctor.errors import UsageError
from doctor.profile.image_file import ImageFile, image_path, read_image_file
from doctor.profile.lock import Lock
from doctor.provision.goal import Goal

_ID = "sha256:"


def carried_image(lock: Lock, offline: str) -> ImageFile:
    """The file of the lock's image in a folder; raises UsageError if it is none or another."""
    return read_image_file(image_path(lock.image, Path(offline).absolute()), lock.image)


def carried_as(lock: Lock, offline: str, applied: Goal | None) -> str:
    """By what the engine there knows the image if it is, or was, carried; else "".

    A service that was put there from a file stays as it is without that file.
    """
    if lock.image and offline:
        with suppress(UsageError):
            return carried_image(lock, offline).id
    box = applied.container if applied is not None and applied.lock == lock.digest else None
    return box.image if box is not None and box.image.startswith(_ID) else ""
