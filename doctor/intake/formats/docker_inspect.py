"""`docker inspect` of a container or an image: a scope with its image, memory and devices."""

from __future__ import annotations

import json
from typing import Any

from doctor.facts import UNSTATED, Facts, ImageRef, Reading, Scope, Version, Workload, seen
from doctor.intake.environment import SCOPE
from doctor.intake.workload import launched, launched_by_image
from doctor.probes.environment import allowed
from doctor.probes.tool_text import LIMIT, reading

AT = "docker inspect"


def looks_like(text: str) -> bool:
    """Tell by keys that an inspected object has."""
    container = '"HostConfig"' in text and '"Config"' in text
    return container or ('"RepoTags"' in text and '"RootFS"' in text)


def parse(text: str) -> Facts:
    """The first object: a container is a scope with what it was started with."""
    start, end = text.find("["), text.rfind("]")
    try:
        rows = json.loads(text[start : min(end, start + 2 * LIMIT) + 1])
    except (ValueError, RecursionError):
        return Facts()
    row = rows[0] if isinstance(rows, list) and rows else None
    if not isinstance(row, dict):
        return Facts()
    scope = _scope(row)
    workload = _workload(row)
    return Facts(scopes=(scope,), workloads=(workload,) if workload else ())


def _table(row: dict[str, Any], key: str) -> dict[str, Any]:
    value = row.get(key)
    return value if isinstance(value, dict) else {}


def _words(value: Any) -> list[str]:
    return [str(item) for item in value[:1000]] if isinstance(value, list) else []


def _scope(row: dict[str, Any]) -> Scope:
    config, host = _table(row, "Config"), _table(row, "HostConfig")
    pairs = (entry.partition("=") for entry in _words(config.get("Env")))
    env = {name: value for name, _, value in pairs}
    size, runtime = host.get("ShmSize"), host.get("Runtime")
    mounts = [m.get("Destination") for m in _tables(row.get("Mounts"))]
    return Scope(
        id=SCOPE,
        kind="container" if host else "image",
        image=_image(row, config, env),
        env=seen(allowed(env), AT) if env else UNSTATED,
        # With the host's IPC the size stated here is not the one that counts.
        shm_mib=seen(size >> 20, AT)
        if isinstance(size, int) and host.get("IpcMode") != "host"
        else UNSTATED,
        runtime=reading(runtime if isinstance(runtime, str) and runtime else None, AT),
        devices_visible=_devices(host, env),
        mounts=seen(tuple(map(str, mounts)), AT) if host else UNSTATED,
    )


def _image(row: dict[str, Any], config: dict[str, Any], env: dict[str, str]) -> ImageRef:
    named = config.get("Image") or next(iter(_words(row.get("RepoTags"))), "")
    digests = _words(row.get("RepoDigests"))
    digest = digests[0].rpartition("@")[2] if digests else ""
    return ImageRef(
        ref=str(named or ""),
        digest=digest,
        require_cuda=reading(env.get("NVIDIA_REQUIRE_CUDA"), AT),
        cuda=reading(Version.maybe(env.get("CUDA_VERSION")), AT),
    )


def _devices(host: dict[str, Any], env: dict[str, str]) -> Reading[tuple[str, ...]]:
    """Devices that were asked for: with --gpus, with CDI, or by the variable."""
    if not host:
        return UNSTATED
    names: list[str] = []
    for request in _tables(host.get("DeviceRequests")):
        ids = _words(request.get("DeviceIDs"))
        names += ids or (["all"] if request.get("Count") == -1 else [f"{request.get('Count')}"])
    for device in _tables(host.get("Devices")):
        names.append(str(device.get("PathInContainer") or device.get("PathOnHost")))
    visible = env.get("NVIDIA_VISIBLE_DEVICES") or env.get("ASCEND_VISIBLE_DEVICES")
    if visible and host.get("Runtime") in ("nvidia", "ascend"):
        names.append(visible)
    return seen(tuple(dict.fromkeys(names)), AT)


def _workload(row: dict[str, Any]) -> Workload | None:
    """The engine that the container's command starts."""
    config = _table(row, "Config")
    argv = (*_words(config.get("Entrypoint")), *_words(config.get("Cmd")))
    image = str(config.get("Image") or "")
    return launched(argv, AT) or launched_by_image(image, tuple(_words(config.get("Cmd"))), AT)


def _tables(value: Any) -> list[dict[str, Any]]:
    """The objects of a list; none where it is something else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
