"""Links that another user laid must not make root read what that user may not.

The kernel does the same for links in sticky folders (fs.protected_symlinks); environments lie in
their users' homes, where it does not.
"""

from __future__ import annotations

import os
import stat as modes

_MOST_LINKS = 40


def is_open(handle: int, path: str) -> bool:
    """Tell whether root may read what it opened at `path`: who laid the links could too.

    Below /proc the links are the kernel's own. What was opened is asked where it lies, so that
    a link that is exchanged meanwhile changes nothing.
    """
    if os.geteuid() != 0 or path.startswith("/proc/"):
        return True
    try:
        real = os.readlink(f"/proc/self/fd/{handle}")
        if real == path or real == os.path.abspath(path) or _is_public(real):
            return True
        owners = _link_owners(path)
        return bool(owners) and owners <= {0, os.fstat(handle).st_uid}
    except OSError:
        return False


def _is_public(real: str) -> bool:
    """True if everybody can read a file, through every folder above it."""
    if not os.stat(real).st_mode & modes.S_IROTH:
        return False
    folder = os.path.dirname(real)
    while folder != "/":
        if not os.stat(folder).st_mode & modes.S_IXOTH:
            return False
        folder = os.path.dirname(folder)
    return True


def _link_owners(path: str) -> set[int]:
    """Owners of all links on the way; raises OSError for more than any real way has."""
    owners, place, waiting = [], "/", os.path.abspath(path).split("/")
    while waiting:
        here = os.path.normpath(os.path.join(place, waiting.pop(0)))
        status = os.lstat(here)
        if not modes.S_ISLNK(status.st_mode):
            place = here
            continue
        owners.append(status.st_uid)
        if len(owners) > _MOST_LINKS:
            raise OSError("too many links")
        target = os.readlink(here)
        place = "/" if target.startswith("/") else place
        waiting = target.split("/") + waiting
    return set(owners)
