"""Answer a person's question about the matrix: which rows speak of what was asked."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import msgspec

from doctor.errors import UsageError
from doctor.facts import Version
from doctor.matrix.amd_products import row_of_pci, row_of_product
from doctor.matrix.claims import ClaimMatch, beyond
from doctor.matrix.domains import IDENTITY
from doctor.matrix.model import EngineDomain, Release
from doctor.matrix.query import Matrix
from doctor.matrix.ranges import covers

Record = dict[str, Any]

_CLAIM_COLUMNS = ("kind", "key", "value", "when", "since", "until", "extrapolated_from")


@dataclass(frozen=True)
class Section:
    """Rows of one kind, as plain values; `columns` are those that a table of them needs."""

    title: str
    rows: tuple[Record, ...]
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Answer:
    """What the matrix says; `found` is False if it lacks the very thing that was asked."""

    title: str
    sections: tuple[Section, ...]
    found: bool = True


def ask(matrix: Matrix, words: tuple[str, ...]) -> Answer:
    """Answer "vllm 0.11.0", "gpu 4090", "driver 550.54" or "cuda 12.8".

    Raises UsageError, with what could be asked, for a question that names nothing known.
    """
    subject, *rest = " ".join(words).replace("==", " ").split() or [""]
    text = " ".join(rest)
    if subject in _SUBJECTS:
        if not text:
            raise UsageError(f"{subject} of what?", f"for example: {_EXAMPLES[subject]}")
        return _SUBJECTS[subject](matrix, text)
    name = matrix.canonical(subject)
    if name is not None:
        return _engine(matrix, name, rest)
    if matrix.gpus_named(f"{subject} {text}"):
        return _gpu(matrix, f"{subject} {text}".strip())
    raise _unknown(matrix, subject)


def _unknown(matrix: Matrix, subject: str) -> UsageError:
    known = (*_SUBJECTS, *matrix.engine_names)
    near = difflib.get_close_matches(subject, known, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    return UsageError(
        f"the matrix knows nothing called {subject[:60]!r}", f"{hint}Ask for: {', '.join(known)}"
    )


def _gpu(matrix: Matrix, text: str) -> Answer:
    gpus = matrix.gpus_named(text) or matrix.gpus_of_pci(text)
    amd = row_of_pci(matrix, text) or row_of_product(matrix, text)
    if not gpus and amd is not None:
        return Answer(f"gpu {text}", (_section("products", (amd,)),))
    if not gpus:
        raise UsageError(
            f"no NVIDIA or AMD GPU fits {text[:60]!r}",
            "write it as nvidia-smi does, or as a PCI id: doctor matrix query gpu 10de:2684",
        )
    return Answer(f"gpu {text}", (_section("products", gpus),))


def _driver(matrix: Matrix, text: str) -> Answer:
    version = _version(text, "driver")
    branch = matrix.branch(version)
    if branch is None:
        newest = f"the newest branch known is {matrix.newest_branch()}"
        return Answer(f"driver {text}: not in the matrix; {newest}", (), found=False)
    cuda = matrix.driver_cuda(version)
    compat = (r for r in matrix.cuda.forward_compat if branch.branch in r.branches)
    sections = (
        _section("branch", (branch,)),
        _section("newest code that its libcuda compiles", _some(cuda and matrix.compiler(cuda))),
        _section("forward-compatibility libraries that may run on it", compat),
    )
    return Answer(f"driver {text}", _filled(sections))


def _cuda(matrix: Matrix, text: str) -> Answer:
    version = _version(text, "cuda")
    wanted = version.release
    toolkits = [
        t for t in matrix.cuda.toolkits if Version(t.version).release[: len(wanted)] == wanted
    ]
    branches = [b for b in matrix.drivers.branches if b.cuda and _same_minor(b.cuda, version)]
    sections = (
        _section("toolkits", toolkits),
        _section("minor-version compatibility", _some(matrix.family(version))),
        _section("compiler", _some(matrix.compiler(version))),
        _section("driver branches that bring it", branches),
        _section("forward compatibility", _some(matrix.forward_compat(version))),
        _section("who may start its images", _some(matrix.image_requirement(version))),
    )
    return Answer(f"cuda {text}", _filled(sections), found=bool(toolkits or branches))


def _ptx(matrix: Matrix, text: str) -> Answer:
    release = _version(text, "ptx").release
    isa = (release[0], release[1] if len(release) > 1 else 0)
    cuda = matrix.cuda_of_isa(isa)
    if cuda is None:
        return Answer(f"ptx {text}: no CUDA version known compiles it", (), found=False)
    return Answer(f"ptx {text}", (_section("first compiled by", _some(matrix.compiler(cuda))),))


def _engine(matrix: Matrix, name: str, rest: list[str]) -> Answer:
    if not rest:
        return _overview(matrix, name)
    version = _version(rest[0], name)
    kinds = frozenset(rest[1:])
    claims = _claims(matrix, name, version, kinds)
    release = matrix.release(name, version)
    title = f"{name} {rest[0]}"
    if release is None and version.is_exact:
        title += f": not in the matrix; the newest release known is {matrix.newest(name)}"
    found = release is not None or (bool(claims.rows) and not version.is_exact)
    return Answer(title, _filled((*_release(None if kinds else release), claims)), found)


def _release(release: Release | None) -> Iterator[Section]:
    if release is None:
        return
    record = _record(release)
    variants = record.pop("variants", ())
    yield Section("release", (record,))
    yield Section("variants", tuple(variants), ("name", "cuda", "archs", "default", "targets"))


def _claims(matrix: Matrix, name: str, version: Version, kinds: frozenset[str]) -> Section:
    domain: EngineDomain = matrix.domain(name)
    kinds_of = (*(c.kind for c in domain.claims), *(r.kind for r in domain.rosters))
    present = dict.fromkeys(kinds_of)
    unknown = kinds - present.keys()
    if unknown:
        raise UsageError(
            f"{name} has no claims about {min(unknown)[:60]!r}", f"kinds: {', '.join(present)}"
        )
    found: Iterable[ClaimMatch]
    if kinds:
        asked = (kind for kind in present if kind in kinds)
        found = chain.from_iterable(matrix.claims(name, kind, version) for kind in asked)
    else:
        # Without what rosters stand for: hundreds of flags and architectures.
        written = (claim for claim in domain.claims if covers(claim, version) is not False)
        found = (ClaimMatch(claim, beyond(claim, version)) for claim in written)
    return Section("claims", tuple(map(_match, found)), () if kinds else _CLAIM_COLUMNS)


def _match(match: ClaimMatch) -> Record:
    beyond_what = {"extrapolated_from": match.extrapolated} if match.extrapolated else {}
    return {**_record(match.claim), **beyond_what}


def _overview(matrix: Matrix, name: str) -> Answer:
    rows = [
        {"version": r.version, "released": r.released, "cuda": r.cuda or "", **_torch(r.pins)}
        for r in matrix.releases(name)
    ]
    return Answer(name, (Section("releases", tuple(rows)),))


def _torch(pins: dict[str, str]) -> Record:
    return {"torch": pins["torch"]} if "torch" in pins else {}


def contents(matrix: Matrix, name: str = "") -> Answer:
    """All rows of one domain, or how many rows each domain has.

    Raises UsageError for a domain that does not exist.
    """
    names = (*matrix.other_names, *matrix.engine_names)
    if not name:
        rows = tuple(_summary(matrix, each) for each in names)
        section = Section("domains", rows, ("domain", "as_of", "rows"))
        return Answer(f"matrix {matrix.version}, {matrix.as_of}", (section,))
    if name not in names:
        raise UsageError(f"no matrix domain {name[:60]!r}", f"domains: {', '.join(names)}")
    domain = matrix.domain(name)
    lists = [field for field in domain.__struct_fields__ if field in IDENTITY]
    return Answer(name, _filled(_section(field, getattr(domain, field)) for field in lists))


def _summary(matrix: Matrix, name: str) -> Record:
    domain = matrix.domain(name)
    lists = [field for field in domain.__struct_fields__ if field in IDENTITY]
    counts = {field.replace("_", " "): len(getattr(domain, field)) for field in lists}
    rows = ", ".join(f"{count} {field}" for field, count in counts.items() if count)
    return {"domain": name, "as_of": getattr(domain, "as_of", ""), "rows": rows}


def _version(text: str, subject: str) -> Version:
    version = Version.maybe(text)
    if version is None or not version.release:
        raise UsageError(
            f"{text[:60]!r} is not a version", f"for example: {_EXAMPLES.get(subject, '0.11.0')}"
        )
    return version


def _same_minor(cuda: str, version: Version) -> bool:
    return Version(cuda).release[:2] == version.release[:2]


def _some(row: Any) -> tuple[Any, ...]:
    return (row,) if row else ()


def _section(title: str, rows: Iterable[Any]) -> Section:
    return Section(title, tuple(_record(row) for row in rows))


def _record(row: Any) -> Record:
    record: Record = msgspec.to_builtins(row)
    return record


def _filled(sections: Iterable[Section]) -> tuple[Section, ...]:
    return tuple(section for section in sections if section.rows)


_SUBJECTS: dict[str, Callable[[Matrix, str], Answer]] = {
    "gpu": _gpu,
    "driver": _driver,
    "cuda": _cuda,
    "ptx": _ptx,
}
_EXAMPLES = {
    "gpu": "doctor matrix query gpu RTX 4090",
    "driver": "doctor matrix query driver 550.54",
    "cuda": "doctor matrix query cuda 12.8",
    "ptx": "doctor matrix query ptx 8.7",
}
