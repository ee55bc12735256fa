"""A release: what lies in its folder, and the name that follows from it. Pure."""

from __future__ import annotations

from pathlib import Path

from doctor.errors import UsageError
from doctor.profile.lock import Lock, lock_text, requirements_text
from doctor.provision.goal import ManagedFile, Release, digest_of
from doctor.smoke.launch import LaunchPlan

EMBEDDED = "doctor.smoke.embedded"
CONFIG = "config.json"
_SOURCE = "# Part of doctor: what this release needs of it.\n"


def release_of(lock: Lock, launch: LaunchPlan) -> Release:
    """What a lock and a launch make: named by the hash of all that is in it. Raises UsageError."""
    if not lock.image and (lock.python is None or lock.platform is None):
        raise UsageError("this lock has no Python packages", "lock the profile again")
    files: tuple[ManagedFile, ...] = (ManagedFile("stack.lock", lock_text(lock)),)
    if EMBEDDED in launch.argv:
        files += _embedded_server()
    if launch.config:
        # Engines with such a file refuse it if others may read it.
        files += (ManagedFile(CONFIG, launch.config, 0o640),)
    name = digest_of(lock.digest, *(part for f in files for part in (f.path, f.text)))[:16]
    return Release(
        name=name,
        python=lock.python or "",
        platform=lock.platform or "",
        requirements=requirements_text(lock),
        index=lock.index,
        files=files,
        image=lock.image,
    )


def _embedded_server() -> tuple[ManagedFile, ...]:
    """Doctor's own server around llama.cpp, which the release must be able to import."""
    source = Path(__file__).parent.parent / "smoke" / "embedded.py"
    return (
        ManagedFile("lib/doctor/__init__.py", _SOURCE),
        ManagedFile("lib/doctor/smoke/__init__.py", _SOURCE),
        ManagedFile("lib/doctor/smoke/embedded.py", source.read_text(encoding="utf-8")),
    )
