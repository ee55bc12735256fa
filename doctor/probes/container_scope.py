"""A container that an engine runs in, seen through the root of the engine's process."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from doctor.facts import ImageRef, Missing, Reading, Scope, Version, missing, seen
from doctor.probes import scopes, system
from doctor.probes.engine_names import distributions_of
from doctor.probes.files import relay
from doctor.probes.host import Host
from doctor.probes.processes import EngineProcess
from doctor.probes.rooted import RootedHost

# Nodes through which an accelerator is used; nvidiactl and the like alone are none.
_DEVICE = re.compile(r"nvidia\d+|davinci\d+|kfd|dxg|accel\d+")
# ... and all that are handed over with them, such as managers and controllers.
_GIVEN = re.compile(r"nvidia|davinci|devmm_svm|hisi_hdc|kfd|dxg|accel|cambricon")
_ALWAYS = ("/proc", "/sys", "/dev")
_MOST = 500


def read(host: Host, process: EngineProcess, env: Reading[dict[str, str]], name: str) -> Scope:
    """The container as a scope: the environment that its engine lives in, devices, memory."""
    root = f"/proc/{process.pid}/root"
    box = Scope(id=name, kind="container", parent="host", env=env, image=_image(env))
    inside = RootedHost(root, host, env.value)
    top = host.list_dir(f"{root}/")
    if top.value is None:
        reason = relay(top, root)
        return replace(box, packages=reason, torch=reason, python=reason, devices_visible=reason)
    shm = host.disk(f"{root}/dev/shm")  # noqa: S108 - asked about, not written to
    libc = system.read_libc(inside).value
    return replace(
        _with_environment(box, inside, process),
        devices_visible=_devices(inside),
        mounts=_mounts(host, process.pid, inside),
        shm_mib=seen(shm.value.total_mib, shm.at) if shm.value else relay(shm),
        libc=seen(libc.version, root) if libc and libc.version else missing(Missing.NOT_READABLE),
    )


def _with_environment(box: Scope, inside: RootedHost, process: EngineProcess) -> Scope:
    """What the Python environment of the engine holds; others of the image do not count."""
    found = scopes.read(inside, _pythons(inside, process))
    names = distributions_of(process.engine)
    mine = next((s for s in found if s.package(*names)), found[0] if found else None)
    if mine is None:
        return replace(box, packages=missing(Missing.NOT_THERE, "search in the container"))
    return replace(
        box,
        root=mine.root,
        python=mine.python,
        packages=mine.packages,
        torch=mine.torch,
        absent=mine.absent,
    )


def _pythons(inside: RootedHost, process: EngineProcess) -> Iterator[str]:
    """The interpreter of the command line; a plain name is looked for as the engine did."""
    program = process.argv[0]
    if program.startswith("/"):
        yield program
    else:
        folders = inside.environ().get("PATH", "").split(":")
        paths = (f"{folder}/{program}" for folder in folders if folder.startswith("/"))
        yield from (path for path in paths if inside.real_path(path).is_known)


def _devices(inside: RootedHost) -> Reading[tuple[str, ...]]:
    names = inside.list_dir("/dev")
    if names.value is None:
        return relay(names)
    return seen(tuple(f"/dev/{name}" for name in names.value if _DEVICE.fullmatch(name)), "/dev")


def _mounts(host: Host, pid: int, inside: RootedHost) -> Reading[tuple[str, ...]]:
    """Where something is mounted in the container, and the device nodes that it was given."""
    text = host.read_text(f"/proc/{pid}/mountinfo", 1 << 20)
    if text.value is None:
        return relay(text)
    nodes = (f"/dev/{name}" for name in inside.list_dir("/dev").value or () if _GIVEN.match(name))
    return seen((*parse_mountinfo(text.value), *nodes), text.at)


def parse_mountinfo(text: str) -> tuple[str, ...]:
    """Mount points of /proc/PID/mountinfo, but for those that every container has."""
    points = [line.split(" ", 5)[4] for line in text.splitlines() if line.count(" ") > 5]
    return tuple(p for p in dict.fromkeys(points) if p != "/" and not p.startswith(_ALWAYS))[:_MOST]


def _image(env: Reading[dict[str, str]]) -> ImageRef:
    """What NVIDIA's images state of themselves in their environment."""
    if env.value is None:
        return ImageRef(require_cuda=relay(env), cuda=relay(env))
    require, cuda = env.value.get("NVIDIA_REQUIRE_CUDA"), env.value.get("CUDA_VERSION")
    version, absent = Version.maybe(cuda), missing(Missing.NOT_THERE, env.at)
    return ImageRef(
        require_cuda=seen(require, env.at) if require else absent,
        cuda=seen(version, env.at) if version else absent,
    )
