"""What must lie on a machine before its service can be put on it: the first steps of a plan.

Pure, as the plan is.
"""

from __future__ import annotations

from doctor.provision.goal import Goal
from doctor.provision.step import NONE, Step
from doctor.provision.survey import State
from doctor.provision.variables import (
    Means,
    engine_variables,
    image_variables,
    model_variables,
    python_variables,
    release_variables,
)


def library_steps(means: Means) -> list[Step]:
    """Libraries of the system that the engine needs."""
    if not means.libraries:
        return []
    names = ", ".join(means.libraries)
    return [
        Step(
            name="install_libraries",
            role="python_env",
            title=f"install {names} from the distribution",
            reason="the engine needs libraries of the system that are not there",
            risk="small: nothing that is installed is removed or replaced by another",
            undo=NONE,
            variables={"python_env_packages": list(means.libraries)},
        )
    ]


def python_steps(goal: Goal, means: Means) -> list[Step]:
    """A Python that uv manages, in the service's own folder, where the system has none."""
    if not means.python_name:
        return []
    return [
        Step(
            name="fetch_python",
            role="",
            title=f"fetch {means.python_name} by uv into {means.python_archive}",
            reason="the system has no Python of that version",
        ),
        Step(
            name="install_python",
            role="python_env",
            title=f"unpack it into {goal.home}/pythons",
            reason="the environment is made from it",
            variables=python_variables(goal, means),
        ),
    ]


def container_engine_steps(goal: Goal, means: Means) -> list[Step]:
    """A container engine, where none is."""
    if goal.container is None or not means.engine_packages:
        return []
    names = ", ".join(means.engine_packages)
    untried = "" if means.engine_tried else "; no test of this project has tried it there"
    return [
        Step(
            name="install_container_engine",
            role="container_engine",
            title=f"install {names} from the distribution",
            reason="no container engine is there",
            risk=f"it adds a bridge and rules of its own to the network{untried}",
            undo=NONE,
            variables=engine_variables(goal, means),
        )
    ]


def image_steps(goal: Goal, state: State, means: Means) -> list[Step]:
    """The image in the container engine, and a release folder that speaks of it."""
    release = goal.release
    if release is None:
        return []
    damaged = state.damage if state.current == release.name else ()
    if release.name in state.releases and not damaged and not state.image:
        return []
    reason = damaged[0] if damaged else state.image[0] if state.image else "it was not applied yet"
    source = f" from {means.image_archive}" if means.image_archive else ""
    check = Step(
        name="check_image",
        role="",
        title=f"hold every byte of {means.image_archive} against the digest of the lock",
        reason="it was carried, and nothing else vouches for it",
    )
    return [
        *([check] if means.image_archive and state.image else []),
        Step(
            name="make_release",
            role="engine_container",
            title=f"have {release.image} on the machine{source}, by its digest",
            reason=reason,
            risk="none for what runs now: nothing that is there is replaced",
            variables=image_variables(goal, means, rebuild=bool(damaged)),
        ),
    ]


def release_steps(goal: Goal, state: State, means: Means) -> list[Step]:
    """The environment: its files fetched, then installed."""
    release = goal.release
    if release is None:
        return []
    whole = release.name in state.releases
    damaged = state.damage if state.current == release.name else ()
    if whole and not damaged:
        return []
    count = release.requirements.count("==")
    noun = "package" if count == 1 else "packages"
    fetch = Step(
        name="fetch_packages",
        role="",
        title=f"fetch {count} locked {noun} into {means.wheels}",
        reason="they are not on this machine",
    )
    reason = f"its files differ: {damaged[0]}" if damaged else "this release is not there"
    return [
        *([] if means.fetched else [fetch]),
        Step(
            name="make_release",
            role="engine_venv",
            title=f"install {count} locked {noun} into releases/{release.name}",
            reason=reason,
            risk="the engine stops while its files are replaced" if damaged else
            "none for what runs now: a new folder",
            downtime="while the release is made again" if damaged else "",
            variables=release_variables(goal, means, rebuild=bool(damaged)),
        )
    ]  # fmt: skip


def model_steps(goal: Goal, state: State, means: Means) -> list[Step]:
    """The model's files: fetched if they come from a hub, then laid there."""
    if goal.model is None or not goal.model.source:
        return []
    faults = state.models.get(goal.model.path, ("not looked at",))
    if not faults:
        return []
    is_here = means.model_fetched and means.model_cache == goal.model.source
    fetch = Step(
        name="fetch_model",
        role="",
        title=f"fetch the model into {goal.model.source}",
        reason="it is not whole on this machine",
    )
    return [
        *([fetch] if goal.model.hub and not is_here else []),
        Step(
            name="place_model",
            role="model",
            title=f"copy the model to {goal.model.path}",
            reason=faults[0],
            variables=model_variables(goal.model, means),
        ),
    ]
