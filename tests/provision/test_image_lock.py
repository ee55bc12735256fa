"""Locks of images and models: what they were made from, and what a new one says of the old."""

from __future__ import annotations

import msgspec
import pytest

from doctor.errors import UsageError
from doctor.matrix import load_matrix
from doctor.profile.lock import SCHEMA, Lock, LockedFile, LockedModel, lock_text, parse_lock
from doctor.profile.read import find_profile
from doctor.profile.schema import Model, Profile
from doctor.provision.image_lock import engine_version, is_of_image, lock_image
from doctor.provision.locks import Locked, is_for
from doctor.report.lock import render_text

DIGEST, OTHER = f"sha256:{'a' * 64}", f"sha256:{'b' * 64}"
FILE = LockedFile(name="a/b.json", size=3, sha256="0" * 64)
MODEL = LockedModel(id="Qwen/Qwen3-8B", commit="c" * 40, files=(FILE,))
LOCK = Lock(
    schema=SCHEMA,
    profile="vllm-nvidia-container",
    engine="vllm",
    version="0.33.0",
    platform="x86_64-linux",
    image=f"vllm/vllm-openai@{DIGEST}",
    tag="v0.33.0",
    model=MODEL,
)


def profile_of(image: str = "", version: str = "", model: Model | None = None) -> Profile:
    profile = find_profile("vllm-nvidia-container")
    install = msgspec.structs.replace(profile.install, image=image or profile.install.image)
    engine = msgspec.structs.replace(profile.engine, version=version or profile.engine.version)
    changes = {"install": install, "engine": engine, "model": model or profile.model}
    return msgspec.structs.replace(profile, **changes)


def test_a_lock_is_read_back_with_image_and_model() -> None:
    assert parse_lock(lock_text(LOCK)) == LOCK
    assert LOCK.arch == "x86_64"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("name: a/b.json", "name: ../b.json"),
        ("name: a/b.json", "name: /etc/passwd"),
        ("name: a/b.json", "name: a/../../b"),
        ("size: 3", "size: -3"),
        ("c" * 40, "main"),
        (DIGEST, "sha256:1"),
    ],
)
def test_a_strange_lock_is_refused(before: str, after: str) -> None:
    text = lock_text(LOCK)
    assert before in text
    with pytest.raises(UsageError):
        parse_lock(text.replace(before, after, 1))


def test_a_lock_is_for_what_the_profile_wants_now() -> None:
    assert is_for(LOCK, profile_of())
    assert not is_for(LOCK, profile_of(image="vllm/vllm-openai:v0.32.0"))
    assert not is_for(LOCK, profile_of(image="other/vllm-openai:v0.33.0"))
    assert is_for(LOCK, profile_of(image=f"vllm/vllm-openai@{DIGEST}"))
    assert not is_for(LOCK, profile_of(image=f"vllm/vllm-openai@{OTHER}"))
    for model in (
        Model(source="hub", id="Qwen/Qwen3-8B", revision="v2"),
        Model(source="hub", id="Qwen/Qwen3-8B", files=("*.json",)),
        Model(source="hub", id="Qwen/Qwen3-4B"),
        Model(source="embedded"),
    ):
        assert not is_for(LOCK, profile_of(model=model))
    assert not is_of_image(LOCK, "")
    assert is_of_image(msgspec.structs.replace(LOCK, image=""), "")


def test_a_digest_in_the_profile_is_asked_of_nobody() -> None:
    lock = lock_image(
        profile_of(image=f"vllm/vllm-openai:v0.33.0@{DIGEST}"), "x86_64", load_matrix()
    )
    assert (lock.image, lock.version) == (f"vllm/vllm-openai@{DIGEST}", "0.33.0")


@pytest.mark.parametrize(
    ("image", "version", "found"),
    [
        ("vllm/vllm-openai:v0.33.0", ">=0.20", "0.33.0"),
        ("vllm/vllm-openai:v0.20.0-cu129", ">=0.20", "0.20.0"),
        ("mine/own:1", "==0.33.0", "0.33.0"),
        ("mine/own:1", ">=0.20", "None"),
    ],
)
def test_the_version_in_an_image_is_known_by_its_tag(image: str, version: str, found: str) -> None:
    assert str(engine_version(profile_of(image, version), load_matrix())) == found


def test_a_tag_that_holds_another_version_is_refused() -> None:
    with pytest.raises(UsageError, match=r"holds 0\.33\.0"):
        engine_version(profile_of(version="==0.32.0"), load_matrix())


def said(before: Lock, after: Lock) -> str:
    return render_text(Locked(after, "stack.lock", before != after, before))


def test_a_new_lock_says_what_moved() -> None:
    again = msgspec.structs.replace(LOCK, image=f"vllm/vllm-openai@{OTHER}")
    assert f"vllm/vllm-openai:v0.33.0 was published anew: it was {DIGEST}" in said(LOCK, again)
    moved = msgspec.structs.replace(LOCK, model=msgspec.structs.replace(MODEL, commit="d" * 40))
    assert f"Qwen/Qwen3-8B at main has moved: it was {'c' * 40}" in said(LOCK, moved)
    assert "unchanged" in said(LOCK, LOCK)
