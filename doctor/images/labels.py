"""Labels of a built image: what it is, from what, and which driver it needs."""

from __future__ import annotations

import doctor
from doctor.facts import Scope, Version
from doctor.facts.scopes import ImageRef
from doctor.images.recipe import Recipe
from doctor.matrix import Matrix
from doctor.matrix.model import Release
from doctor.rules.image_facts import image_cuda, known_image

OCI, OWN = "org.opencontainers.image", "io.llm-doctor"
LOCK = f"{OWN}.lock"
BASE_DIGEST = f"{OCI}.base.digest"
REQUIRED = tuple(
    f"{OCI}.{name}" for name in ("title", "version", "revision", "source", "base.digest")
)


def labels_of(recipe: Recipe, base: str, matrix: Matrix, source: str = "") -> dict[str, str]:
    """All labels; what is not known for an image, such as CUDA for a processor, is left out."""
    spec, lock = recipe.spec, recipe.lock
    version = lock.version if lock else _tagged_version(spec.base, matrix)
    cuda = _cuda(recipe, matrix)
    family = matrix.family(cuda) if cuda else None
    release = _release(matrix, spec.engine, version)
    found = {
        f"{OCI}.title": spec.name,
        f"{OCI}.description": spec.description,
        f"{OCI}.version": version or spec.base.rpartition(":")[2],
        f"{OCI}.revision": recipe.revision,
        f"{OCI}.source": source or f"pkg:pypi/llm-doctor@{doctor.__version__}",
        f"{OCI}.base.name": base.rpartition("@")[0],
        BASE_DIGEST: base.rpartition("@")[2],
        f"{OWN}.engine": spec.engine,
        LOCK: f"sha256:{lock.digest}" if lock else "",
        f"{OWN}.cuda": str(cuda or ""),
        f"{OWN}.code-targets": " ".join(_targets(release)) if cuda else "",
        f"{OWN}.driver-floor": family.min_driver if family else "",
    }
    return {name: value for name, value in found.items() if value}


def _scope(reference: str) -> Scope:
    return Scope(id="image", kind="image", image=ImageRef(ref=reference.removeprefix("docker.io/")))


def _cuda(recipe: Recipe, matrix: Matrix) -> Version | None:
    if recipe.spec.content != "vendor":
        return None
    found = image_cuda(_scope(recipe.spec.base), matrix)
    return found.cuda if found else None


def _tagged_version(reference: str, matrix: Matrix) -> str:
    import re

    row = known_image(_scope(reference), matrix)
    match = re.fullmatch(row.tag, reference.rpartition(":")[2]) if row else None
    return (match.groupdict().get("version") or "") if match else ""


def _release(matrix: Matrix, engine: str, version: str) -> Release | None:
    domain = matrix.engine(engine)
    rows = domain.releases if domain else ()
    return next((row for row in rows if row.version == version), None)


def _targets(release: Release | None) -> tuple[str, ...]:
    """Code targets of the default build, as the matrix has them."""
    variants = release.variants if release else ()
    return next((v.targets for v in variants if v.default and v.targets), ())
