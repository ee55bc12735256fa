"""Is the C++ library of the scope new enough for what is installed in it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.facts import Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules.decide import each, missed, need_contents
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.host_libc import distribution
from doctor.rules.settings import covering, holds, settings
from doctor.rules.software import engine

# GCC's symbol versions, as loaders name them.
_SYMBOL = re.compile(r"(?:GLIBCXX|CXXABI)_\d[\d.]{0,12}")


@rule("HST111", cause="libstdcxx-too-old", severity=Severity.ERROR)
def libstdcxx_too_old(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The C++ library is older than a binary needs.

    What: the GLIBCXX symbol versions that binaries of the scope ask for against the
        newest that the system's libstdc++ has.
    Why: the loader refuses the binary with "version `GLIBCXX_...' not found", or misses
        a symbol of a newer compiler.
    How to fix: a newer libstdc++ in the environment (conda-forge has one), a container
        image, or a build made with the system's own compiler.
    Silent when: the environment is one of conda, which brings its own C++ library, and no
        version was looked for in vain.
    Sources: GCC libstdc++ manual, ABI policy; symbol versions read from the binaries.
    """
    absent = missed(case, _SYMBOL)
    if absent:
        yield _without(absent[0])
        return
    if case.scope.kind == "conda":
        raise NotApplicable("conda brings its own C++ library")
    need_contents(case)
    yield from each((lambda: _older_symbols(case, matrix), lambda: _older_claimed(case, matrix)))


def _without(symbol: str) -> Fault:
    return Fault(
        message=f"the C++ library that is found first has no {symbol}",
        evidence=(Evidence(f"{symbol} was not found", "absent"),),
        remedies=_newer(),
    )


def _newer() -> tuple[Remedy, ...]:
    return (
        Remedy(
            "put a newer C++ library into the environment",
            ("conda install -c conda-forge libstdcxx-ng",),
            role="python_env",
        ),
        Remedy("or run the engine from its container image"),
    )


def _older_claimed(case: Case, matrix: Matrix) -> Iterator[Fault]:
    found = engine(case, matrix)
    setting = settings(case, matrix)[0]
    claims = [m for m in covering(matrix, found, "libstdcxx") if holds(m.claim, setting)]
    if not claims:
        raise NotApplicable(f"no C++ library is known that {found.name} needs")
    have, at = _libstdcxx(case, matrix)
    claim = claims[0].claim
    if have.older_than(Version(claim.value)) is True:
        yield Fault(
            message=f"{found.label} needs GLIBCXX_{claim.value}, and libstdc++ here ends at {have}",
            evidence=(found.evidence, Evidence(f"newest GLIBCXX_{have}", at)),
            remedies=(Remedy(claim.remedy),) if claim.remedy else (),
            sources=tuple(claim.source),
            extrapolated=claims[0].extrapolated,
        )


def _older_symbols(case: Case, matrix: Matrix) -> Iterator[Fault]:
    asking = [b for b in case.scope.binaries.known("scope.binaries") if b.glibcxx is not None]
    if not asking:
        raise NotApplicable("no binary asks for a C++ symbol version")
    have, at = _libstdcxx(case, matrix)
    for binary in asking:
        if binary.glibcxx is not None and have.older_than(binary.glibcxx) is True:
            yield Fault(
                message=f"{binary.package or binary.path} needs GLIBCXX_{binary.glibcxx}, "
                f"and libstdc++ here ends at {have}",
                evidence=(
                    Evidence(f"{binary.path} asks for GLIBCXX_{binary.glibcxx}", binary.path),
                    Evidence(f"newest GLIBCXX_{have}", at),
                ),
                remedies=_newer(),
            )
            return


def _libstdcxx(case: Case, matrix: Matrix) -> tuple[Version, str]:
    own = case.facts.host.libstdcxx
    if own.value is not None and case.scope.kind not in ("container", "image"):
        return own.value, own.at
    row = None if case.scope.kind in ("container", "image") else distribution(case, matrix)
    version = Version.maybe(row.libstdcxx) if row else None
    if row is not None and version is not None:
        return version, f"{row.id}, {row.source[0]}"
    return own.known("host.libstdcxx"), ""


RULES: tuple[Rule, ...] = (libstdcxx_too_old,)
