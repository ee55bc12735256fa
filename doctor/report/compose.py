"""A deployment as a Compose file.

Source: the Compose specification (docs.docker.com/reference/compose-file), services.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from doctor.errors import UsageError
from doctor.images.deployment import Deployment
from doctor.provision.container import WORK
from doctor.report.clean import clean_line

_GROUP = "DEVICE_GROUP"
_TMP = "/tmp:rw,exec,nosuid,nodev,mode=1777"  # noqa: S108 - inside the container


def render(found: Deployment, notes: tuple[str, ...] = ()) -> str:
    """The file; `notes` become comments above it."""
    prepare = f"{found.name}-prepare"
    service = _service(found)
    service["depends_on"] = {prepare: {"condition": "service_completed_successfully"}}
    data = {
        "services": {found.name: service, prepare: _prepare(found)},
        "volumes": {f"{found.name}-work": {}},
    }
    return commented((*notes, *advice(found), *_of_group(found))) + to_yaml(data)


def _of_group(found: Deployment) -> tuple[str, ...]:
    device = found.access.group_of
    return (f"{_GROUP} is the group of the devices: stat -c %g {device}",) if device else ()


def commented(notes: tuple[str, ...]) -> str:
    """Notes as comments of a YAML file."""
    return "".join(f"# {clean_line(note)}\n" for note in notes)


def to_yaml(*documents: Any) -> str:
    """Documents as YAML without anchors, which some readers of these files do not take."""
    import yaml

    class Plain(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
            return True

    return yaml.dump_all(documents, Dumper=Plain, sort_keys=False, allow_unicode=True, width=100)


def _prepare(found: Deployment) -> dict[str, Any]:
    """A new volume belongs to root; this gives it to the engine's account, once."""
    return {
        "image": found.image,
        "entrypoint": ["chown", f"{found.user}:{found.user}", WORK],
        "command": [],
        "user": "0:0",
        "network_mode": "none",
        "cap_drop": ["ALL"],
        "cap_add": ["CHOWN"],
        "volumes": [f"{found.name}-work:{WORK}"],
    }


def advice(found: Deployment) -> tuple[str, ...]:
    """What to know before it is used."""
    notes = [f"secret {name}: {key}" for name, key in found.secrets.items()]
    if not found.is_pinned:
        notes.append(
            "the image is named by its tag, which may be published again: "
            f"doctor image pin {found.image}"
        )
    return tuple(notes)


def _service(found: Deployment) -> dict[str, Any]:
    entry = {} if found.keeps_entrypoint else {"entrypoint": _plain(found.argv[:1])}
    words = found.argv if found.keeps_entrypoint else found.argv[1:]
    service: dict[str, Any] = {
        "image": found.image,
        **entry,
        "command": _plain(words),
        "restart": "unless-stopped",
        "user": f"{found.user}:{found.user}",
        "working_dir": WORK,
        "read_only": found.read_only,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "ports": [_port(found)],
        "environment": _environment(found),
        "volumes": _volumes(found),
        "tmpfs": [_TMP],
        "shm_size": str(found.shm_bytes),
        "ulimits": {"nofile": {"soft": found.open_files, "hard": found.open_files}},
        "stop_signal": found.stop_signal,
        "stop_grace_period": f"{found.stop_s}s",
        "healthcheck": {
            "test": ["CMD", *_plain(found.probe)],
            "interval": "10s",
            "timeout": "5s",
            "retries": 3,
            "start_period": f"{found.start_s}s",
        },
    }
    _show_devices(service, found)
    if found.access.group_of:
        service.setdefault("group_add", []).append(f"${{{_GROUP}:?}}")
    return service


def _port(found: Deployment) -> str:
    host = f"[{found.host}]" if ":" in found.host else found.host
    return f"{host}:{found.port}:{found.port}"


def _environment(found: Deployment) -> dict[str, str]:
    """Values as they are; a secret comes from the caller's environment, and must be set."""
    env = {name: value.replace("$", "$$") for name, value in found.env.items()}
    return env | {name: f"${{{name}:?}}" for name in found.secrets}


def _volumes(found: Deployment) -> list[Any]:
    volumes: list[Any] = [f"{found.name}-work:{WORK}"]
    mounts = [(path, path) for path in found.access.mounts]
    if found.model:
        mounts.append((found.model, found.model_inside))
    for source, target in mounts:
        row = {"type": "bind", "source": source.replace("$", "$$"), "target": target}
        volumes.append({**row, "read_only": True})
    return volumes


def _show_devices(service: dict[str, Any], found: Deployment) -> None:
    """The vendor's options of the client, as keys."""
    access, count = found.access, max(found.devices, 1)
    words = list(access.options)
    if access.counted or access.every:
        chosen = access.counted if found.devices and access.counted else access.every
        words += [word.format(count=count) for word in chosen]
    else:
        words += [word.format(id=number) for number in range(count) for word in access.each]
    for option, value in zip(words[::2], words[1::2], strict=True):
        add = _OPTIONS.get(option)
        if add is None:
            raise UsageError(f"{option} has no form in a Compose file", "use doctor apply")
        add(service, value)


def _add_gpus(service: dict[str, Any], value: str) -> None:
    device = {"driver": "nvidia", "count": "all" if value == "all" else int(value)}
    device["capabilities"] = ["gpu"]  # type: ignore[assignment]
    service["deploy"] = {"resources": {"reservations": {"devices": [device]}}}


def _add_ulimit(service: dict[str, Any], value: str) -> None:
    name, _, limits = value.partition("=")
    soft, _, hard = limits.partition(":")
    service["ulimits"][name] = {"soft": int(soft), "hard": int(hard or soft)}


def _adder(key: str) -> Callable[[dict[str, Any], str], None]:
    def add(service: dict[str, Any], value: str) -> None:
        # Compose writes ":" where the client takes "=" as well.
        text = f"{value}:{value}" if key == "devices" else value.replace("=", ":")
        service.setdefault(key, []).append(text)

    return add


_OPTIONS: dict[str, Callable[[dict[str, Any], str], None]] = {
    "--gpus": _add_gpus,
    "--ulimit": _add_ulimit,
    "--device": _adder("devices"),
    "--group-add": _adder("group_add"),
    "--security-opt": _adder("security_opt"),
    "--cap-add": _adder("cap_add"),
}


def _plain(words: tuple[str, ...]) -> list[str]:
    """Words in which Compose finds no variables."""
    return [word.replace("$", "$$") for word in words]
