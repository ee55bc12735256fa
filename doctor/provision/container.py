"""A container around an engine: the words that run it, and what `inspect` must then say. Pure.

The client stays in the foreground, so that it is one process to systemd or the watcher as
any other engine is; signals reach the engine through it. The engine runs without rights, on
files that it cannot change. Secrets are named and not given: the client takes them from its
own environment. Options: docs.docker.com/reference/cli/docker/container/run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from doctor.errors import UsageError
from doctor.matrix import Matrix
from doctor.matrix.containers import ContainerRun, DeviceAccess
from doctor.profile.schema import Profile
from doctor.provision.goal import Container, digest_of
from doctor.provision.launching import BRIDGE
from doctor.smoke.launch import LaunchPlan

MODEL, WORK, LIBRARY = "/model", "/work", "/doctor/lib"
CONFIG = "/doctor/config.json"
# An account that no distribution gives away, where doctor itself is root.
UNPRIVILEGED = 10001
# Below it wait the parts of CUDA that are compiled at first use, so programs may run there.
_TMP = "/tmp:rw,exec,nosuid,nodev,mode=1777"  # noqa: S108 - inside the container


@dataclass(frozen=True)
class Setting:
    """Where it runs: words of the client, the service's folder and number, what is mounted.

    `model` is the path on the machine, `named` the image by its tag, `modules` a folder for
    Python or "", `config` the engine's own file of settings or "", `secret` the variable that
    holds the API key or "". `is_rootless` if the container engine has no more rights than the
    caller; `runtimes` are its own, `groups` the groups of paths that are there, None if unknown.
    """

    client: tuple[str, ...]
    home: str
    uid: int
    image: str
    model: str
    named: str = ""
    modules: str = ""
    config: str = ""
    secret: str = ""
    is_rootless: bool = False
    runtimes: tuple[str, ...] = ()
    groups: Mapping[str, int] | None = None

    @property
    def user(self) -> str:
        """Number and group that the engine runs as: the caller's own, never root's.

        Root in the container of a rootless engine is the caller.
        """
        if self.is_rootless:
            return "0:0"
        return f"{self.uid or UNPRIVILEGED}:{self.uid or UNPRIVILEGED}"

    @property
    def name(self) -> str:
        """The container's name: that of the service, whose folder tells it from another user's."""
        return f"doctor-{PurePosixPath(self.home).name}-{digest_of(self.home)[:8]}"


def model_inside(path: str) -> str:
    """Where a model lies in the container."""
    return f"{MODEL}/{PurePosixPath(path).name}"


def user_of(profile: Profile, setting: Setting, run: ContainerRun) -> str:
    """Whom the engine runs as in it: as the profile says, as it must, else without rights."""
    stated = profile.install.user or run.user
    return (stated if ":" in stated else f"{stated}:{stated}") if stated else setting.user


def container_of(
    profile: Profile, launch: LaunchPlan, setting: Setting, matrix: Matrix
) -> tuple[Container, tuple[str, ...]]:
    """The container, and the whole command line. Raises UsageError."""
    run = matrix.containers.run_of(profile.engine.name)
    if run is None:
        raise UsageError(
            f"how {profile.engine.name} runs in an image is not known", "use install.method: venv"
        )
    made = _Box(profile, launch, setting, run, _access(profile, setting, matrix))
    words = (*setting.client, "run", *made.options(), setting.image, *made.command)
    says = made.inspected()
    vendor = profile.accelerator.vendor
    box = Container(setting.client, setting.name, setting.image, says, setting.named, vendor)
    return box, words


def _access(profile: Profile, setting: Setting, matrix: Matrix) -> DeviceAccess:
    program = PurePosixPath(setting.client[0]).name
    vendor = profile.accelerator.vendor
    access = matrix.containers.access_of(vendor, program, setting.runtimes)
    if access is None:
        raise UsageError(
            f"how {program} shows {vendor} devices to a container is not known",
            "choose a profile with install.method venv",
        )
    return access


class _Box:
    """One container as options and as facts; both come from the same values."""

    def __init__(
        self,
        profile: Profile,
        launch: LaunchPlan,
        setting: Setting,
        run: ContainerRun,
        access: DeviceAccess,
    ) -> None:
        self._profile = profile
        self._launch = launch
        self._setting = setting
        self._access = access
        install = profile.install
        self._keeps = run.keeps_entrypoint
        self._init = run.init
        self._group = (setting.groups or {}).get(access.group_of)
        self._read_only = run.read_only if install.read_only is None else install.read_only
        self._shm = int((install.shm_gib or run.shm_gib) * (1 << 30))
        self._user = user_of(profile, setting, run)
        self._mounts = tuple(self._mounted())
        self.command = launch.argv if self._keeps else launch.argv[1:]

    def options(self) -> Iterator[str]:
        """All words between `run` and the image."""
        yield from ("--rm", "--pull", "never", "--name", self._setting.name)
        # What it prints goes to the client, and so to the journal or the log; once is enough.
        yield from ("--log-driver", "none")
        yield from ("--stop-signal", self._launch.row.stop_signal)
        yield from ("--stop-timeout", str(self._profile.service.stop_s))
        yield from ("--user", self._user, "--workdir", WORK)
        yield from () if self._group is None else ("--group-add", str(self._group))
        yield from ("--init",) if self._init else ()
        yield from ("--cap-drop", "ALL", "--security-opt", "no-new-privileges")
        yield from ("--read-only",) if self._read_only else ()
        yield from ("--tmpfs", _TMP, "--shm-size", str(self._shm))
        yield from self._limits()
        yield from self._network()
        yield from _devices(self._access, self._profile)
        for source, target, writable in self._mounts:
            end = "" if writable else ",readonly"
            yield from ("--mount", f"type=bind,source={source},target={target}{end}")
        yield from self._environment()
        if not self._keeps:
            yield from ("--entrypoint", self._launch.argv[0])

    def _limits(self) -> Iterator[str]:
        files = self._profile.service.open_files
        yield from ("--ulimit", f"nofile={files}:{files}")

    def _network(self) -> Iterator[str]:
        serving = self._profile.serving
        if self._profile.install.network != BRIDGE:
            yield from ("--network", "host")
        else:
            host = f"[{serving.host}]" if ":" in serving.host else serving.host
            yield from ("--publish", f"{host}:{serving.port}:{serving.port}")

    def _environment(self) -> Iterator[str]:
        env = {"HOME": WORK, "USER": "doctor", "LOGNAME": "doctor", **self._launch.env}
        if self._setting.modules:
            env["PYTHONPATH"] = LIBRARY
        if self._setting.config:
            env[self._launch.row.config_env] = CONFIG
        for name, value in {**env, **self._profile.serving.env}.items():
            yield from ("--env", f"{name}={value}")
        if self._setting.secret:
            yield from ("--env", self._setting.secret)

    def _mounted(self) -> Iterator[tuple[str, str, bool]]:
        setting = self._setting
        yield setting.model, model_inside(setting.model), False
        yield f"{setting.home}/work", WORK, True
        if setting.modules:
            yield setting.modules, LIBRARY, False
        if setting.config:
            yield setting.config, CONFIG, False
        there = setting.groups
        for path in self._access.mounts:
            # A mount of what is not there ends the container before it begins.
            if there is None or path in there:
                yield path, path, False

    def inspected(self) -> dict[str, Any]:
        """What `inspect` must say: keys as the probe of the state has them."""
        serving = self._profile.serving
        is_host = self._profile.install.network != BRIDGE
        port = {"HostIp": serving.host, "HostPort": str(serving.port)}
        return {
            "image": self._setting.image,
            "command": list(self.command),
            "user": self._user,
            **({} if self._group is None else {"groups": [str(self._group)]}),
            "read_only": self._read_only,
            "privileged": False,
            "dropped": ["ALL"],
            "network": "host" if is_host else BRIDGE,
            "ports": {} if is_host else {f"{serving.port}/tcp": [port]},
            "mounts": sorted([s, t, not writable] for s, t, writable in self._mounts),
            "shm": self._shm,
            "restart": "no",
            "memory": 0,
            "cpus": 0,
        }


def _devices(access: DeviceAccess, profile: Profile) -> Iterator[str]:
    """The words that show it its devices. Raises UsageError for what cannot be said."""
    yield from access.options
    ids, count = profile.install.device_ids, profile.accelerator.count
    if access.runtime and not ids:
        ids = tuple(map(str, range(count)))
    if ids and access.chosen:
        yield from (word.replace("{ids}", ",".join(ids)) for word in access.chosen)
    elif access.each and (ids or count):
        for one in ids or map(str, range(count)):
            yield from (word.replace("{id}", one) for word in access.each)
    elif ids:
        raise UsageError(
            f"install.device_ids: {access.vendor} devices cannot be chosen one by one",
            "leave it out",
        )
    elif count and access.counted:
        yield from (word.replace("{count}", str(count)) for word in access.counted)
    elif access.each and not access.every:
        raise UsageError("accelerator.count is missing: devices are named one by one", "state it")
    else:
        yield from access.every
