"""A stack or a profile as something an orchestrator runs: a Compose file, Kubernetes objects."""

from __future__ import annotations

from pathlib import Path

import msgspec

from doctor.errors import UsageError
from doctor.images.deployment import deployment_of
from doctor.matrix import load_matrix
from doctor.profile.lock import read_lock
from doctor.profile.read import parse_profile
from doctor.profile.schema import Model, Profile
from doctor.report import Style, compose, kubernetes
from doctor.report.emit import profile as profile_text
from doctor.stack.model import Resolution

_FORMS = {"compose": ("docker", compose.render), "k8s": ("kubernetes", kubernetes.render)}


def compose_file(found: Resolution, style: Style | None = None) -> str:
    """A Compose file of the best image offered; raises UsageError if none is."""
    return _of_stack(found, "compose")


def kubernetes_objects(found: Resolution, style: Style | None = None) -> str:
    """A Deployment and a Service of the best image offered; raises UsageError if none is."""
    return _of_stack(found, "k8s")


def of_profile(
    profile: Profile, lock: str, form: str, built: str = "", notes: tuple[str, ...] = ()
) -> str:
    """A profile in that form, its image by the digest of a lock file if one is named.

    `built` is an image of our own, for a profile that names none.
    """
    program, render = _FORMS[form]
    locked = read_lock(Path(lock)) if lock else None
    return render(deployment_of(profile, locked, load_matrix(), program, built), notes)


def _of_stack(found: Resolution, form: str) -> str:
    text = profile_text(found, kinds=("image",))
    notes = tuple(line[2:] for line in text.splitlines() if line.startswith("# "))
    named = str(dict(found.ask.args).get("model") or "")
    if not named:
        raise UsageError("a service needs a model", "--model Qwen/Qwen3-8B")
    source = "path" if named.startswith("/") else "hub"
    try:
        model = msgspec.convert({"source": source, "id": named}, Model)
    except msgspec.ValidationError:
        raise UsageError(
            f"--model {named[:120]!r} is no name of a model", "--model Qwen/Qwen3-8B"
        ) from None
    profile = parse_profile(text, "the stack")
    return of_profile(msgspec.structs.replace(profile, model=model), "", form, "", notes)
