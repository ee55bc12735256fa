"""Does an image hold what its labels, its lock and its list of parts say, and nothing worse."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from doctor.errors import UsageError
from doctor.facts import Facts
from doctor.findings import Severity
from doctor.images import labels, sbom
from doctor.images.config import ImageConfig
from doctor.images.facts import ImageFacts, read_facts, with_image
from doctor.images.inventory import Inventory, take_inventory
from doctor.images.parts import Parts, read_parts
from doctor.images.reading import LIMIT_S, ignore_progress, read_image
from doctor.images.streams import Progress
from doctor.matrix import Matrix
from doctor.profile.lock import Lock, parse_lock

_LOCK = "/opt/doctor/stack.lock"
_SHOWN = 5
_ROOT = ("", "0", "root")


@dataclass(frozen=True)
class Expectation:
    """What a person holds the image against: a digest, a list of parts; "" for neither."""

    digest: str = ""
    sbom: str = ""
    limit_s: float = LIMIT_S


@dataclass(frozen=True)
class Point:
    """One thing that was looked at; `passed` is None where nothing was there to compare."""

    name: str
    passed: bool | None
    words: str


@dataclass(frozen=True)
class Verified:
    """An image with all points; `content_hash` is the same for equal content."""

    config: ImageConfig
    content_hash: str
    points: tuple[Point, ...]

    @property
    def passed(self) -> bool:
        """True if no point failed."""
        return all(point.passed is not False for point in self.points)


@dataclass(frozen=True)
class _Read:
    config: ImageConfig
    parts: Parts
    facts: ImageFacts
    lock: Lock | None
    lock_fault: str
    inventory: Inventory


def verify(
    ref: str, expected: Expectation, matrix: Matrix, progress: Progress = ignore_progress
) -> Verified:
    """Look at everything. Raises UsageError or RemoteError where the image cannot be read."""
    if expected.digest and not expected.digest.startswith("sha256:"):
        raise UsageError(f"--digest {expected.digest[:80]!r}", "write sha256:...")
    found = _read(ref, expected.limit_s, progress)
    points = (
        _digest(found, expected.digest),
        _labels(found),
        _locked(found),
        _user(found),
        _secrets(found),
        _writable(found),
        _sbom(found, expected.sbom),
        _advisories(found, matrix),
    )
    return Verified(found.config, found.inventory.content_hash, points)


def _read(ref: str, limit_s: float, progress: Progress) -> _Read:
    with read_image(ref, progress, limit_s) as opened:
        text = opened.host.read_text(_LOCK).value
        parts, facts = read_parts(opened), read_facts(opened)
    lock, fault = _lock_of(text or "")
    inventory = take_inventory(ref, progress, limit_s)
    return _Read(opened.config, parts, facts, lock, fault, inventory)


def _lock_of(text: str) -> tuple[Lock | None, str]:
    """The lock that lies in the image, or why it cannot be read."""
    try:
        return (parse_lock(text, _LOCK), "") if text else (None, "")
    except UsageError as fault:
        return None, str(fault)


def _digest(found: _Read, wanted: str) -> Point:
    known = [digest for digest in (found.config.digest, found.config.id) if digest]
    words = ", ".join(known) or "it has no digest yet"
    stated, read = found.config.layers, tuple(found.inventory.layers)
    if read and known and stated != read:
        # The configuration has that digest, and its layers are others.
        return Point("digest", False, f"its layers are not those of {known[-1]}")
    return Point("digest", wanted in known if wanted else None, words)


def _labels(found: _Read) -> Point:
    lacking = [name for name in labels.REQUIRED if not found.config.labels.get(name)]
    return Point("labels", not lacking, f"lacks {', '.join(lacking)}" if lacking else "all there")


def _locked(found: _Read) -> Point:
    """The lock in the image is the one of the label, and its environment holds just that."""
    stated, lock = found.config.labels.get(labels.LOCK, ""), found.lock
    if found.lock_fault:
        return Point("lock", False, found.lock_fault)
    if lock is None:
        return Point("lock", False if stated else None, "there is none in the image")
    if stated and stated != f"sha256:{lock.digest}":
        return Point("lock", False, f"the label says {stated}, the lock in it is {lock.digest}")
    site = next((p.place for p in found.parts.parts if p.name == _first(lock)), "")
    have = {p.name: p.version for p in found.parts.parts if p.kind == "pypi" and p.place == site}
    want = {package.name: package.version for package in lock.packages}
    wrong = sorted({n for n in {*have, *want} if have.get(n) != want.get(n)})
    return Point("lock", not wrong, _listed(wrong, "differ from it") or f"{len(want)} packages")


def _first(lock: Lock) -> str:
    return lock.packages[0].name if lock.packages else ""


def _user(found: _Read) -> Point:
    user = found.config.user
    is_root = user.partition(":")[0] in _ROOT
    return Point("user", not is_root, "it runs as root" if is_root else user)


def _secrets(found: _Read) -> Point:
    rows = [f"{word} in {path}" for word, path in found.inventory.secrets]
    rows += [f"a secret in the variable {name}" for name in _secret_variables(found.config)]
    return Point("secrets", not rows, _listed(rows, "") or "none found")


def _secret_variables(config: ImageConfig) -> Iterator[str]:
    from doctor.probes.environment import cut_secret

    for name, value in config.env.items():
        if cut_secret(name, value) != value[:8192]:
            yield name


def _writable(found: _Read) -> Point:
    paths = list(found.inventory.world_writable)
    return Point("world-writable", not paths, _listed(paths, "") or "none")


def _sbom(found: _Read, path: str) -> Point:
    if not path:
        return Point("parts", None, "no list of parts was given (--sbom)")
    stated, real = sbom.read_purls(path), {part.purl for part in found.parts.parts}
    more, less = sorted(real - stated), sorted(stated - real)
    words = [_listed(more, "not in the list"), _listed(less, "not in the image")]
    said = "; ".join(filter(None, words)) or "as listed"
    if found.parts.unread and not more and not less:
        return Point("parts", None, f"{said}, but {_listed(list(found.parts.unread), '')}")
    return Point("parts", not more and not less, said)


def _advisories(found: _Read, matrix: Matrix) -> Point:
    """Advisories of the matrix about the engine, judged by the same rules as on a host."""
    from doctor.diagnose import Request, diagnose

    facts = with_image(Facts(), found.facts)
    targets = diagnose(facts, matrix, Request(scopes=(found.facts.scope.id,))).targets
    listed = [f for t in targets for f in t.findings if f.cause == "engine-vulnerable"]
    serious = [f.message for f in listed if f.severity is not Severity.INFO]
    return Point("advisories", not serious, _listed(serious, "") or "none known")


def _listed(rows: list[str], words: str) -> str:
    if not rows:
        return ""
    more = f" and {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else ""
    return f"{', '.join(rows[:_SHOWN])}{more} {words}".strip()
