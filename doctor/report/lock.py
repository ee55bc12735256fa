"""What a new lock holds, and what is different from the one before."""

from __future__ import annotations

from doctor.profile.lock import Lock
from doctor.provision.locks import Locked
from doctor.report.clean import clean_line


def render_text(locked: Locked) -> str:
    """The lock in a few lines, with what changed."""
    lock = locked.lock
    if lock.image:
        lines = [f"{locked.path}: {lock.profile}, {lock.image}"]
    else:
        what = f"{lock.engine} {lock.version}, {len(lock.packages)} packages"
        lines = [f"{locked.path}: {what}, Python {lock.python}, {lock.platform}"]
    if not locked.is_new:
        lines.append("unchanged")
    elif locked.before is not None:
        lines += changes(locked.before, lock) or ["hashes or settings changed"]
    if locked.files:
        lines.append(f"{len(locked.files)} files in {locked.download}")
    return "\n".join(clean_line(line) for line in lines) + "\n"


def changes(before: Lock, after: Lock) -> list[str]:
    """Packages that came, went or moved."""
    old = {package.name: package.version for package in before.packages}
    new = {package.name: package.version for package in after.packages}
    lines = []
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            lines.append(f"  {name}: {old.get(name, 'not there')} -> {new.get(name, 'gone')}")
    return lines
