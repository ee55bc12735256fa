"""By what means a goal is reached: where files lie here, and which programs are used there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from doctor.errors import DoctorError, UsageError
from doctor.facts import Facts
from doctor.profile.hub import COMPLETE
from doctor.profile.lock import Lock, LockedModel
from doctor.profile.locking import uv_program
from doctor.profile.managed_python import managed_python, minor_of, program_of
from doctor.provision.container_carried import carried_image
from doctor.provision.container_site import EngineThere
from doctor.provision.locks import pythons_of
from doctor.provision.runs import cache_folder
from doctor.provision.survey import State
from doctor.provision.target import LOCAL, Target
from doctor.provision.variables import Means

_USUAL_PYTHON = "/usr/bin/python3"


@dataclass(frozen=True)
class Scene:
    """What decides about means: the machine's facts and state, the way to it, its engine.

    `offline` is a folder with all files, "" to fetch them.
    """

    facts: Facts
    state: State
    target: Target
    offline: str
    there: EngineThere


def means_for(lock: Lock, scene: Scene) -> tuple[Means, list[str]]:
    """How a release is made there, and what is lacking for it."""
    facts, target, offline = scene.facts, scene.target, scene.offline
    lacking = []
    if lock.arch and lock.arch != facts.host.arch.value:
        lacking.append(f"the lock is for {lock.arch}, the machine is {facts.host.arch.value}")
    means, more = (_of_image if lock.image else _of_packages)(lock, scene)
    if lock.model is not None:
        folder = model_folder(lock.model, offline)
        is_there = (folder / COMPLETE).exists()
        is_local = target.kind == LOCAL
        means = msgspec.structs.replace(
            means, model_cache=str(folder), model_fetched=is_there, link_model=is_local
        )
        if offline and not is_there:
            more.append(f"the model is not in {folder}: doctor profile lock --download")
    return means, [*lacking, *more]


def model_folder(model: LockedModel, offline: str = "") -> Path:
    """Where a model of a hub is kept on this machine."""
    base = Path(offline).absolute() if offline else cache_folder()
    return base / "models" / f"{model.id.replace('/', '--')}-{model.commit[:12]}"


def wheels_folder(lock: Lock, offline: str) -> Path:
    """Where the packages are: beside the model in a folder that has both."""
    if not offline:
        return cache_folder() / "wheels" / lock.digest[:16]
    folder = Path(offline).absolute()
    return folder / "wheels" if lock.model is not None else folder


def _of_packages(lock: Lock, scene: Scene) -> tuple[Means, list[str]]:
    offline, target = scene.offline, scene.target
    python, name, lacking = _python(lock, scene)
    wheels = wheels_folder(lock, offline)
    means = Means(
        python=python,
        wheels=str(wheels),
        uv=uv_program() if target.kind == LOCAL else "",
        fetched=bool(offline) or (wheels / COMPLETE).exists(),
        copy_wheels=target.kind != LOCAL,
        python_name=name,
        python_archive=str(cache_folder() / "pythons" / f"{name}.tar.gz") if name else "",
    )
    return means, lacking


def _python(lock: Lock, scene: Scene) -> tuple[str, str, list[str]]:
    """The Python for an environment; the name of the one that uv must bring; what is lacking.

    That of the system comes first, then one that uv has brought before.
    """
    minor, pythons = lock.python or "", pythons_of(scene.facts)
    if minor in pythons:
        return pythons[minor], "", []
    folder = f"{scene.state.home}/pythons"
    brought = [name for name in scene.state.pythons if minor_of(name) == minor]
    if brought:
        return f"{folder}/{brought[-1]}/{program_of(brought[-1])}", "", []
    here = f"the lock is for Python {minor}; there: {', '.join(pythons) or 'none'}"
    if scene.offline:
        return "", "", [f"{here}. With --offline none is fetched: install it there"]
    try:
        name = managed_python(minor, lock.arch)
    except DoctorError as fault:
        return "", "", [f"{here}; {fault}"]
    return f"{folder}/{name}/{program_of(name)}", name, []


def _of_image(lock: Lock, scene: Scene) -> tuple[Means, list[str]]:
    """Any Python will do to watch the client of a container."""
    there, offline, pythons = scene.there, scene.offline, pythons_of(scene.facts)
    python = _USUAL_PYTHON
    if python not in pythons.values():
        python = next(iter(pythons.values()), "")
    lacking = [] if python else ["no Python was found there: install python3"]
    if there.lacking:
        lacking.append(there.lacking)
    archive = ""
    if offline:
        try:
            archive = str(carried_image(lock, offline).path)
        except UsageError as fault:
            # What came there from a file before is still there.
            lacking += [] if there.image else [f"{fault} ({fault.hint})"]
    means = Means(
        python=python,
        wheels="",
        fetched=True,
        engine_packages=there.packages,
        engine_service=there.service,
        engine_tried=there.is_tried,
        image_archive=archive,
        copy_image=scene.target.kind != LOCAL,
    )
    return means, lacking
