"""The builder inside the Docker engine, told through its client library; progress is streamed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from doctor.errors import RemoteError
from doctor.images.engine import connect, reported

if TYPE_CHECKING:
    from doctor.images.building import Order, Say


def build(order: Order, say: Say) -> str:
    """Build and tag; the image's id. Raises RemoteError with the step that failed."""
    with connect() as client, reported():
        answers = client.api.build(
            path=str(order.context),
            dockerfile="Containerfile",
            tag=order.tag,
            buildargs={"BASE": order.base},
            labels=order.labels,
            network_mode="none",  # packages are in the context already
            rm=True,
            forcerm=True,
            decode=True,
        )
        _follow(answers, say)
        return str(client.images.get(order.tag).id)


def push(reference: str, target: str, say: Say) -> str:
    """Send an image of the engine to a registry; its digest there. Raises RemoteError."""
    from doctor.images.engine import find_image

    repository, tag = split_tag(target)
    digest = ""
    with connect() as client, reported():
        find_image(client, reference).tag(repository, tag=tag)
        for answer in client.api.push(repository, tag=tag, stream=True, decode=True):
            _refuse(answer)
            if answer.get("status") and not answer.get("progress"):
                say(f"{answer.get('id', '')} {answer['status']}".strip())
            digest = str((answer.get("aux") or {}).get("Digest") or digest)
    if not digest:
        raise RemoteError(f"{target}: the registry named no digest", "push it again")
    return digest


def split_tag(target: str) -> tuple[str, str]:
    """A repository and its tag, "latest" if none is named; a port is no tag."""
    head, colon, tag = target.rpartition(":")
    return (target, "latest") if not colon or "/" in tag else (head, tag)


def _follow(answers: Iterator[dict[str, Any]], say: Say) -> None:
    for answer in answers:
        _refuse(answer)
        for line in str(answer.get("stream") or answer.get("status") or "").splitlines():
            if line.strip():
                say(line.rstrip())


def _refuse(answer: dict[str, Any]) -> None:
    if answer.get("error"):
        raise RemoteError(f"the container engine says: {str(answer['error'])[:1500]}", "see above")
