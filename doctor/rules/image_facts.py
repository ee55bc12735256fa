"""What is known of the container image of a scope: CUDA version, and which drivers it lets in."""

from __future__ import annotations

import re
from dataclasses import dataclass

from doctor.facts import Device, Scope, Version
from doctor.findings import Evidence
from doctor.matrix import Matrix
from doctor.matrix.catalogue import ContainerImage
from doctor.matrix.ranges import covers
from doctor.rules import cards
from doctor.rules.cuda_level import two_parts

# Brands of libnvidia-container by NVML's number (nvmlBrandType_t), and by class of the matrix.
_BRANDS = {0: "unknown", 1: "quadro", 2: "tesla", 3: "nvs", 4: "grid", 5: "geforce", 6: "titan",
           7: "vapps", 8: "vpc", 9: "vcs", 10: "vws", 11: "cloudgaming", 12: "quadrortx",
           13: "nvidiartx", 14: "nvidia", 15: "geforcertx", 16: "titanrtx"}  # fmt: skip
_CLASS_BRANDS = {"geforce": ("geforce", "geforcertx"), "titan": ("titan", "titanrtx"),
                 "datacenter": ("tesla", "nvidia")}  # fmt: skip

_WORD = re.compile(r"\{(\w+)\}")
CUDA_BASE = "nvidia/cuda"
_TAG_CUDA = re.compile(r"(?:^|[._-])cu(?:da)?[._-]?(1[0-9])(?:\.?(\d)(?:[.\d]{1,3})?)?(?=$|[._-])")


@dataclass(frozen=True)
class ImageCuda:
    """The CUDA version of an image, and how it is known."""

    cuda: Version
    evidence: Evidence
    sources: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tagged:
    """A row of the matrix that an image fits, and what its tag says in the row's words."""

    row: ContainerImage
    words: dict[str, str]

    def stated(self, text: str | None) -> str:
        """A field of the row with the words of the tag in their places ("ubuntu{release}")."""
        return _WORD.sub(lambda match: self.words.get(match[1], ""), text or "")


def known_image(scope: Scope, matrix: Matrix) -> ContainerImage | None:
    """The row of the engine's image that the repository and tag fit; bases carry no engine."""
    found = tagged(scope.image.ref, matrix)
    return found.row if found is not None and found.row.engine else None


def is_of_others(scope: Scope, matrix: Matrix, engine: str) -> bool:
    """Tell whether the image carries the engine by its name, and is none of its project's own.

    Who publishes such an image may have changed the engine, for cards that it leaves out too.
    """
    ref = scope.image.ref.partition("@")[0]
    repository = ref.rpartition(":")[0] or ref
    listed = [row.repository for row in matrix.images if row.engine == engine]
    listed += [match.claim.key for match in matrix.claims(engine, "image")]
    own = any(repository == key or repository.endswith("/" + key) for key in listed if key)
    return bool(listed) and not own and is_named_after(scope, engine)


def is_named_after(scope: Scope, engine: str) -> bool:
    """Tell whether the repository of the image is named after the engine: then it brings it."""
    ref = scope.image.ref.partition("@")[0]
    return engine in ref.rpartition("/")[2].partition(":")[0].lower()


def tagged(ref: str, matrix: Matrix) -> Tagged | None:
    """The first row of the matrix that the repository and tag of an image fit."""
    repository, _, tag = ref.partition("@")[0].rpartition(":")
    if not repository or "/" in tag:
        return None
    for row in matrix.images:
        if repository != row.repository and not repository.endswith("/" + row.repository):
            continue
        match = re.fullmatch(row.tag, tag)
        words = {k: v for k, v in match.groupdict().items() if v} if match else {}
        if match is not None and covers(row, Version.maybe(words.get("version"))):
            return Tagged(row, words)
    return None


def rows_of(ref: str, matrix: Matrix) -> tuple[ContainerImage, ...]:
    """The row of an image; where its tag tells none ("latest"), all rows of the repository."""
    found = tagged(ref, matrix)
    if found is not None:
        return (found.row,)
    repository = re.sub(r":[^/]*$", "", ref.partition("@")[0])
    named = (r for r in matrix.images if repository)
    return tuple(
        r for r in named if repository == r.repository or repository.endswith("/" + r.repository)
    )


def image_cuda(scope: Scope, matrix: Matrix) -> ImageCuda | None:
    """The CUDA version that an image states, or that is known of its tag."""
    cuda = scope.image.cuda
    if cuda.value is not None:
        return ImageCuda(cuda.value, Evidence(f"image for CUDA {cuda.value}", cuda.at))
    found = tagged(scope.image.ref, matrix)
    version = Version.maybe(found.stated(found.row.cuda)) if found else None
    if version is None:
        version = _cuda_of_tag(scope.image.ref)
    if version is None:
        return None
    fact = Evidence(f"{scope.image.ref} is made for CUDA {version}", cuda.at or "image tag")
    return ImageCuda(version, fact, tuple(found.row.source) if found else ())


def _cuda_of_tag(ref: str) -> Version | None:
    """The CUDA version that the tag of any image names: "latest-cu124", "gpu-cuda-12"."""
    match = _TAG_CUDA.search(ref.partition("@")[0].rpartition("/")[2].partition(":")[2])
    return Version(f"{match[1]}.{match[2] or '*'}") if match else None


def requirement(scope: Scope, matrix: Matrix) -> tuple[str, Evidence, tuple[str, ...]] | None:
    """NVIDIA_REQUIRE_CUDA of the image: as it was read, else its row's, or that of its CUDA base.

    Of a base whose whole text is not known only the first alternative is.
    """
    stated = scope.image.require_cuda
    if stated.value:
        return stated.value, Evidence(f"NVIDIA_REQUIRE_CUDA={stated.value}", stated.at), ()
    known, found = tagged(scope.image.ref, matrix), image_cuda(scope, matrix)
    if known is not None and known.row.require_cuda:
        text = known.row.require_cuda
        fact = Evidence(f"{scope.image.ref} asks for {text}", "image tag")
        return text, fact, tuple(known.row.source)
    if found is None or found.cuda.minor is None or not _is_on_cuda_base(scope, known):
        return None
    wanted = two_parts(found.cuda)
    text = f"cuda>={wanted}"
    rows = matrix.cuda.image_requirements
    row = next((r for r in rows if two_parts(Version(r.cuda)).same_as(wanted) is True), None)
    if row is None:
        # Of which branches it lets in is not known; of those that no base names none is.
        named = sorted({branch for listed in rows for branch in listed.branches})
        rest = [f"brand=?,driver>={branch},driver<{branch + 1}" for branch in named]
        return " ".join([text, *rest]), found.evidence, found.sources
    parts = [
        f"brand={brand},driver>={branch},driver<{branch + 1}"
        for brand in row.brands
        for branch in row.branches
    ]
    return " ".join([text, *parts]), found.evidence, (*found.sources, *row.source)


REST_UNKNOWN = "brand=?,driver=?"


def _is_on_cuda_base(scope: Scope, known: Tagged | None) -> bool:
    """Whether the requirement of NVIDIA's bases holds: not where only a tag names a CUDA."""
    if known is None:
        return scope.image.cuda.value is not None
    return not known.row.base or known.row.base.startswith(CUDA_BASE)


def satisfied(
    text: str, cuda: Version | None, driver: Version | None, brands: tuple[str, ...]
) -> bool | None:
    """Evaluate NVIDIA_REQUIRE_CUDA: a space stands for or, a comma for and.

    `brands` are those that the card may have, () if unknown. None if facts leave it open.
    Source: libnvidia-container, requirement syntax.
    """
    answers = {_any(text, cuda, driver, brand) for brand in brands or ("",)}
    return answers.pop() if len(answers) == 1 else None


def _any(text: str, cuda: Version | None, driver: Version | None, brand: str) -> bool | None:
    is_open = False
    for part in text.split():
        answer = _all(part, cuda, driver, brand)
        if answer:
            return True
        is_open = is_open or answer is None
    return None if is_open else False


def _all(part: str, cuda: Version | None, driver: Version | None, brand: str) -> bool | None:
    is_open = False
    for term in part.split(","):
        answer = _one(term, cuda, driver, brand)
        if answer is False:
            return False
        is_open = is_open or answer is None
    return None if is_open else True


def _one(term: str, cuda: Version | None, driver: Version | None, brand: str) -> bool | None:
    match = re.fullmatch(r"(cuda|driver|brand|arch)(>=|<=|!=|=|>|<)([\w.?]+)", term)
    if match is None or match[3] == "?":
        return None
    if match[1] == "brand":
        return (match[3] == brand) is (match[2] == "=") if brand else None
    value = {"cuda": cuda, "driver": driver}.get(match[1])
    bound = Version.maybe(match[3])
    return None if value is None or bound is None else _compare(value, match[2], bound)


def _compare(value: Version, operator: str, bound: Version) -> bool | None:
    older, same = value.older_than(bound), value.same_as(bound)
    negated = {None: None, True: False, False: True}
    if operator == ">=":
        return negated[older]
    if operator == "<":
        return older
    if operator == "=":
        return same
    if operator == "!=":
        return negated[same]
    newer = value.newer_than(bound)
    return newer if operator == ">" else negated[newer]


def brands_of(devices: tuple[Device, ...], matrix: Matrix) -> tuple[str, ...]:
    """Brands that the first card may have; () if nothing tells."""
    if not devices:
        return ()
    number = devices[0].brand.value
    if number is not None:
        return (_BRANDS.get(number, "unknown"),)
    return _CLASS_BRANDS.get(cards.gpu_class(devices[0], matrix), ())
