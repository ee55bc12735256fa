"""Build an image from a recipe: the context, the labels, and one of two builders."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import doctor
from doctor.errors import RemoteError, UsageError
from doctor.images.context import write_context
from doctor.images.labels import labels_of
from doctor.images.pins import pinned_base
from doctor.images.recipe import Recipe, read_recipe
from doctor.matrix import Matrix
from doctor.profile.lock import read_lock

Say = Callable[[str], None]


@dataclass(frozen=True)
class Wish:
    """What a person wants built.

    `base` is an image by digest in place of the recipe's, `pins` an images.lock, `tag` the
    name that the image gets ("": llm-doctor/NAME:VERSION), `source` a URL for its label.
    `lock` is a stack.lock in place of the recipe's.
    """

    name: str
    profile: str = ""
    builder: str = "auto"
    base: str = ""
    pins: str = ""
    tag: str = ""
    source: str = ""
    lock: str = ""


@dataclass(frozen=True)
class Order:
    """What a builder is told: a context folder, the base by digest, name and labels."""

    context: Path
    base: str
    tag: str
    labels: dict[str, str]


@dataclass(frozen=True)
class Built:
    """An image that was built: `id` is the digest of its configuration."""

    tag: str
    id: str
    base: str
    builder: str
    labels: dict[str, str]


def build(wish: Wish, matrix: Matrix, say: Say) -> Built:
    """Build; raises UsageError before anything is done, RemoteError where a builder fails."""
    recipe = _with_lock(_with_profile(read_recipe(wish.name), wish.profile, matrix), wish.lock)
    base = pinned_base(recipe, wish.base, wish.pins)
    builder = _chosen(wish.builder)
    labels = labels_of(recipe, base, matrix, wish.source)
    with tempfile.TemporaryDirectory(prefix="doctor-build-") as scratch:
        say(f"fetching what goes into {wish.name}")
        write_context(recipe, Path(scratch))
        tag = wish.tag or f"llm-doctor/{recipe.spec.name}:{_version(recipe)}"
        order = Order(Path(scratch), base, tag, labels)
        say(f"building {tag} with {builder}")
        identity = _build(builder, order, say)
    return Built(order.tag, identity, base, builder, labels)


def _build(builder: str, order: Order, say: Say) -> str:
    if builder == "buildah":
        from doctor.images import buildah

        return buildah.build(order, say)
    from doctor.images import classic

    return classic.build(order, say)


def _chosen(builder: str) -> str:
    """The engine's own builder, so that the image is where it is run; else buildah."""
    if builder != "auto":
        return builder
    from doctor.images.engine import connect

    try:
        with connect():
            return "classic"
    except RemoteError:
        if shutil.which("buildah"):
            return "buildah"
        raise


def _with_profile(recipe: Recipe, name: str, matrix: Matrix) -> Recipe:
    """The recipe with the packages of another profile, locked for the recipe's Python."""
    if not name:
        return recipe
    from doctor.profile.read import find_profile

    profile = find_profile(name)
    if recipe.spec.content != "wheels" or profile.install.method != "venv":
        raise UsageError(
            f"{recipe.spec.name} is the vendor's image: it takes no packages of {profile.name}",
            "pass the profile's arguments when it is run: doctor profile show --emit compose",
        )
    _expect_engine(recipe, profile.engine.name, profile.name)
    from doctor.provision.locks import lock_profile

    lock = lock_profile(profile, recipe.spec.python, recipe.spec.platform, matrix)
    return replace(recipe, other=lock)


def _with_lock(recipe: Recipe, path: str) -> Recipe:
    """The recipe with a lock that a person made."""
    if not path:
        return recipe
    lock = read_lock(Path(path))
    _expect_engine(recipe, lock.engine, path)
    if not lock.packages or lock.python != recipe.spec.python:
        raise UsageError(
            f"{path} is for Python {lock.python or '?'}, {recipe.spec.name} has "
            f"{recipe.spec.python or 'none of its own'}",
            f"doctor profile lock {recipe.spec.profile} --python {recipe.spec.python}",
        )
    return replace(recipe, other=lock)


def _expect_engine(recipe: Recipe, engine: str, name: str) -> None:
    if engine != recipe.spec.engine:
        raise UsageError(
            f"{name} is of {engine}, {recipe.spec.name} is for {recipe.spec.engine}",
            "doctor image list",
        )


def _version(recipe: Recipe) -> str:
    return recipe.lock.version if recipe.lock else doctor.__version__
