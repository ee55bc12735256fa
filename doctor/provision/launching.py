"""The engine's own command line, as the matrix has it for the locked version. Pure."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from doctor.errors import UsageError
from doctor.facts import Version
from doctor.matrix import Matrix
from doctor.matrix.containers import ContainerRun
from doctor.matrix.launching import Launch
from doctor.profile.lock import Lock
from doctor.profile.schema import Profile
from doctor.smoke.launch import LaunchPlan, Wanted, launch_row, plan_launch

KNOWN_ANSWER = "known-answer"
BRIDGE = "bridge"
_EVERYWHERE = "0.0.0.0"  # noqa: S104 - inside a network of its own


def launch_of(
    profile: Profile, lock: Lock, model: str, matrix: Matrix, environment: str = "/environment"
) -> LaunchPlan:
    """How its server is started: from an environment, or in its image.

    Raises UsageError or LaunchError with what this version of the engine does not take.
    """
    run = _run(profile, matrix) if lock.image else None
    version = Version.maybe(lock.version)
    wanted = Wanted(
        engine=profile.engine.name,
        model=model,
        version=version,
        args=_arguments(profile, launch_row(profile.engine.name, version, matrix)),
        python=run.python if run else f"{environment}/bin/python",
        bin="" if run else f"{environment}/bin",
    )
    launch = plan_launch(wanted, matrix)
    if launch.settings and not (run and launch.config):
        raise UsageError(
            f"{profile.engine.name} {lock.version} is set up by a file of its own, which apply "
            "writes for images of known versions alone",
            "start it by hand, then prove it: doctor smoke URL",
        )
    if profile.serving.api_key and not launch.row.key_env:
        why = launch.row.refused.get("api_key", "it takes no key")
        raise UsageError(f"api_key: {profile.engine.name}: {why}", "leave serving.api_key out")
    return _in_image(launch, run, model) if run else launch


def _run(profile: Profile, matrix: Matrix) -> ContainerRun:
    run = matrix.containers.run_of(profile.engine.name)
    if run is None:
        known = ", ".join(row.engine for row in matrix.containers.runs)
        raise UsageError(
            f"how {profile.engine.name} is started in an image is not known", f"known: {known}"
        )
    return run


def _in_image(launch: LaunchPlan, run: ContainerRun, model: str) -> LaunchPlan:
    """The same arguments after the command that images have."""
    words = run.command or tuple(w.removeprefix("{bin}/") for w in launch.row.command)
    places = {"{model}": model, "{python}": run.python}
    command = tuple(places.get(word, word) for word in words)
    argv = (*command, *launch.argv[len(launch.row.command) :])
    return replace(launch, argv=argv, env={**launch.env, **run.env})


def _arguments(profile: Profile, row: Launch) -> dict[str, Any]:
    """Where to listen, the model's name where the engine takes one, and what the profile says."""
    serving = profile.serving
    has_network = profile.install.method == "container" and profile.install.network == BRIDGE
    args: dict[str, Any] = {
        "host": _EVERYWHERE if has_network else serving.host,
        "port": serving.port,
    }
    usual = {"embedded": KNOWN_ANSWER, "hub": profile.model.id}.get(profile.model.source, "")
    if row.settings:
        # Names in such a file have no slash.
        usual = usual.rpartition("/")[2]
    takes_name = "served_model_name" in (*row.arguments, *row.settings)
    name = serving.name or (usual if takes_name else "")
    if name:
        args["served_model_name"] = name
    if row.settings:
        args.update(_listed_devices(profile, row, has_network))
    args.update({key: typed(value) for key, value in serving.args.items()})
    return args


def _listed_devices(profile: Profile, row: Launch, has_network: bool) -> dict[str, Any]:
    """What a file of settings says of devices and addresses. Raises UsageError.

    Inside a container devices count from 0, whichever they are outside.
    """
    count = len(profile.install.device_ids) or profile.accelerator.count
    wanted = profile.serving.args.get("tensor_parallel_size", str(count))
    if not count or wanted != str(count):
        raise UsageError(
            f"{row.engine}: tensor_parallel_size {wanted} needs as many devices, not {count}",
            "state accelerator.count, and leave serving.args.tensor_parallel_size out",
        )
    found = {"npu_device_ids": [list(range(count))], "tensor_parallel_size": count}
    return {**found, **({"listen_on_all": True} if has_network else {})}


def typed(text: str) -> Any:
    """An argument's value as engines mean it: a switch, a number, or a text."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if re.fullmatch(r"-?[0-9]{1,18}", text):
        return int(text)
    return text
