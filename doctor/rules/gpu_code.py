"""Which GPU code the builds of a scope hold: measured in binaries, declared, or known of a release.

Code of one container are alternatives for the same kernels; a package is judged by all of
its containers together, for parts of it may be meant for other cards.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from doctor.facts import Binary, CodeTarget, Kernels, Version
from doctor.findings import Evidence
from doctor.matrix import Matrix
from doctor.matrix.model import Claim, Release, Variant
from doctor.rules.builds import as_cuda, cuda_of_label, package_build, torch_build
from doctor.rules.code_holders import Holder
from doctor.rules.engine import Case, NotApplicable
from doctor.rules.framework import program_rows
from doctor.rules.software import Software, engine, shared_pin, software
from doctor.rules.stated_code import told


def holders(case: Case, matrix: Matrix) -> tuple[Holder, ...]:
    """Everything in the scope that is known to hold GPU code; what was measured comes first."""
    measured = list(_measured(case, matrix)) or list(told(case, matrix))
    names = {holder.name for holder in measured}
    known = [h for h in _known(case, matrix) if h.name not in names]
    return (*measured, *known)


def _measured(case: Case, matrix: Matrix) -> Iterator[Holder]:
    by_package: dict[str, list[Binary]] = {}
    for binary in case.scope.binaries.value or ():
        if binary.kernels:
            by_package.setdefault(binary.package or binary.path, []).append(binary)
    core = core_packages(case, matrix)
    for name, binaries in by_package.items():
        toolkits = [b.toolkit or b.cuda for b in binaries]
        package = case.scope.package(name)
        yield Holder(
            name,
            tuple(kernels for b in binaries for kernels in b.kernels),
            Evidence(_inventory(name, binaries), binaries[0].path),
            is_core=name in core or not binaries[0].package,
            version=package.version if package else None,
            cuda=max((t for t in toolkits if t is not None), key=lambda v: v.low, default=None)
            or _declared_cuda(case, matrix, name),
        )


def _declared_cuda(case: Case, matrix: Matrix, name: str) -> Version | None:
    """The toolkit that a package whose targets are only declared was compiled with."""
    build = torch_build(case, matrix) if name == "torch" else package_build(case, matrix, name)
    return build.cuda if build else None


def _inventory(name: str, binaries: list[Binary]) -> str:
    targets = dict.fromkeys(str(t) for b in binaries for k in b.kernels for t in k.targets)
    how = "declares" if binaries[0].declared else "holds"
    return f"{name} {how} {' '.join(targets)}"


def core_packages(case: Case, matrix: Matrix) -> frozenset[str]:
    """Distributions whose code every run of the engine needs: itself, its kernels, torch."""
    try:
        name = engine(case, matrix).name
    except NotApplicable:
        return frozenset({"torch"})
    domain = matrix.engine(name)
    kernels = (p.name for p in case.scope.packages.value or () if p.name.endswith("-kernel"))
    return frozenset({name, "torch", *(domain.packages if domain else ()), *kernels})


def _known(case: Case, matrix: Matrix) -> Iterator[Holder]:
    torch = case.scope.torch.value
    package = case.scope.package("torch")
    version = torch.version if torch else package.version if package else None
    if version is not None:
        at = case.scope.torch.at or case.scope.packages.at
        yield from of_software(case, matrix, software(matrix, "torch", version, at))
    elif "torch" in case.scope.variants:
        yield from _of_cuda_line(case, matrix, Software("torch", None, at="build_variant"))
    try:
        found = engine(case, matrix)
    except NotApplicable:
        return
    if found.name != "torch" and found.version is not None:
        yield from of_software(case, matrix, found)
        if version is None:
            yield from _pinned_torch(case, matrix, found)
    elif version is None and "torch" not in case.scope.variants:
        yield from _torch_of_program(case, matrix, found.name)


def _pinned_torch(case: Case, matrix: Matrix, found: Software) -> Iterator[Holder]:
    """The torch that the engine's release brings, where nobody stated another one.

    Only for a build of the project's own: who compiles an engine chooses the torch too. What
    no CUDA build of that torch holds is not there; of the default one that is only likely,
    for an index or an image may have brought another.
    """
    pin = re.fullmatch(r"==\s*([\d.]+)", shared_pin(found, "torch"))
    if pin is None or not (found.is_settled and found.is_public_build) or found.beyond:
        return
    brought = software(matrix, "torch", Version(pin[1]), found.at)
    holder = _any_build(case, brought, f"{found.label} brings")
    if holder is None:
        return
    yield holder
    if case.scope.kind not in ("container", "image"):
        plain = of_software(case, matrix, brought)
        yield from (replace(holder, is_core=False, is_assumed=True) for holder in plain)


def _any_build(case: Case, brought: Software, who: str) -> Holder | None:
    """What all CUDA builds of a torch together hold, where that is known of each."""
    arch = case.facts.host.arch.value
    builds = [v for row in brought.rows for v in row.variants if v.cuda and _on(v, arch)]
    if not brought.is_settled or not builds or not all(v.targets for v in builds):
        return None
    targets = dict.fromkeys(t for v in builds for t in v.targets if _is_gpu(t))
    fact = Evidence(f"{who} {brought.label}, built for {' '.join(targets)}", brought.at)
    kernels = (Kernels(tuple(map(CodeTarget.parse, targets))),)
    return Holder("torch", kernels, fact, is_assumed=True, version=brought.version,
                  sources=tuple(brought.rows[0].source))  # fmt: skip


def _torch_of_program(case: Case, matrix: Matrix, name: str) -> Iterator[Holder]:
    """The torch that a program is known to install by itself: likely the one that is there."""
    for claim in program_rows(matrix, name):
        version = Version.maybe(str(claim.data.get("torch", "")))
        brought = software(matrix, "torch", version, "matrix")
        holder = _any_build(case, brought, f"{name} installs") if version else None
        if holder is not None:
            yield replace(holder, is_core=False, sources=claim.source)


def of_software(case: Case, matrix: Matrix, found: Software) -> Iterator[Holder]:
    """The code of a package by the rows of its release; nothing unless all rows tell of it."""
    if found.beyond:
        raise found.unknown()
    rows = [_of_release(case, found, row) for row in found.rows]
    if rows and all(rows):
        kernels = tuple(Kernels(tuple(map(CodeTarget.parse, targets))) for targets in rows)
        fact = Evidence(f"{found.label} is built for {' '.join(rows[0])}", found.at)
        sources = tuple(found.rows[0].source)
        yield Holder(
            found.name,
            kernels,
            fact,
            is_assumed=not _label(case, found),
            version=found.version,
            cuda=_cuda(case, found),
            sources=sources,
        )
    elif found.name == "torch":
        yield from list(_of_script(case, matrix, found)) or _of_cuda_line(case, matrix, found)


def _label(case: Case, found: Software) -> str:
    """The build label of a package, as stated or as part of its version."""
    stated = case.scope.variants.get(found.name, "")
    return stated or (found.version.local if found.version else "")


def _cuda(case: Case, found: Software) -> Version | None:
    stated = cuda_of_label(_label(case, found))
    return stated or as_cuda(found.rows[0].cuda or "") if found.rows else stated


def _of_release(case: Case, found: Software, row: Release) -> tuple[str, ...]:
    """Targets of the build of that release which is installed, or () if not known."""
    label = _label(case, found)
    arch = case.facts.host.arch.value
    wanted = [v for v in row.variants if _fits(v, label, arch)]
    if arch is None:  # what any machine gets; one that gets a CPU build has no code at all
        wanted = [v for v in wanted if v.targets] or wanted
    if wanted and all(v.targets for v in wanted):
        return tuple(dict.fromkeys(t for v in wanted for t in v.targets if _is_gpu(t)))
    if not label and arch in (None, "x86_64"):
        return tuple(dict.fromkeys(t for ts in row.targets.values() for t in ts if _is_gpu(t)))
    return ()


def _fits(variant: Variant, label: str, arch: str | None) -> bool:
    named = variant.name == label if label else variant.default
    return named and (arch is None or not variant.archs or arch in variant.archs)


def _is_gpu(target: str) -> bool:
    return target.startswith(("sm_", "compute_"))


def _of_script(case: Case, matrix: Matrix, found: Software) -> Iterator[Holder]:
    """A release before all rows: what its build script lists for the CUDA of each build.

    Without a label it is any of them, and likely the one that a plain install takes.
    """
    if found.version is None or not found.version.is_exact:
        return
    listed = [match.claim for match in matrix.claims(found.name, "wheel-targets", found.version)]
    torch = case.scope.torch.value
    built = torch.cuda.value if torch is not None else None
    label = _label(case, found) or (f"cu{built.text.replace('.', '')}" if built else "")
    yield from _scripted(found, [c for c in listed if not label or label in c.key.split("|")])
    if not label:
        plain = [m.claim.value for m in matrix.claims(found.name, "cuda", found.version)]
        labels = {f"cu{value.replace('.', '')}" for value in plain}
        default = _scripted(found, [c for c in listed if labels & {*c.key.split("|")}])
        yield from (replace(holder, is_core=False) for holder in default)


def _scripted(found: Software, claims: list[Claim]) -> Iterator[Holder]:
    targets = tuple(dict.fromkeys(target for claim in claims for target in claim.value.split()))
    if targets:
        fact = Evidence(f"{found.label} is built for {' '.join(targets)}", found.at)
        kernels = (Kernels(tuple(map(CodeTarget.parse, targets))),)
        sources = tuple(dict.fromkeys(s for claim in claims for s in claim.source))
        yield Holder(found.name, kernels, fact, is_assumed=True, version=found.version,
                     sources=sources)  # fmt: skip


def _of_cuda_line(case: Case, matrix: Matrix, found: Software) -> Iterator[Holder]:
    """A torch of no known release, such as a nightly, or of no stated one.

    It is taken to hold what every known build for its CUDA holds.
    """
    domain = matrix.engine("torch")
    cuda = cuda_of_label(_label(case, found))
    if domain is None or cuda is None:
        return
    arch = case.facts.host.arch.value
    same = [v for v in _variants(domain.releases, cuda) if _on(v, arch)]
    targets = tuple(dict.fromkeys(t for v in same for t in v.targets if _is_gpu(t)))
    if targets:
        fact = Evidence(
            f"{found.label}: all known builds for CUDA {cuda} together hold {' '.join(targets)}",
            found.at,
        )
        kernels = (Kernels(tuple(map(CodeTarget.parse, targets))),)
        sources = tuple(dict.fromkeys(s for v in same for s in v.source))[:3]
        yield Holder("torch", kernels, fact, version=found.version, cuda=cuda, sources=sources)


def _variants(releases: Iterable[Release], cuda: Version) -> Iterator[Variant]:
    for release in releases:
        for variant in release.variants:
            own = Version.maybe(variant.cuda)
            if own is not None and own.same_as(cuda) is True:
                yield variant


def _on(variant: Variant, arch: str | None) -> bool:
    return arch is None or not variant.archs or arch in variant.archs
