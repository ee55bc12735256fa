"""Which engine is meant, in which version or versions, and what is installed beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from doctor.facts import Missing, MissingFact, Package, Scope, Specifier, Version
from doctor.facts.engines import ENGINE_ORDER
from doctor.findings import Evidence
from doctor.matrix import Matrix
from doctor.matrix.model import Release
from doctor.rules.engine import Case, NotApplicable

_OPEN_PIN = re.compile(r"\*|>=?[^,]*")
# Local labels of builds that follow the public release: others were built by someone else.
_PUBLIC_LABELS = ("", "cpu", "empty")
# What a build of a checkout without tags is called: such a number says nothing of its age.
_UNNUMBERED = re.compile(r"0\.(?:0\.0|0|1)\.dev\d{1,6}(?:\+\S{0,60})?|0\.0\.0(?:\+\S{0,60})?")


@dataclass(frozen=True)
class Software:
    """An engine or framework and what is known of its version.

    `rows` are the releases of the matrix that it may be: one if the version is exact and
    known, its neighbours if it lies between two, all that fit if it is stated loosely.
    `beyond` names the newest release of the matrix if the version is newer than that.
    `checkout` tells of a build without a number of its own, which may be of any age.
    """

    name: str
    version: Version | None
    rows: tuple[Release, ...] = ()
    beyond: str = ""
    at: str = ""
    checkout: bool = False

    @property
    def is_settled(self) -> bool:
        """True if there is one version and the matrix has a row of exactly that."""
        return self.version is not None and self.version.is_exact and len(self.rows) == 1

    @property
    def versions(self) -> tuple[Version, ...]:
        """The versions that it may be, newest first; empty if nothing narrows them."""
        if self.version is not None and (self.version.is_exact or not self.rows):
            return (self.version,)
        return tuple(Version(row.version) for row in self.rows)

    @property
    def is_public_build(self) -> bool:
        """False for a development build or one with a vendor's label, whose pins are its own."""
        label = self.version.local if self.version is not None else ""
        is_development = self.version is not None and ".dev" in self.version.text
        is_public = label in _PUBLIC_LABELS or label.startswith("cu1")
        return is_public and not is_development and not self.checkout

    @property
    def label(self) -> str:
        """How a message names it: "vllm 0.11.0"."""
        return f"{self.name} {self.version}" if self.version is not None else self.name

    @property
    def evidence(self) -> Evidence:
        """The version as evidence."""
        return Evidence(self.label, self.at)

    def unknown(self) -> MissingFact:
        """The exception that says which fact would settle the version."""
        if self.beyond:
            return MissingFact(
                f"matrix rows of {self.name} newer than {self.beyond}", Missing.NOT_STATED
            )
        if self.version is not None and self.version.is_exact:
            return MissingFact(f"matrix row of {self.label}", Missing.NOT_STATED)
        return MissingFact(f"version of {self.name}", Missing.NOT_STATED, self.at)


def engine_name(case: Case, matrix: Matrix) -> str:
    """The engine that is run or wanted, else the main one of the scope."""
    if case.workload is not None and case.workload.engine:
        return matrix.canonical(case.workload.engine) or case.workload.engine
    names = matrix.engine_packages
    held = {names[p.name] for p in case.scope.packages.value or () if p.name in names}
    for name in ENGINE_ORDER:
        if name in held:
            return name
    raise NotApplicable("no engine or framework in this scope")


def engine(case: Case, matrix: Matrix) -> Software:
    """The engine of this case with its version; `NotApplicable` if there is none."""
    name = engine_name(case, matrix)
    version, at = _engine_version(case, matrix, name)
    found = software(matrix, name, version, at)
    return _narrowed_by_torch(found, case) if found.version is None else found


def engine_version(case: Case, matrix: Matrix) -> Version:
    """The version of the engine; raises `MissingFact` if it is not known."""
    found = engine(case, matrix)
    if found.version is None:
        raise found.unknown()
    return found.version


def _engine_version(case: Case, matrix: Matrix, name: str) -> tuple[Version | None, str]:
    work = case.workload
    if work is not None and work.version.value is not None:
        return work.version.value, work.version.at
    domain = matrix.engine(name)
    carried = case.scope.package(name, *(domain.packages if domain else ()))
    if carried is not None and carried.version is not None:
        return carried.version, carried.location or case.scope.packages.at
    version = _image_version(case.scope, matrix, name)
    return version, "image tag" if version else ""


def _image_version(scope: Scope, matrix: Matrix, name: str) -> Version | None:
    """The version in the tag of an image that the matrix knows to carry the engine."""
    repository, _, tag = scope.image.ref.partition("@")[0].rpartition(":")
    keys = [match.claim.key for match in matrix.claims(name, "image") if match.claim.key]
    if not any(repository == key or repository.endswith("/" + key) for key in keys):
        return None
    return Version.maybe(tag.partition("-")[0].removeprefix("v"))


def installed(case: Case, matrix: Matrix, *names: str) -> Software | None:
    """One of these distributions as it is installed in the scope, or None."""
    package = case.scope.package(*names)
    if package is None or package.version is None:
        return None
    at = package.location or case.scope.packages.at
    return software(matrix, package.name, package.version, at)


def software(matrix: Matrix, name: str, version: Version | None, at: str = "") -> Software:
    """Put a name and version beside the releases of the matrix that it may be."""
    domain = matrix.engine(name) or matrix.engine(matrix.engine_packages.get(name, ""))
    if domain is None or not domain.releases:
        return Software(name, version, at=at)
    unnumbered = version is not None and _UNNUMBERED.fullmatch(version.text) is not None
    if version is None or unnumbered:
        return Software(name, None, domain.releases, at=at, checkout=unnumbered)
    rows = _possible(matrix, domain.name, version)
    newest = matrix.newest(domain.name)
    past = newest is not None and version.newer_than(newest) is True
    inside = rows and rows[0].version == str(version)
    beyond = str(newest) if past and not inside else ""
    return Software(name, version, rows, beyond, at)


def _possible(matrix: Matrix, name: str, version: Version) -> tuple[Release, ...]:
    """Rows that a version may be; for one that has no row, the rows next to it."""
    exact = matrix.release(name, version)
    if exact is not None:
        return (exact,)
    public = Version(version.public) if version.is_exact else version
    pairs = matrix.versions(name)
    same = tuple(row for row, its in pairs if its.same_as(public) is not False)
    if same or not version.is_exact:
        return same
    below = max((p for p in pairs if p[1].low < public.low), key=lambda p: p[1].low, default=None)
    above = min((p for p in pairs if p[1].low > public.low), key=lambda p: p[1].low, default=None)
    if below is None:
        return ()
    return tuple(pair[0] for pair in (above, below) if pair is not None)


def _narrowed_by_torch(found: Software, case: Case) -> Software:
    """Leave only releases whose torch pin admits the torch that is installed."""
    torch = torch_version(case)
    if torch is None or not torch.is_exact or found.name == "torch":
        return found
    # A pin without an upper bound admits every later torch: it tells nothing beside others.
    bounded = [row for row in found.rows if not is_open(row.pins.get("torch", ""))]
    fitting = tuple(row for row in bounded or found.rows if _admits_torch(row, torch))
    # Where all that fit are releases without a known pin, the torch tells nothing of the release.
    is_told = any(row.pins.get("torch") for row in fitting)
    return replace(found, rows=fitting) if is_told else found


def index_command(matrix: Matrix, name: str, spec: str) -> tuple[str, ...]:
    """The command that installs an engine from the package index; none if it is not from there.

    What has the name of such an engine on the index is something else: ollama is a client.
    """
    is_there = matrix.engine_packages.get(name) == name
    return (f"uv pip install '{name}{spec}'",) if is_there else ()


def is_open(pin: str) -> bool:
    """Tell whether a pin admits every later version."""
    return _OPEN_PIN.fullmatch(pin) is not None


def _admits_torch(row: Release, torch: Version) -> bool:
    pin = Specifier.parse(row.pins.get("torch", ""))
    return pin is None or pin.admits(Version(torch.public)) is not False


def torch_version(case: Case) -> Version | None:
    """The torch of the scope with its local label, or None if not known."""
    package = case.scope.package("torch")
    if package is not None and package.version is not None and package.version.local:
        return package.version
    build = case.scope.torch.value
    if build is not None:
        return build.version
    return package.version if package is not None else None


def packages(case: Case) -> Iterator[Package]:
    """Installed distributions whose version is known."""
    return (p for p in case.scope.packages.value or () if p.version is not None)


def admits(spec: str, version: Version) -> bool | None:
    """Tell whether a specifier admits a version; None if its bounds leave it open.

    A local label is left out, as installers do; the same text on both sides is a yes.
    """
    if spec.replace(" ", "") == str(version).replace(" ", ""):
        return True
    parsed = Specifier.parse(spec)
    if parsed is None:
        return None
    public = version.public if version.is_exact and "+" not in spec else str(version)
    return parsed.admits(Version(public))


def shared_pin(found: Software, package: str) -> str:
    """The specifier that all possible releases pin for a package, or "" if they differ."""
    pins = {row.pins.get(package, "") for row in found.rows}
    return pins.pop() if len(pins) == 1 else ""


def pythons(row: Release) -> frozenset[str]:
    """Python versions for which a release has wheels: "3.11", "3.14t"; empty if all will do."""
    return frozenset(_python_of_tag(tag) for tag in row.pythons)


def lacks_wheel(row: Release, minor: str) -> bool:
    """Tell whether a release has wheels, and none for a Python such as "3.13"."""
    return bool(row.pythons) and minor not in pythons(row)


def _python_of_tag(tag: str) -> str:
    digits = tag.removeprefix("cp")
    return f"{digits[:1]}.{digits[1:]}" if digits != tag else tag
