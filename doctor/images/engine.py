"""The Docker engine of this machine, asked through its own client library."""

from __future__ import annotations

import contextlib
import os
import re
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from doctor.errors import DoctorError, RemoteError, UsageError
from doctor.extras import how_to_add
from doctor.images.config import ImageConfig, parse_config

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.images import Image

_TIMEOUT_S = 600
_TRIAL_S = 10.0
_CHUNK = 1 << 20
# NAME:TAG, NAME@sha256:..., or an id, in the letters that such names may have.
_REFERENCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(?:[:/@+][A-Za-z0-9._-]+)*")
_OR_A_FILE = "or name a file: docker (podman) save -o image.tar IMAGE"
# Never started: an image without a command of its own needs some word here.
_NO_COMMAND = ["/nothing-of-this-image-is-run"]


@contextlib.contextmanager
def connect() -> Iterator[DockerClient]:
    """A client of the engine that the environment names; raises RemoteError if none answers."""
    try:
        import docker
    except ImportError:
        raise DoctorError("images need the docker package", how_to_add("images")) from None
    with reported():
        _expect_socket()
        client = docker.from_env(timeout=_TIMEOUT_S)
    try:
        with reported():
            client.ping()
        yield client
    finally:
        client.close()


@contextlib.contextmanager
def reported() -> Iterator[None]:
    """Turn what the client library raises into RemoteError."""
    import docker
    import requests

    try:
        yield
    except docker.errors.DockerException as fault:
        words = getattr(fault, "explanation", "")
        if words:
            raise RemoteError(f"the container engine says: {words}", "docker info") from None
        # What it could not reach stands deep in the words of three libraries.
        raise _unreached("PermissionError" in str(fault)) from None
    except (requests.RequestException, OSError) as fault:
        raise RemoteError(f"the container engine does not answer: {fault}", "docker info") from None


def _place() -> str:
    return os.environ.get("DOCKER_HOST") or "/var/run/docker.sock"


def _unreached(is_refused: bool) -> RemoteError:
    if is_refused:
        who = f"this user may not ask the container engine at {_place()}"
        return RemoteError(who, f"sudo, {_OR_A_FILE}")
    return RemoteError(
        f"no container engine answers at {_place()}", f"start or install one, {_OR_A_FILE}"
    )


def _expect_socket() -> None:
    """Raise RemoteError if nobody listens: the library would leave its own try open."""
    path = _place().removeprefix("unix://")
    if not path.startswith("/"):
        return
    with socket.socket(socket.AF_UNIX) as trial:
        trial.settimeout(_TRIAL_S)
        try:
            trial.connect(path)
        except OSError as fault:
            raise _unreached(isinstance(fault, PermissionError)) from None


def find_image(client: DockerClient, ref: str) -> Image:
    """The image of that name in the engine; raises UsageError if it is not there."""
    import docker

    no_image = UsageError(
        f"{ref[:200]!r} is no image", "write NAME:TAG, NAME@sha256:..., or ./FILE"
    )
    # Of anything else the library makes another question, or cannot send it.
    if _REFERENCE.fullmatch(ref) is None:
        raise no_image
    with reported():
        try:
            return client.images.get(ref)
        except docker.errors.ImageNotFound:
            raise UsageError(
                f"the container engine has no image {ref[:200]!r}",
                f"docker pull {ref[:200]}, {_OR_A_FILE}",
            ) from None
        except docker.errors.APIError as fault:
            if fault.status_code != 400:
                raise
            raise no_image from None


def config_of(image: Image, ref: str) -> ImageConfig:
    """What the engine says of an image."""
    attrs: dict[str, Any] = image.attrs
    digests = attrs.get("RepoDigests") or []
    repository = ref.partition("@")[0].rpartition(":")[0] or ref
    mine = [d for d in digests if d.partition("@")[0] == repository]
    digest = ([*mine, *digests] or [""])[0].partition("@")[2]
    return parse_config(attrs, ref, str(attrs.get("Id", "")), digest)


@contextlib.contextmanager
def exported(client: DockerClient, image: Image) -> Iterator[Iterator[bytes]]:
    """The merged files of an image as a tar: of a container that is made and never started."""
    with reported():
        box = client.containers.create(
            image.id or "",
            command=_NO_COMMAND,
            entrypoint=[],
            network_mode="none",
            labels={"io.llm-doctor": "an image is being read; never started"},
        )
    try:
        yield _chunks(box.export(chunk_size=_CHUNK))
    finally:
        with contextlib.suppress(RemoteError), reported():
            box.remove(v=True, force=True)


def saved(image: Image) -> Iterator[bytes]:
    """The image with each layer for itself, as `docker save` writes it."""
    return _chunks(image.save(chunk_size=_CHUNK))


def history(image: Image) -> Iterator[str]:
    """The commands that made the layers, as the image tells them to everybody."""
    with reported():
        for row in image.history():
            yield str(row.get("CreatedBy") or "")


def _chunks(stream: Any) -> Iterator[bytes]:
    with reported():
        yield from stream
