"""Rules about torch, its companions and the kernels that an engine ships apart."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace

from doctor.facts import Package, Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.matrix.model import Release
from doctor.rules import cards
from doctor.rules.engine import Case, Fault, NotApplicable, Severity, rule
from doctor.rules.software import Software, admits, engine, is_open, software, torch_version
from doctor.rules.source_tree import next_release

# Built against one torch, or against the engine's own release: another one does not load.
COMPANIONS = (
    "torch",
    "torchvision",
    "torchaudio",
    "sgl-kernel",
    "sglang-kernel",
    "vllm-flash-attn",
    "torch-npu",
)
_OF_NPUS = "torch-npu"
# Pinned, and at the start only checked not to be older. Source: assert_pkg_version of SGLang.
_AT_LEAST = ("sgl-kernel", "sglang-kernel")
# Python alone, with nothing compiled against torch: a pin that is not met may well work.
_PYTHON_ALONE = ("axolotl", "llamafactory", "llmcompressor", "ms-swift", "unsloth", "whisperx")
TRIO = ("torch", "torchvision", "torchaudio")
_PAIRED = ("torchvision", "torchaudio", "torchcodec", "torchtext")


def label_kind(version: Version) -> str:
    """What a local label says of the build: "cpu", "cu12", "rocm", or "" if nothing."""
    label = version.local
    for kind in ("cpu", "rocm", "xpu"):
        if label.startswith(kind):
            return kind
    return label[:4] if label.startswith("cu1") else ""


def _is_vendor_build(version: Version) -> bool:
    """A pre-release with a label of its own (NVIDIA's and AMD's images carry such torch builds)."""
    return version.is_prerelease and bool(version.local) and not label_kind(version)


def _evidence(package: Package) -> Evidence:
    return Evidence(f"{package.name} {package.version}", package.location)


def _reinstall(found: Software, specs: dict[str, str], label: str = "") -> Remedy:
    wanted = " ".join(shlex.quote(f"{name}{spec}") for name, spec in specs.items())
    index = f" --index-url https://download.pytorch.org/whl/{label}" if label else ""
    return Remedy(
        f"install what {found.label} was built with",
        (f"uv pip install {wanted}{index}", f"pip install {wanted}{index}"),
        role="python_env",
    )


def _applies(case: Case, matrix: Matrix) -> None:
    """Pins are those of the public CUDA and CPU wheels: other vendors build against their own."""
    others = {d.vendor for d in case.devices} - {"nvidia"}
    torch = torch_version(case)
    if others or (torch is not None and (label_kind(torch) == "rocm" or _is_vendor_build(torch))):
        raise NotApplicable("a vendor's own torch build")
    if case.facts.host.platform.value == "jetson" or any(
        cards.is_tegra(device, matrix) for device in case.nvidia_devices
    ):
        raise NotApplicable("builds for a Jetson go with the torch of its JetPack")


@rule("FRM201", cause="torch-pin-mismatch", severity=Severity.ERROR)
def torch_pin_unmet(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The installed torch, a companion or the kernel package is not the one the engine pins.

    What: the engine release's pins for torch, torchvision, torchaudio and its own kernel
        package against what is installed.
    Why: the engine's extensions are compiled against exactly that torch; another one
        fails at import with undefined symbols, or worse, later.
    How to fix: install the pinned versions; to use another torch, take the release of the
        engine that pins it, or build the engine from source.
    Silent when: the engine is a vendor's or a source build, torch is a vendor's own, the
        host is a Jetson, or the version is stated too loosely to decide. torch-npu beside
        vllm-ascend is for the rule on NPUs. Where all that is
        installed is what a later release pins, the engine is likely a source tree between
        the two: a warning, as is SGLang's kernel package where it is newer than the pin, a
        torch that is older or newer than any listed release takes, beside an engine of unknown
        version, and the pin of a program of Python alone.
    Sources: METADATA of the release (rows in the matrix).
    """
    _applies(case, matrix)
    found = engine(case, matrix)
    if not found.is_public_build:
        raise NotApplicable(f"{found.label} is not the public build")
    if found.version is None:
        yield _fits_no_release(case, matrix, found)
        return
    if not any(row.pins for row in found.rows):
        raise found.unknown()
    unmet = _unmet(case, found)
    if unmet:
        fault = _pin_fault(found, unmet)
        ahead = next_release(case, matrix, found)
        if ahead:
            yield _of_next(fault, found, ahead)
        elif found.name in _PYTHON_ALONE or all(
            name in _AT_LEAST and _is_newer(*pair) for name, pair in unmet.items()
        ):
            yield replace(fault, severity=Severity.WARNING)
        else:
            yield fault


def _unmet(case: Case, found: Software) -> dict[str, tuple[Package, str]]:
    """The companions that are not what the engine pins, each with its pin."""
    unmet = {}
    for name in COMPANIONS:
        package = case.scope.package(name)
        if name == _OF_NPUS and found.name == "vllm-ascend":
            continue  # NPU303 holds the two against each other, and knows how far
        if package is not None and package.version is not None:
            spec = _unmet_spec(found, name, package.version)
            if spec:
                unmet[name] = (package, spec)
    return unmet


def _fits_no_release(case: Case, matrix: Matrix, found: Software) -> Fault:
    """A torch that is older than each listed release takes, or newer than the newest does."""
    package = case.scope.package("torch")
    pins = [row.pins.get("torch", "") for row in found.rows]
    if package is None or package.version is None or not pins or "" in pins:
        raise found.unknown()
    lowest = [Version.maybe(pin.partition(",")[0].lstrip("=>~")) for pin in pins]
    own = package.version
    if own.major is not None and all(low and own.major < (low.major or 0) for low in lowest):
        which = -1
    elif (
        lowest[0]
        and own.newer_than(lowest[0])
        and not is_open(pins[0])
        and _is_refused(matrix, found, own)
    ):
        which = 0
    else:
        raise found.unknown()
    row, told = found.rows[which], ("newest", "oldest")[which]
    return Fault(
        f"no listed release of {found.name} takes torch {own}: the {told}, "
        f"{row.version}, asks for torch{pins[which]}",
        evidence=(_evidence(package), found.evidence),
        remedies=(Remedy(f"install {found.name} with the torch that it asks for"),),
        sources=row.source,
        severity=Severity.WARNING,
    )


def _is_refused(matrix: Matrix, found: Software, torch: Version) -> bool:
    """A public torch that the matrix knows, and that no pin with an upper bound admits."""
    pins = {row.pins.get("torch", "") for row in found.rows}
    known = any(v.public == torch.public for row, v in matrix.versions("torch"))
    return known and all(is_open(pin) or admits(pin, torch) is False for pin in pins)


def _is_newer(package: Package, spec: str) -> bool:
    pinned = Version.maybe(spec.removeprefix("=="))
    return (
        pinned is not None
        and package.version is not None
        and (package.version.newer_than(pinned) is True)
    )


def _unmet_spec(found: Software, name: str, version: Version) -> str:
    """The pin that is not met, or "". All releases that the engine may be must agree."""
    specs = [row.pins.get(name, "") for row in found.rows]
    if not specs or "" in specs:
        return ""
    return specs[0] if all(admits(spec, version) is False for spec in specs) else ""


def _of_next(fault: Fault, found: Software, ahead: Release) -> Fault:
    told = f"what is installed is what {found.name} {ahead.version} pins"
    evidence = (*fault.evidence, Evidence(f"{told}: a source tree between the two?", found.at))
    return replace(fault, severity=Severity.WARNING, evidence=evidence)


def _pin_fault(found: Software, unmet: dict[str, tuple[Package, str]]) -> Fault:
    wrong = "; ".join(f"{n}{spec} (installed: {p.version})" for n, (p, spec) in unmet.items())
    return Fault(
        f"{found.label} pins {wrong}",
        evidence=(found.evidence, *(_evidence(package) for package, _ in unmet.values())),
        remedies=(_reinstall(found, {name: spec for name, (_, spec) in unmet.items()}),),
        sources=found.rows[0].source,
        extrapolated=found.beyond,
    )


@rule("FRM202", cause="torch-pin-mismatch", severity=Severity.ERROR)
def companion_of_other_torch(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """torchvision, torchaudio, torchcodec or torchtext belong to another torch than is installed.

    What: the torch that the companion's release pins against the torch installed; where
        torch is not stated, the torch that torch-npu implies.
    Why: the companion's operators register against one libtorch; with another the import
        ends in "operator torchvision::nms does not exist".
    How to fix: install the companion that pairs with torch, from the same index.
    Silent when: the pair is not in the matrix, a version is stated too loosely, or torch is a
        nightly of the same release.
    Sources: METADATA of the companions (rows in the matrix).
    """
    torch = torch_version(case) or _torch_of_npu(case)
    if torch is None:
        case.scope.packages.known("packages")
        raise NotApplicable("no torch in this scope")
    if _is_vendor_build(torch):
        raise NotApplicable("a vendor's own torch build")
    for name in _PAIRED:
        package = case.scope.package(name)
        if package is None or package.version is None or package.version.is_prerelease:
            continue
        found = software(matrix, name, package.version, package.location)
        specs = [row.pins.get("torch", "") for row in found.rows]
        if specs and all(spec and _is_for_another(spec, torch) for spec in specs):
            yield _companion_fault(found, package, torch, specs[-1])


def _is_for_another(spec: str, torch: Version) -> bool:
    """A pin that the torch does not meet; of a nightly, whose own pairs are dated, its release."""
    line = "==" + ".".join(map(str, torch.release[:2])) + "."
    return admits(spec, torch) is False and not (torch.is_prerelease and spec.startswith(line))


def _torch_of_npu(case: Case) -> Version | None:
    """torch-npu carries the version of the torch that it extends."""
    package = case.scope.package("torch-npu")
    if package is None or package.version is None or not package.version.is_exact:
        return None
    release = package.version.release
    return Version(".".join(map(str, release[:3])))


def _companion_fault(found: Software, package: Package, torch: Version, spec: str) -> Fault:
    pair = shlex.join((package.name, f"torch=={torch.public}"))
    return Fault(
        f"{package.name} {package.version} is for torch{spec}; the torch here is {torch}",
        evidence=(_evidence(package), Evidence(f"torch {torch}")),
        remedies=(
            Remedy(
                f"install the {package.name} that pairs with torch {torch.public}",
                (f"uv pip install --reinstall {pair}",),
                role="python_env",
            ),
        ),
        sources=found.rows[0].source if found.rows else (),
        extrapolated=found.beyond,
    )


RULES = (torch_pin_unmet, companion_of_other_torch)
