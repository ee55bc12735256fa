"""What an image says of itself: environment, user, what it starts, labels."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

_LONGEST = 8192
_MOST = 1000


@dataclass(frozen=True)
class ImageConfig:
    """The configuration of an image. `digest` is that of its manifest in a registry, or "".

    `id` is the digest of the configuration itself, `layers` those of the unpacked layers.
    `health` is the health check's command.
    """

    ref: str = ""
    id: str = ""
    digest: str = ""
    arch: str = ""
    env: dict[str, str] = field(default_factory=dict)
    user: str = ""
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    labels: dict[str, str] = field(default_factory=dict)
    health: tuple[str, ...] = ()
    stop_signal: str = ""
    layers: tuple[str, ...] = ()

    @property
    def argv(self) -> tuple[str, ...]:
        """What a container of it starts."""
        return (*self.entrypoint, *self.command)


def parse_config(data: object, ref: str = "", image_id: str = "", digest: str = "") -> ImageConfig:
    """Read an OCI image configuration or Docker's inspection of one; what is odd is left out."""
    top = data if isinstance(data, dict) else {}
    inner: Any = top.get("config") or top.get("Config")
    stated: dict[str, Any] = inner if isinstance(inner, dict) else {}
    health, rootfs = stated.get("Healthcheck"), top.get("rootfs")
    pairs = (text.partition("=") for text in _texts(stated.get("Env")))
    return ImageConfig(
        ref=ref,
        id=image_id,
        digest=digest,
        arch=_text(top.get("architecture") or top.get("Architecture")),
        env={name: value for name, _, value in pairs if name},
        user=_text(stated.get("User")),
        entrypoint=_texts(stated.get("Entrypoint")),
        command=_texts(stated.get("Cmd")),
        labels=_table(stated.get("Labels")),
        health=_texts(health.get("Test")) if isinstance(health, dict) else (),
        stop_signal=_text(stated.get("StopSignal")),
        layers=_texts(rootfs.get("diff_ids")) if isinstance(rootfs, dict) else (),
    )


def _text(value: object) -> str:
    return value[:_LONGEST] if isinstance(value, str) else ""


def _texts(value: object) -> tuple[str, ...]:
    listed = value[:_MOST] if isinstance(value, list) else []
    return tuple(item[:_LONGEST] for item in listed if isinstance(item, str))


def _table(value: object) -> dict[str, str]:
    table = value if isinstance(value, dict) else {}
    pairs = ((k, v) for k, v in table.items() if isinstance(k, str) and isinstance(v, str))
    return {name[:_LONGEST]: text[:_LONGEST] for name, text in list(pairs)[:_MOST]}
