"""A profile as something an orchestrator runs: one container, its devices, limits and health. Pure.

The same matrix rows say how the engine is started as when doctor runs it itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from doctor.errors import UsageError
from doctor.matrix import Matrix
from doctor.matrix.containers import ContainerRun, DeviceAccess
from doctor.profile.lock import SCHEMA, Lock
from doctor.profile.schema import Profile
from doctor.provision.container import UNPRIVILEGED, WORK, model_inside
from doctor.provision.image_lock import engine_version
from doctor.provision.launching import launch_of
from doctor.smoke.launch import LaunchPlan

_TOKEN = "HF_TOKEN"  # noqa: S105 - the name of a variable
_CACHE = "HF_HOME"


@dataclass(frozen=True)
class Deployment:
    """One engine in a container. `argv` is its whole command line.

    `is_pinned` tells whether `image` names a digest. `model` is a path on the machine, ""
    for one that the engine fetches into `WORK`. `secrets` are variables by the key of a
    secret. Sizes are in bytes, times in seconds.
    """

    name: str
    image: str
    argv: tuple[str, ...]
    keeps_entrypoint: bool
    port: int
    host: str
    health: str
    probe: tuple[str, ...]
    vendor: str
    devices: int
    access: DeviceAccess
    shm_bytes: int
    user: int
    read_only: bool
    start_s: int
    stop_s: int
    stop_signal: str
    open_files: int
    model: str = ""
    env: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)

    @property
    def is_pinned(self) -> bool:
        """True if nobody can publish something else under the image's name."""
        return "@sha256:" in self.image

    @property
    def model_inside(self) -> str:
        """Where the model lies in the container."""
        return model_inside(self.model)


def deployment_of(
    stated: Profile, lock: Lock | None, matrix: Matrix, program: str, built: str = ""
) -> Deployment:
    """What `program` (docker, kubernetes) is to run.

    `built` is an image of `doctor image build` for a profile that is installed into an
    environment. Raises UsageError for a profile without an image or a model, and for devices
    that nothing is known to show to a container.
    """
    profile = _in_a_container(stated, built)
    locked = _locked(profile, None if built else lock, matrix)
    launch = launch_of(profile, locked, _model(profile), matrix)
    if launch.settings:
        raise UsageError(
            f"{profile.engine.name} is set up by a file of its own, which is not written out here",
            f"doctor apply {profile.name}",
        )
    run, access = _rows(profile, matrix, program)
    read_only = profile.install.read_only
    return Deployment(
        name=profile.name,
        image=locked.image,
        argv=_arguments(launch, _model(profile)) if built else launch.argv,
        keeps_entrypoint=bool(built) or run.keeps_entrypoint,
        port=profile.serving.port,
        host=profile.serving.host,
        health=launch.row.health,
        probe=_probe(run, f"http://127.0.0.1:{profile.serving.port}{launch.row.health}"),
        vendor=profile.accelerator.vendor,
        devices=profile.accelerator.count,
        access=access,
        shm_bytes=int((profile.install.shm_gib or run.shm_gib) * (1 << 30)),
        user=int((profile.install.user or run.user).partition(":")[0] or UNPRIVILEGED),
        read_only=run.read_only if read_only is None else read_only,
        start_s=profile.service.start_s,
        stop_s=profile.service.stop_s,
        stop_signal=launch.row.stop_signal,
        open_files=profile.service.open_files,
        model=profile.model.id if profile.model.source == "path" else "",
        env=_environment(profile, launch),
        secrets=_secrets(profile, launch.row.key_env),
    )


def _rows(profile: Profile, matrix: Matrix, program: str) -> tuple[ContainerRun, DeviceAccess]:
    """How the engine runs in its image, and what shows it the devices."""
    run = matrix.containers.run_of(profile.engine.name)
    access = matrix.containers.access_of(profile.accelerator.vendor, program)
    if run is None or access is None:
        vendor = profile.accelerator.vendor
        raise UsageError(
            f"how {program} shows {vendor} devices to a container is not known",
            "name another accelerator.vendor, or write the file by hand",
        )
    return run, access


def _probe(run: ContainerRun, url: str) -> tuple[str, ...]:
    """A command inside the image that fails while the engine is not ready."""
    python = f"import urllib.request as r; r.urlopen({url!r}, timeout=4)"
    return tuple(word.format(url=url) for word in run.probe) or (run.python, "-c", python)


def _environment(profile: Profile, launch: LaunchPlan) -> dict[str, str]:
    """The engine's variables; where it fetches its model itself, it is not told to stay offline."""
    offline = launch.row.offline_env if profile.model.source == "hub" else {}
    own = {name: value for name, value in launch.env.items() if name not in offline}
    return {"HOME": WORK, _CACHE: f"{WORK}/huggingface", **own, **profile.serving.env}


def _arguments(launch: LaunchPlan, model: str) -> tuple[str, ...]:
    """What follows the program, which is the entry point of images of our own."""
    argv = launch.argv
    first = next((i for i, w in enumerate(argv) if w == model or w[:2] == "--"), len(argv))
    return argv[first:]


def _in_a_container(profile: Profile, built: str) -> Profile:
    """The profile as it is in a container with a network of its own."""
    install = profile.install
    if install.method != "container" and not built:
        raise UsageError(
            f"{profile.name} is installed into an environment, not from an image",
            "--image NAME@sha256:... of one that `doctor image build` made",
        )
    image = built or install.image
    install = msgspec.structs.replace(install, method="container", image=image, network="bridge")
    return msgspec.structs.replace(profile, install=install)


def _locked(profile: Profile, lock: Lock | None, matrix: Matrix) -> Lock:
    """The lock, else what the profile's own words say of its image."""
    if lock is not None:
        if lock.profile != profile.name or not lock.image:
            raise UsageError(
                f"the lock is of {lock.profile}, and holds {lock.image or 'no image'}",
                f"doctor profile lock {profile.name}",
            )
        return lock
    version = engine_version(profile, matrix)
    return Lock(
        schema=SCHEMA,
        profile=profile.name,
        engine=profile.engine.name,
        version=str(version or ""),
        image=profile.install.image,
    )


def _model(profile: Profile) -> str:
    model = profile.model
    if model.source == "embedded":
        raise UsageError(
            f"{profile.name} serves the known-answer model, which only proves an engine",
            "name a model in the profile: model.source hub or path",
        )
    return model_inside(model.id) if model.source == "path" else model.id


def _secrets(profile: Profile, key_variable: str) -> dict[str, str]:
    found = {}
    if profile.serving.api_key and key_variable:
        found[key_variable] = "api-key"
    if profile.model.token:
        found[_TOKEN] = "hub-token"
    return found
