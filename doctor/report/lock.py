"""What a new lock holds, and what is different from the one before."""

from __future__ import annotations

from doctor.profile.lock import Lock
from doctor.provision.locks import Locked
from doctor.report.clean import clean_line


def render_text(locked: Locked) -> str:
    """The lock in a few lines, with what changed."""
    lock = locked.lock
    if lock.image:
        what = " ".join((lock.engine, lock.version)).rstrip()
        lines = [f"{locked.path}: {what}, {lock.arch}, {lock.image}"]
    else:
        what = f"{lock.engine} {lock.version}, {len(lock.packages)} packages"
        lines = [f"{locked.path}: {what}, Python {lock.python}, {lock.platform}"]
    if lock.model is not None:
        size = sum(file.size for file in lock.model.files)
        what = f"{len(lock.model.files)} files, {size / 1e9:.2f} GB"
        lines.append(f"  model {lock.model.id}@{lock.model.commit[:12]}: {what}")
    if not locked.is_new:
        lines.append("unchanged")
    elif locked.before is not None:
        lines += changes(locked.before, lock) or ["hashes or settings changed"]
    if locked.files:
        lines.append(f"{len(locked.files)} files in {locked.download}")
    return "\n".join(clean_line(line) for line in lines) + "\n"


def changes(before: Lock, after: Lock) -> list[str]:
    """Packages that came, went or moved; what a tag or revision led to before and now."""
    old = {package.name: package.version for package in before.packages}
    new = {package.name: package.version for package in after.packages}
    lines = [*_image_change(before, after), *_model_change(before, after)]
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            lines.append(f"  {name}: {old.get(name, 'not there')} -> {new.get(name, 'gone')}")
    return lines


def _image_change(before: Lock, after: Lock) -> list[str]:
    old, new = before.image, after.image
    if old == new or not (old and new):
        return []
    name, _, digest = old.partition("@")
    if (name, before.tag) == (new.partition("@")[0], after.tag):
        return [f"  {name}:{after.tag} was published anew: it was {digest}"]
    return [f"  {old} -> {new}"]


def _model_change(before: Lock, after: Lock) -> list[str]:
    old, new = before.model, after.model
    if old == new or old is None or new is None:
        return []
    if (old.id, old.wanted) == (new.id, new.wanted) and old.commit != new.commit:
        return [f"  {new.id} at {new.wanted or 'main'} has moved: it was {old.commit}"]
    return [f"  {old.id}@{old.commit[:12]} -> {new.id}@{new.commit[:12]}"]
