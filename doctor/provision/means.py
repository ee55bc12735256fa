"""By what means a goal is reached: where files lie here, and which programs are used there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from doctor.facts import Facts
from doctor.profile.hub import COMPLETE
from doctor.profile.lock import Lock, LockedModel
from doctor.profile.locking import uv_program
from doctor.provision.container_site import EngineThere
from doctor.provision.locks import pythons_of
from doctor.provision.runs import cache_folder
from doctor.provision.target import LOCAL, Target
from doctor.provision.variables import Means

_USUAL_PYTHON = "/usr/bin/python3"


def means_for(
    lock: Lock, facts: Facts, target: Target, offline: str, there: EngineThere
) -> tuple[Means, list[str]]:
    """How a release is made there, and what is lacking for it."""
    lacking = []
    if lock.arch and lock.arch != facts.host.arch.value:
        lacking.append(f"the lock is for {lock.arch}, the machine is {facts.host.arch.value}")
    pythons = pythons_of(facts)
    if lock.image:
        means, more = _of_image(pythons, there, offline)
    else:
        means, more = _of_packages(lock, pythons, target, offline)
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


def _of_packages(
    lock: Lock, pythons: Mapping[str, str], target: Target, offline: str
) -> tuple[Means, list[str]]:
    python, lacking = pythons.get(lock.python or "", ""), []
    if not python:
        found = ", ".join(pythons) or "none"
        lacking.append(f"the lock is for Python {lock.python}; there: {found}")
    wheels = wheels_folder(lock, offline)
    means = Means(
        python=python,
        wheels=str(wheels),
        uv=uv_program() if target.kind == LOCAL else "",
        fetched=bool(offline) or (wheels / COMPLETE).exists(),
        copy_wheels=target.kind != LOCAL,
    )
    return means, lacking


def _of_image(
    pythons: Mapping[str, str], there: EngineThere, offline: str
) -> tuple[Means, list[str]]:
    """Any Python will do to watch the client of a container."""
    python = _USUAL_PYTHON
    if python not in pythons.values():
        python = next(iter(pythons.values()), "")
    lacking = [] if python else ["no Python was found there: install python3"]
    if there.lacking:
        lacking.append(there.lacking)
    if offline:
        lacking.append("images are not carried: leave --offline out, or load the image there first")
    means = Means(
        python=python,
        wheels="",
        fetched=True,
        engine_packages=there.packages,
        engine_service=there.service,
    )
    return means, lacking
