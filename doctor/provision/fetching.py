"""Steps that fetch: onto this machine, from where the lock says, checked by hash."""

from __future__ import annotations

from pathlib import Path

from doctor.errors import ProvisionError
from doctor.profile.hub import COMPLETE, fetch_model
from doctor.profile.image_file import read_image_file
from doctor.profile.lock import LockedModel, parse_lock
from doctor.profile.locking import Wanted, download
from doctor.profile.managed_python import pack_python
from doctor.provision.goal import Goal
from doctor.provision.locks import hub_for
from doctor.provision.playbook import Listener, TaskEvent
from doctor.provision.variables import Means


def fetch(step: str, goal: Goal, means: Means, listen: Listener) -> None:
    """Carry out a step that has no role. Raises DoctorError."""
    if step == "fetch_model":
        _fetch_model(goal, listen)
    elif step == "fetch_python":
        pack_python(means.python_name, Path(means.python_archive))
    elif step == "check_image":
        _check_image(goal, Path(means.image_archive))
    else:
        _fetch_packages(goal, Path(means.wheels))


def _fetch_packages(goal: Goal, folder: Path) -> None:
    """The locked files of a release; the folder is marked when all are there."""
    release = goal.release
    if release is None:
        return
    wanted = Wanted((), release.python, release.platform, release.index)
    download(release.requirements, wanted, folder)
    (folder / COMPLETE).touch()


def _check_image(goal: Goal, path: Path) -> None:
    """Raises UsageError for a file that is not the image of the release."""
    if goal.release is not None:
        read_image_file(path, goal.release.image, deep=True)


def _fetch_model(goal: Goal, listen: Listener) -> None:
    model = goal.model
    if model is None:
        return
    shown = ""

    def tell(name: str, done: int, size: int) -> None:
        nonlocal shown
        words = f"{name}: {100 * done // size if size else 100} %"
        if words != shown:
            shown = words
            listen(TaskEvent("start", "", words))

    folder = Path(model.source)
    folder.mkdir(parents=True, exist_ok=True)
    fetch_model(hub_for(model.token), locked_model(goal), folder, tell)


def locked_model(goal: Goal) -> LockedModel:
    """The model of a hub that a release was locked with. Raises ProvisionError."""
    files = goal.release.files if goal.release else ()
    text = next((file.text for file in files if file.path == "stack.lock"), "")
    model = parse_lock(text).model if text else None
    if model is None:
        raise ProvisionError(f"{goal.profile}: its lock names no model", "lock the profile again")
    return model
