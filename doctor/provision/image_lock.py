"""Lock an image: which one its tag leads to today, and which version of the engine is in it."""

from __future__ import annotations

import re

from doctor.errors import UsageError
from doctor.facts import Scope, Version
from doctor.facts.scopes import ImageRef
from doctor.matrix import Matrix
from doctor.profile.lock import SCHEMA, Lock
from doctor.profile.registry import parse_reference, pin_image
from doctor.profile.schema import Profile
from doctor.rules.image_facts import known_image

# In place of a libc: images bring their own.
_PLATFORM = "{arch}-linux"


def lock_image(profile: Profile, arch: str, matrix: Matrix) -> Lock:
    """The image by digest; one whose digest the profile names is asked of nobody.

    Raises RemoteError or UsageError.
    """
    named = parse_reference(profile.install.image)
    version = engine_version(profile, matrix)
    lock = Lock(
        schema=SCHEMA,
        profile=profile.name,
        engine=profile.engine.name,
        version=str(version) if version else "",
        platform=_PLATFORM.format(arch=arch),
        image=f"{named.name}@{named.digest}" if named.digest else "",
        tag=named.tag,
    )
    if named.digest:
        return lock
    pinned = pin_image(profile.install.image, arch)
    return _with_image(lock, pinned.image, pinned.tag or "latest", pinned.config)


def _with_image(lock: Lock, image: str, tag: str, image_id: str) -> Lock:
    import msgspec

    return msgspec.structs.replace(lock, image=image, tag=tag, image_id=image_id)


def engine_version(profile: Profile, matrix: Matrix) -> Version | None:
    """The engine's version in an image: by what is known of its tag, else as the profile says."""
    named = parse_reference(profile.install.image)
    row = known_image(image_scope(f"{named.name}:{named.tag or 'latest'}"), matrix)
    match = re.fullmatch(row.tag, named.tag) if row else None
    stated = match.groupdict().get("version") if match else None
    exact = re.fullmatch(r"\s*==\s*([^,*\s]+)\s*", profile.engine.version)
    known, wanted = Version.maybe(stated), Version.maybe(exact[1] if exact else None)
    if known and wanted and known.same_as(wanted) is False:
        raise UsageError(
            f"the profile wants {profile.engine.name} {wanted}, {named.tag} holds {known}",
            "change engine.version or install.image",
        )
    return known or wanted


def image_scope(reference: str) -> Scope:
    """The world inside an image, as far as its name tells."""
    return Scope(id="image", kind="image", image=ImageRef(ref=reference))


def is_of_image(lock: Lock, wanted: str) -> bool:
    """Tell whether a lock's image is the one that a profile names; "" is wanted by a venv."""
    if not wanted or not lock.image:
        return not wanted and not lock.image
    named, locked = parse_reference(wanted), parse_reference(lock.image)
    if named.digest:
        return (named.name, named.digest) == (locked.name, locked.digest)
    return (named.name, named.tag or "latest") == (locked.name, lock.tag)
