"""The Docker engine, and images in it that are gone afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.images.written import Layer
from tests.provision.machine import docker_engine

PREFIX = "doctor-test-image"


@pytest.fixture(scope="session")
def engine() -> Iterator[None]:
    """An engine that answers for as long as tests need it."""
    with docker_engine():
        yield


Load = Callable[..., str]


@pytest.fixture
def load(engine: None) -> Iterator[Load]:
    """Put a layer into the engine as an image with a configuration; returns its name."""
    import docker

    client, made = docker.from_env(), list[str]()

    def loaded(layer: Layer, name: str, **config: Any) -> str:
        ref = f"{PREFIX}/{name}"
        changes = [f"ENV {key}={value}" for key, value in config.pop("env", {}).items()]
        changes += [f"{key.upper()} {value}" for key, value in config.items()]
        repository, _, tag = ref.partition(":")
        client.api.import_image_from_data(
            layer.tar(), repository=repository, tag=tag, changes=changes
        )
        made.append(ref)
        return ref

    try:
        yield loaded
    finally:
        for ref in made:
            client.images.remove(ref, force=True)
        client.close()
