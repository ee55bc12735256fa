"""Rules about the Python itself: is there a build of engine and framework for it?"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from doctor.facts import Package, PythonInfo, Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.matrix.model import Release
from doctor.rules.engine import Case, Fault, NotApplicable, Severity, rule
from doctor.rules.image_facts import is_named_after
from doctor.rules.relevance import is_relevant
from doctor.rules.software import (
    Software,
    admits,
    engine,
    installed,
    lacks_wheel,
    pythons,
    shared_pin,
    software,
)

# Pinned by engines, and published as wheels alone, or refusing any other Python themselves.
WHEELS_ONLY = ("torch", "vllm-flash-attn", "numba")
# What programs on an engine pin: it has a source archive, whose build nobody means.
_PINNED = (*WHEELS_ONLY, "vllm")


def need_installing(case: Case, found: Software) -> None:
    """`NotApplicable` for an engine of unknown version that an image brings with its Python."""
    if found.version is None and is_named_after(case.scope, found.name):
        raise NotApplicable("the image brings the engine and its Python together")


def _python(case: Case) -> PythonInfo:
    return case.scope.python.known("python")


def _evidence(case: Case, python: PythonInfo) -> Evidence:
    build = " free-threaded" if python.abi == "t" else ""
    return Evidence(f"Python {python.version}{build}", case.scope.python.at)


def _minor(version: Version) -> str:
    """Major and minor of a Python version; "" where not even the minor is known."""
    release = version.release
    return f"{release[0]}.{release[1]}" if len(release) > 1 else ""


def _use_another(versions: str, package: str) -> Remedy:
    """A new environment; `versions` is a specifier or the versions there are wheels for."""
    wanted = shlex.quote(versions.rpartition(", ")[2])
    return Remedy(
        f"make an environment with Python {versions} and install {package} there",
        (
            f"uv venv --python {wanted} .venv",
            f"uv pip install --python .venv {shlex.quote(package)}",
        ),
        role="python_env",
    )


@rule("PYE101", cause="python-unsupported", severity=Severity.ERROR, gate=True)
def python_out_of_range(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The engine's release does not allow this Python version.

    What: the Python of the environment against Requires-Python of the engine's release.
    Why: pip and uv pass over a release whose range leaves the Python out; they take an
        older one without a word, or say that no distribution matches.
    How to fix: an environment with a Python inside the range; or the newest release of
        the engine that still allows this Python.
    Silent when: the engine is no Python package, or its releases state no range; or no version
        is stated and releases from before those that are listed may take it.
    Sources: METADATA of the wheels (rows in the matrix); PEP 345.
    """
    found = engine(case, matrix)
    need_installing(case, found)
    ranges = [_range(matrix, found, row) for row in found.rows]
    if not any(spec for spec, _ in ranges):
        domain = matrix.engine(found.name)
        if domain is not None and domain.releases and not found.rows:
            raise found.unknown()
        raise NotApplicable(f"{found.name} states no Python range")
    python = _python(case)
    answers = {allows(spec, python.version) for spec, _ in ranges}
    if _may_be_before_the_list(found, python):
        raise found.unknown()
    if answers == {False}:
        spec, sources = ranges[0]
        yield Fault(
            f"{found.label} needs Python {spec.replace('|', ' or ')}; this is {python.version}",
            evidence=(_evidence(case, python), found.evidence),
            remedies=(_use_another(spec.replace("|", ", "), found.name),),
            sources=sources,
            extrapolated=found.beyond,
        )
    elif found.version is None and allows(ranges[0][0], python.version) is False:
        yield _newer_excluded(case, found, python, ranges[0])
    elif answers != {True} or found.beyond:
        raise found.unknown()


def _may_be_before_the_list(found: Software, python: PythonInfo) -> bool:
    """No version is stated, and releases older than the matrix lists took Pythons as old as this.

    A list that begins before the first major version has nearly all releases.
    """
    if (
        found.version is not None
        or not found.rows
        or not Version(found.rows[-1].version).release[0]
    ):
        return False
    listed = [Version(text) for text in pythons(found.rows[-1]) if not text.endswith("t")]
    return bool(listed) and all(one.newer_than(python.version) is True for one in listed)


def _newer_excluded(
    case: Case, found: Software, python: PythonInfo, newest: tuple[str, tuple[str, ...]]
) -> Fault:
    """No version is stated: an installer would pass over the newest releases in silence."""
    return Fault(
        f"the newest {found.name} needs Python {newest[0]}; on {python.version} an installer "
        "takes an older one",
        evidence=(_evidence(case, python),),
        remedies=(_use_another(newest[0].replace("|", ", "), found.name),),
        sources=newest[1],
        severity=Severity.INFO,
    )


def _range(matrix: Matrix, found: Software, row: Release) -> tuple[str, tuple[str, ...]]:
    """Python versions of a release: what a claim says of it, else its own Requires-Python."""
    for match in matrix.claims(found.name, "python", Version(row.version)):
        if not match.claim.when:
            return match.claim.value, match.claim.source
    return row.requires_python, row.source


def allows(spec: str, python: Version) -> bool | None:
    """Tell whether a specifier or a list ("3.10|3.12") holds a Python version."""
    if not spec:
        return True
    if spec[0] in "<>=!~":
        return admits(spec, _final(python))
    minor = _minor(python)
    return minor in spec.split("|") if minor else None


def _final(python: Version) -> Version:
    """An interpreter stated as "3.10" is a final release of it, not a candidate before 3.10.0."""
    if not python.text.endswith(".*") or len(python.release) != 2:
        return python
    major, minor = python.release
    return Version(f">={major}.{minor},<{major}.{minor + 1}")


@rule("PYE102", cause="python-unsupported", severity=Severity.ERROR)
def no_wheel_for_python(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """No wheel of the engine, or of what it pins, exists for this Python version.

    What: the CPython tags of the release's wheels, and of those of the torch and the
        FlashAttention that it pins, against the Python of the environment.
    Why: without a wheel pip falls back to a source build or fails with "no matching
        distribution", whatever Requires-Python says.
    How to fix: an environment with one of the Python versions for which wheels exist.
    Silent when: the matrix lists no Python versions for the release (abi3 or pure wheels).
    Sources: file names of the package index; classifiers where wheels are hosted elsewhere.
    """
    found = engine(case, matrix)
    need_installing(case, found)
    python = _python(case)
    minor = _minor(python.version)
    pinned = (_pinned(matrix, found, name) for name in _PINNED)
    beside = (installed(case, matrix, name) for name in WHEELS_ONLY[1:])
    subjects = {s.name: s for s in (found, *pinned, *beside) if s is not None}.values()
    for subject in subjects:
        if not subject.rows or not minor or _may_be_before_the_list(subject, python):
            continue
        if all(lacks_wheel(row, minor) for row in subject.rows):
            yield _no_wheel(case, subject, python)


def _pinned(matrix: Matrix, found: Software, name: str) -> Software | None:
    pin = shared_pin(found, name)
    exact = pin.removeprefix("==")
    version = Version.maybe(exact) if pin.startswith("==") else None
    return software(matrix, name, version) if version is not None else None


def _no_wheel(case: Case, found: Software, python: PythonInfo) -> Fault:
    offered = _sorted({p for row in found.rows for p in pythons(row) if not p.endswith("t")})
    return Fault(
        f"{found.label} has no wheel for Python {_minor(python.version)}; "
        f"it has some for {', '.join(offered)}",
        evidence=(_evidence(case, python), found.evidence),
        remedies=(_use_another(", ".join(offered), found.name),),
        sources=found.rows[0].source,
        extrapolated=found.beyond,
    )


def _sorted(pythons: set[str]) -> list[str]:
    return sorted(pythons, key=lambda text: Version(text).low)


@rule("PYE103", cause="python-unsupported", severity=Severity.ERROR)
def free_threaded_python(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The Python is free-threaded, and the engine has no build for that ABI.

    What: the ABI suffix of the Python ("t") against the Python versions of the release.
    Why: wheels for the ordinary ABI, abi3 ones too, do not load in a free-threaded Python.
    How to fix: an environment with the ordinary build of the same Python version.
    Silent when: the release lists a wheel with the "t" tag.
    Sources: PEP 703; file names of the package index (rows in the matrix).
    """
    python = _python(case)
    if python.abi != "t":
        return
    found = engine(case, matrix)
    if not found.rows:
        raise found.unknown()
    wanted = f"{_minor(python.version)}t"
    if all(wanted not in pythons(row) for row in found.rows):
        yield Fault(
            f"{found.label} has no wheel for free-threaded Python {_minor(python.version)}",
            evidence=(_evidence(case, python), found.evidence),
            remedies=(_use_another(_minor(python.version), found.name),),
            sources=found.rows[0].source,
        )


@rule("PYE104", cause="python-unsupported", severity=Severity.ERROR)
def package_for_other_python(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """An installed distribution was built for another Python than the one that runs it.

    What: the wheel tags and Requires-Python of each installed distribution against the
        Python of the environment.
    Why: extension modules carry the tag of one Python version; another does not import
        them. It happens when an environment is copied, its Python is replaced, or
        PYTHONPATH points into another environment.
    How to fix: make the environment anew with the Python that is meant, and install again.
    Silent when: the wheel is pure Python or abi3 of an older Python. Error only for
        packages that the engine needs, else info; a warning if it alone is odd among
        others built for this Python, for a wheel may be tagged wrongly.
    Sources: PEP 425 (tags), PEP 384 (stable ABI), core metadata (Requires-Python).
    """
    python = _python(case)
    packages = case.scope.packages.known("packages")
    found = [(package, reason) for package in packages if (reason := _unfit(package, python))]
    own = f"-cp{(_minor(python.version) or '').replace('.', '')}{python.abi}-"
    is_odd = len(found) == 1 and any(own in tag for package in packages for tag in package.tags)
    is_odd = is_odd and not _refuses(found[0][0], python)
    severity = Severity.WARNING if is_odd else None
    for package, reason in found:
        yield Fault(
            f"{package.name} {package.version} {reason}; this is Python {python.version}",
            evidence=(_evidence(case, python), Evidence(package.name, package.location)),
            remedies=(_use_another(_minor(python.version), package.name),),
            severity=severity if is_relevant(case, matrix, package.name) else Severity.INFO,
        )


def _refuses(package: Package, python: PythonInfo) -> bool:
    required = package.requires_python
    return bool(required) and admits(required, python.version) is False


def _unfit(package: Package, python: PythonInfo) -> str:
    if _refuses(package, python):
        return f"requires Python {package.requires_python}"
    tags = [tag.split("-") for tag in package.tags if tag.count("-") >= 2]
    minor = _minor(python.version)
    if tags and minor and not any(tag_fits(tag[0], tag[1], minor, python.abi) for tag in tags):
        return f"was built for {', '.join(sorted({'-'.join(tag[:2]) for tag in tags}))}"
    return ""


def tag_fits(interpreter: str, abi: str, minor: str, suffix: str) -> bool:
    """Tell whether one wheel tag loads; only CPython's own tags are judged."""
    if not interpreter.startswith("cp"):
        return True
    own = "cp" + minor.replace(".", "")
    if abi == "abi3":
        return not suffix and _order(interpreter) <= _order(own)
    if abi == "none":
        return _order(interpreter) <= _order(own)
    return abi == own + suffix


def _order(interpreter: str) -> tuple[int, int]:
    digits = interpreter.removeprefix("cp")
    return (int(digits[:1]), int(digits[1:9] or 0)) if digits.isdecimal() else (0, 0)


RULES = (python_out_of_range, no_wheel_for_python, free_threaded_python, package_for_other_python)
