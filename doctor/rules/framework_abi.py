"""Rules about compiled extensions that were built against something else."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from doctor.binaries.demangle import demangle
from doctor.facts import Binary, Package, Specifier, Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules.builds import is_without_cuda
from doctor.rules.engine import Case, Fault, NotApplicable, Severity, rule
from doctor.rules.settings import covering
from doctor.rules.software import Software, admits, packages, software, torch_version

# Starts of mangled names, and of plain ones, by the library that should define them.
_TORCH_SYMBOLS = ("_ZN3c10", "_ZNK3c10", "_ZN2at", "_ZNK2at", "_ZN5torch", "_ZNK5torch", "_ZTVN")
_SHOWN = 3
# Wheels of release pages say in their label what they are for: "+cu12torch2.8cxx11abiTRUE".
_LABEL = re.compile(r"torch(\d+\.\d+)(?:\.\d+)?(andhigher)?")
_TORCH_IN_WORDS = re.compile(r"(?:py)?torch[ =]{1,3}(\d+\.\d+(?:\.\d+)?)", re.IGNORECASE)
# A torch's version by its own label: 2.3.0+cu121.
_TORCH_LABEL = re.compile(r"\d+\.\d+\.\d+\+(?:cu\d+|cpu|rocm[\d.]+|xpu)")
_CUDA_LABEL = re.compile(r"cu(1\d)\d\b")
_OF_NVIDIA = re.compile(r"nvcr\.io/nvidia/pytorch:")  # its torch has the new C++ ABI
_ABI = re.compile(r"cxx11abi(true|false)", re.IGNORECASE)
_TRIO = ("torch", "torchvision", "torchaudio")  # a rule of their own
# Kernels that an engine pins, and whose own metadata name no torch.
_KERNELS = {"sgl-kernel": "sglang", "sglang-kernel": "sglang"}
EXTENSIONS = (
    "xformers",
    "flash-attn",
    "sgl-kernel",
    "vllm-flash-attn",
    "autoawq-kernels",
)


def _reinstall(name: str, torch: Version | None) -> Remedy:
    beside = f" torch=={torch.public}" if torch is not None and torch.is_exact else ""
    package = shlex.quote(name)
    return Remedy(
        f"install a build of {name} for the torch that is here",
        (
            f"uv pip install --reinstall {package}{beside}",
            f"pip install --no-build-isolation --no-binary {package} {package}",
        ),
        role="python_env",
    )


@rule("FRM301", cause="abi-mismatch", severity=Severity.ERROR)
def extension_for_other_torch(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """An extension was built against another torch than the one that is installed.

    What: for each installed distribution with compiled torch code, the torch that its
        release was built against (the matrix), or that is stated, against the torch here.
    Why: torch keeps no stable C++ ABI between minor releases; the import ends in
        "undefined symbol: _ZN3c10...".
    How to fix: the build of the extension that pairs with the torch, or the torch that
        the engine pins.
    Silent when: the extension uses torch's stable ABI, or the pair is not in the matrix. A
        warning where only the patch level of torch is another.
    Sources: METADATA of the extensions (rows in the matrix); PyTorch ABI notes.
    """
    torch = torch_version(case)
    old = tuple(_old_abi_at_nvidia(case))
    yield from old
    if torch is None and old:
        return
    if torch is None:
        case.scope.packages.known("packages")
        raise NotApplicable("no torch in this scope")
    listed = tuple(packages(case))
    known = {package.name for package in listed}
    told = (Package(name) for name in case.scope.built_for if name not in known)
    for package in (*listed, *told):
        yield from _other_abi(case, matrix, package, torch)
        yield from _other_build(case, package, torch)
        spec, sources = _built_for(case, matrix, package, torch)
        if spec and admits(spec, torch) is False and not _fits_too(matrix, package, spec, torch):
            yield Fault(
                f"{_named(package)} was built for torch{spec}; {torch} is here",
                evidence=_both(case, package, torch),
                remedies=(_reinstall(package.name, torch),),
                sources=sources,
                severity=Severity.WARNING if _is_doubtful(package, spec, torch, matrix) else None,
            )


def _old_abi_at_nvidia(case: Case) -> Iterator[Fault]:
    """A wheel for the old C++ ABI in NVIDIA's image, whose own torch has the new one."""
    ref = case.scope.image.ref
    for package in packages(case) if _OF_NVIDIA.match(ref) else ():
        local = package.version.local if package.version is not None else ""
        named = _ABI.search(local) or _ABI.search(case.scope.variants.get(package.name, ""))
        if named is not None and named[1].lower() == "false":
            yield Fault(
                f"{_named(package)} is for a torch with the old C++ ABI, and {ref} has the new one",
                evidence=(Evidence(_named(package), package.location), Evidence(ref, "image")),
                remedies=(_reinstall(package.name, None),),
                sources=("https://github.com/Dao-AILab/flash-attention/issues/836",),
            )


def _fits_too(matrix: Matrix, package: Package, spec: str, torch: Version) -> bool:
    """Tell whether the project says that a wheel for this torch serves another one as well."""
    name = matrix.engine_packages.get(package.name, "")
    built = spec.removeprefix("==").removesuffix(".*")
    claims = matrix.claims(name, "torch-abi", package.version, built) if name else ()
    return any(admits(match.claim.value, torch) is True for match in claims)


def _named(package: Package) -> str:
    return f"{package.name} {package.version}" if package.version is not None else package.name


def _is_doubtful(package: Package, spec: str, torch: Version, matrix: Matrix) -> bool:
    """Another patch level alone, or the torch is told by the engine that pins the kernel."""
    return _is_patch(spec, torch) or bool(_by_engine(matrix, package)[0])


def _is_patch(spec: str, torch: Version) -> bool:
    """Tell whether only the patch level differs: torch keeps its C++ ABI within a minor release."""
    pinned = Version(spec.removeprefix("==").removesuffix(".*"))
    return (pinned.major, pinned.minor) == (torch.major, torch.minor)


def _other_abi(case: Case, matrix: Matrix, package: Package, torch: Version) -> Iterator[Fault]:
    """A wheel whose label names the other C++ ABI than that of the torch wheels of the index."""
    local = package.version.local if package.version is not None else ""
    named = _ABI.search(local) or _ABI.search(case.scope.variants.get(package.name, ""))
    labelled = torch.local == "" or torch.local.startswith("cu1")
    is_foreign = _OF_NVIDIA.match(case.scope.image.ref)
    if named is None or torch.is_prerelease or not labelled or is_foreign:
        return
    beside = software(matrix, "torch", torch, case.scope.torch.at)
    for match in covering(matrix, beside, "cxx11-abi"):
        if match.claim.value.lower() != named[1].lower():
            yield Fault(
                f"{_named(package)} is for a torch with cxx11abi{named[1].upper()}; "
                f"{torch} of the index has {match.claim.value}",
                evidence=(Evidence(f"{package.name} {package.version}", package.location),),
                remedies=(_reinstall(package.name, torch),),
                sources=match.claim.source,
            )


def _both(case: Case, package: Package, torch: Version) -> tuple[Evidence, Evidence]:
    """The package and the torch that do not go together."""
    here = Evidence(f"torch {torch}", case.scope.torch.at)
    return Evidence(_named(package), package.location), here


def _other_build(case: Case, package: Package, torch: Version) -> Iterator[Fault]:
    """Built against a torch for the GPU and used with one for the CPU, or the other way round."""
    stated = case.scope.built_for.get(package.name, "").lower().partition("+")[2]
    if stated and torch.local and is_without_cuda(stated) != is_without_cuda(torch.local):
        yield Fault(
            f"{_named(package)} was built for a torch +{stated}; {torch} is here",
            evidence=_both(case, package, torch),
            remedies=(_reinstall(package.name, torch),),
        )
    built = _CUDA_LABEL.match(stated)
    here = _CUDA_LABEL.match(torch.local)
    if built and here and built[1] != here[1]:
        yield Fault(
            f"{_named(package)} was built for a torch of CUDA {built[1]}; {torch} is here",
            evidence=_both(case, package, torch),
            remedies=(_reinstall(package.name, torch),),
        )


def _built_for(
    case: Case, matrix: Matrix, package: Package, torch: Version
) -> tuple[str, tuple[str, ...]]:
    """The torch that a distribution was compiled against as an exact specifier, or ""."""
    stated = case.scope.built_for.get(package.name, "").lower()
    if stated.startswith("torch") or _TORCH_LABEL.fullmatch(stated):
        version = stated.removeprefix("torch").strip(" =").partition("+")[0]
        return (f"=={version}.*" if Specifier.parse(f"=={version}.*") else "", ())
    local = package.version.local if package.version is not None else ""
    variant = case.scope.variants.get(package.name, "").lower()
    labelled = _LABEL.search(local) or _LABEL.search(stated) or _LABEL.search(variant)
    if labelled is not None:
        return f">={labelled[1]}" if labelled[2] else f"=={labelled[1]}.*", ()
    if package.name in _TRIO or not _is_extension(matrix, package.name):
        return "", ()
    found: Software = software(matrix, matrix.engine_packages[package.name], package.version)
    specs = [row.pins.get("torch", "") for row in found.rows]
    if not any(specs):
        # A vendor's own torch has kernels of the vendor beside it.
        is_public = not torch.is_prerelease and (torch.local == "" or torch.local[:3] == "cu1")
        return _by_engine(matrix, package) if is_public else ("", ())
    if not all(spec.startswith("==") for spec in specs):
        return "", ()
    # Of a version that is stated loosely, the nearest; any that admits this torch is enough.
    fitting = [spec for spec in specs if admits(spec, torch) is not False]
    is_loose = package.version is None or not package.version.is_exact
    if len(set(specs)) > 1 and not is_loose:
        return "", ()
    return (fitting or specs)[0], found.rows[0].source


def _by_engine(matrix: Matrix, package: Package) -> tuple[str, tuple[str, ...]]:
    """The torch of the engine's releases that pin this kernel, where it pins none itself."""
    domain, version = matrix.engine(_KERNELS.get(package.name, "")), package.version
    if domain is None or version is None or not version.is_exact:
        return "", ()
    name = package.name
    pinning = [row for row in domain.releases if _is_pinned(row.pins.get(name, ""), version)]
    specs = {row.pins.get("torch", "") for row in pinning}
    if len(specs) != 1 or not next(iter(specs)).startswith("=="):
        return "", ()
    return specs.pop(), pinning[0].source


def _is_pinned(pin: str, version: Version) -> bool:
    """An exact pin on this release or a repaired one of it."""
    wanted = Version.maybe(pin.removeprefix("==")) if pin.startswith("==") else None
    return wanted is not None and wanted.release == version.release


def _is_extension(matrix: Matrix, name: str) -> bool:
    """Distributions whose releases are compiled against exactly the torch that they pin."""
    return matrix.engine_packages.get(name) in EXTENSIONS


@rule("FRM302", cause="abi-mismatch", severity=Severity.ERROR)
def symbols_undefined(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A library asks for torch symbols that no library which would load defines.

    What: undefined C++ symbols of extensions, looked up in the libraries that the loader
        would take; read from the files, nothing is loaded.
    Why: the extension and libtorch are of different releases or C++ ABIs.
    How to fix: a build of the extension for the torch that is here.
    Silent when: the symbols are weak, or are of CUDA, the driver or CANN (other rules).
    Sources: ELF symbol tables; PyTorch C++ ABI notes.
    """
    found: dict[str, list[tuple[Binary, list[str]]]] = {}
    for binary in case.scope.binaries.known("binaries"):
        torch_symbols = [s for s in binary.undefined if s.startswith(_TORCH_SYMBOLS)]
        if torch_symbols:
            owner = binary.package or binary.path.rpartition("/")[2]
            found.setdefault(owner, []).append((binary, torch_symbols))
    for owner, broken in found.items():
        yield _undefined(owner, broken, torch_version(case))


def _undefined(owner: str, broken: list[tuple[Binary, list[str]]], torch: Version | None) -> Fault:
    """One fault for all libraries of a package, with the names as a compiler would print them."""
    names = list(dict.fromkeys(demangle(s) for _, symbols in broken for s in symbols))
    shown = ", ".join(names[:_SHOWN])
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    count = f"{len(broken)} libraries of {owner} need" if len(broken) > 1 else f"{owner} needs"
    return Fault(
        f"{count} symbols that libtorch does not have: {shown}{more}",
        evidence=(
            *(Evidence(f"undefined {symbols[0]}", b.path) for b, symbols in broken[:_SHOWN]),
            Evidence(f"torch {torch}"),
        ),
        remedies=(_reinstall(owner, torch),),
    )


RULES = (extension_for_other_torch, symbols_undefined)
