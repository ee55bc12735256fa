"""By what a machine knows an image: that of a folder, that of the service, or of its registry."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from doctor.errors import UsageError
from doctor.profile.image_file import fetch_image
from doctor.profile.lock import SCHEMA, Lock
from doctor.provision.container_carried import carried_as, carried_image
from doctor.provision.goal import Container, Goal
from tests.profile.image_registry import CONFIG, Registry, digest_of

pytestmark = pytest.mark.real


def applied(lock: Lock, image: str) -> Goal:
    box = Container(("docker",), "doctor-p-1", image)
    return Goal(profile="p", home="/srv/p", container=box, lock=lock.digest)


def test_of_a_folder_of_the_service_or_of_the_registry(tmp_path: Path) -> None:
    registry = Registry()
    with registry.site:
        lock = Lock(schema=SCHEMA, profile="p", engine="vllm", image=registry.image)
        fetch_image(lock.image, tmp_path)
    known, other = digest_of(CONFIG), msgspec.structs.replace(lock, version="2")
    assert carried_as(lock, str(tmp_path), None) == known
    assert carried_as(lock, "", None) == ""
    assert carried_as(lock, "", applied(lock, known)) == known, "the folder is gone by now"
    assert carried_as(lock, "", applied(other, known)) == ""
    assert carried_as(lock, "", applied(lock, lock.image)) == ""

    elsewhere = msgspec.structs.replace(lock, image=f"{lock.image[:-8]}00000000")
    assert carried_as(elsewhere, str(tmp_path), None) == ""
    with pytest.raises(UsageError) as fault:
        carried_image(elsewhere, str(tmp_path))
    assert "doctor profile lock --download" in fault.value.hint
