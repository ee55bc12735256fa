"""What each role is told, from a goal. A test holds it against the roles' argument specs."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from doctor.provision.goal import Goal, ManagedFile, Model, goal_text


class Means(Struct, frozen=True):
    """How an environment is made there: `python` runs it, `uv` installs ("": pip does).

    `wheels` is a folder on this machine for all files, `fetched` if they are in it already,
    `copy_wheels` if they must be carried to the machine. `libraries` are packages of the
    distribution to install first, `engine_packages` those of a container engine, whose unit
    is `engine_service`; `engine_tried` if a test has installed it so. `python_name` is a
    Python of uv's that is missing there, to be packed into `python_archive` first.
    `image_archive` is a file on this machine with the image, "" to fetch it, `copy_image` if
    it must be carried to the machine.
    `model_cache` is a folder on this machine for a model of a hub, `model_fetched` if it is
    whole; with `link_model` the service's files may be the same.
    """

    python: str
    wheels: str
    uv: str = ""
    fetched: bool = False
    copy_wheels: bool = False
    libraries: tuple[str, ...] = ()
    engine_packages: tuple[str, ...] = ()
    engine_service: str = ""
    engine_tried: bool = True
    python_name: str = ""
    python_archive: str = ""
    image_archive: str = ""
    copy_image: bool = False
    model_cache: str = ""
    model_fetched: bool = False
    link_model: bool = False


def release_variables(goal: Goal, means: Means, rebuild: bool = False) -> dict[str, Any]:
    """What the role engine_venv is told."""
    release = goal.release
    if release is None:
        return {}
    return {
        "engine_venv_path": goal.release_path,
        "engine_venv_python": means.python,
        "engine_venv_uv": means.uv,
        "engine_venv_requirements": release.requirements,
        "engine_venv_wheels": means.wheels,
        "engine_venv_copy_wheels": means.copy_wheels,
        "engine_venv_files": [msgspec.to_builtins(file) for file in release.files],
        "engine_venv_rebuild": rebuild,
    }


def image_variables(goal: Goal, means: Means, rebuild: bool = False) -> dict[str, Any]:
    """What the role engine_container is told."""
    if goal.release is None or goal.container is None:
        return {}
    return {
        "engine_container_path": goal.release_path,
        "engine_container_python": means.python,
        "engine_container_client": list(goal.container.client),
        "engine_container_image": goal.container.image,
        "engine_container_archive": means.image_archive,
        "engine_container_copy": means.copy_image,
        "engine_container_files": [msgspec.to_builtins(file) for file in goal.release.files],
        "engine_container_rebuild": rebuild,
    }


def engine_variables(goal: Goal, means: Means) -> dict[str, Any]:
    """What the role container_engine is told."""
    return {
        "container_engine_packages": list(means.engine_packages),
        "container_engine_service": means.engine_service,
        "container_engine_client": list(goal.container.client) if goal.container else [],
    }


def python_variables(goal: Goal, means: Means) -> dict[str, Any]:
    """What the role python_env is told of a Python of uv's."""
    return {
        "python_env_archive": means.python_archive,
        "python_env_folder": f"{goal.home}/pythons",
        "python_env_name": means.python_name,
        "python_env_program": means.python,
    }


def model_variables(model: Model, means: Means) -> dict[str, Any]:
    """What the role model is told."""
    return {
        "model_link": means.link_model,
        "model_path": model.path,
        "model_source": model.source,
        "model_files": [
            {"name": name, "sha256": record.sha256} for name, record in sorted(model.files.items())
        ],
    }


def applied_file(goal: Goal) -> ManagedFile:
    """The file on the machine that says what was applied; private, as goals hold much."""
    return ManagedFile(f"{goal.home}/applied.json", goal_text(goal), 0o600)


def service_variables(
    goal: Goal, state: str, means: Means, extra: list[str], again: bool = False
) -> dict[str, Any]:
    """What the role service is told; `state` is present or absent, `extra` files must go.

    With `again` the engine is started anew though it runs just so. The note of what is
    applied comes first: with it every other file can be found again.
    """
    files = () if goal.is_nothing else (applied_file(goal), *goal.files)
    return {
        "service_state": state,
        "service_home": goal.home,
        "service_python": means.python,
        "service_scope": goal.scope,
        "service_supervisor": goal.supervisor,
        "service_unit": goal.unit,
        "service_account": goal.account,
        "service_owner": goal.owner,
        "service_again": again,
        "service_release": goal.release.name if goal.release else "",
        "service_files": [msgspec.to_builtins(file) for file in files],
        "service_remove": extra,
    }


def verify_variables(goal: Goal, means: Means) -> dict[str, Any]:
    """What the role verify is told."""
    return {
        "verify_home": goal.home,
        "verify_python": means.python,
        "verify_release": goal.release.name if goal.release else "",
        "verify_scope": goal.scope,
        "verify_supervisor": goal.supervisor,
        "verify_unit": goal.unit,
        "verify_container": goal.container is not None,
        "verify_url": goal.url + goal.health,
        "verify_start_s": goal.start_s,
    }
