"""Builds for macOS that are not there: CUDA on a Mac, and a Python for the other processor."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.software import engine, packages

_CUDA_LABEL = re.compile(r"\+cu\d{2,3}\b")
_X86_PYTHON = re.compile(
    r"\bmacosx_\d{1,2}_\d{1,2}_x86_64\b|\bMach-O 64-bit executable x86_64\b|"
    r"(?:platform\.machine\(\)|\b(?:python|conda|interpreter)\b)[^.;\n]{0,30}\b(?:x86_64|Rosetta)\b|"
    r"\bx86_64 (?:python|conda|miniconda|anaconda|interpreter)\b|"
    r"platform\.processor\(\)[^.;\n]{0,30}\bi386\b|\bpython is not (?:a )?native\b|"
    r"\bnon-native python\b",
    re.IGNORECASE,
)
_APPLE = re.compile(r"\bapple (?:silicon|m\d)\b|\bm[1-9](?: (?:pro|max|ultra))?\b", re.IGNORECASE)
_INDEX = "https://download.pytorch.org/whl/torch/"
_ROSETTA = "https://github.com/abetlen/llama-cpp-python/blob/main/docs/install/macos.md"


def _need_mac(case: Case) -> None:
    system = case.facts.host.os.known("host.os")
    if system.id != "macos":
        raise NotApplicable("not macOS")
    if case.scope.kind in ("container", "image"):
        raise NotApplicable("it runs in a Linux of its own")


@rule("HST251", cause="arch-wheel-missing", severity=Severity.ERROR)
def cuda_build_on_mac(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A build for CUDA is asked for on macOS, for which there is none.

    What: the labels of stated versions ("1.13.1+cu117") on a Mac.
    Why: such wheels are made for Linux and Windows only: "No matching distribution found".
    How to fix: the version without a label, which uses Metal on Apple silicon.
    Silent when: no version has such a label, or the system is another.
    Sources: file names on the index of PyTorch.
    """
    _need_mac(case)
    labelled = [p for p in packages(case) if _CUDA_LABEL.search(str(p.version))]
    if labelled:
        package = labelled[0]
        yield Fault(
            f"{package.name} {package.version} is a build for CUDA, and there is none for macOS",
            evidence=(Evidence(f"{package.name} {package.version}", case.scope.packages.at),),
            remedies=(
                Remedy(f"{package.name} without the label, or a machine with an NVIDIA card"),
            ),
            sources=(_INDEX,),
        )


@rule("HST252", cause="arch-wheel-missing", severity=Severity.ERROR)
def python_for_intel_on_apple_silicon(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The Python on a Mac with Apple silicon is one for Intel processors.

    What: notes with what `file`, `platform.machine()` or a wheel's tag say of the Python, on a
        Mac whose GPU is Apple's.
    Why: it runs under Rosetta: pip then looks for wheels for Intel, of which many projects make
        none any more, and what is compiled has no Metal.
    How to fix: a Python for arm64, from a shell that does not run under Rosetta.
    Silent when: nothing tells of the Python's processor, or the Mac has an Intel one.
    Sources: installation page of llama-cpp-python for macOS.
    """
    _need_mac(case)
    names = [d.name.value or "" for d in case.devices]
    if not any(map(_APPLE.search, (*names, case.facts.host.cpu.model.value or ""))):
        raise NotApplicable("not known to be Apple silicon")
    told = next(filter(None, map(_X86_PYTHON.search, case.facts.notes)), None)
    if told is not None:
        yield Fault(
            "this Python is one for Intel processors and runs under Rosetta",
            evidence=(Evidence(told[0], "notes"), Evidence(", ".join(names)[:80], "devices")),
            remedies=(Remedy("a Python for which platform.machine() says arm64"),),
            sources=(_ROSETTA,),
        )


@rule("HST253", cause="arch-wheel-missing", severity=Severity.WARNING)
def engine_not_made_for_mac(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """An engine for the cards of one maker is wanted on macOS, for which it is not made.

    What: engines of which the matrix records the only makers of devices that they run on.
    Why: no driver of those makers exists for macOS, so there are no wheels for it: pip finds
        no matching distribution, or only a source that does not build.
    How to fix: an engine for Apple silicon, such as MLX or llama.cpp; or a machine with a card.
    Silent when: the engine runs on other devices too, or it runs in a Linux of its own.
    Sources: installation pages of the engines (rows in the matrix).
    """
    _need_mac(case)
    found = engine(case, matrix)
    rows = matrix.claims(found.name, "platform", key="no-accelerator")
    match = next((m for m in rows if m.claim.data.get("vendors")), None)
    if match is not None and "apple" not in match.claim.data["vendors"]:
        yield Fault(
            f"{found.label} is not made for macOS: {match.claim.text}",
            evidence=(found.evidence, Evidence("macOS", case.facts.host.os.at)),
            remedies=(Remedy(match.claim.remedy),),
            sources=match.claim.source,
        )


RULES: tuple[Rule, ...] = (
    cuda_build_on_mac,
    python_for_intel_on_apple_silicon,
    engine_not_made_for_mac,
)
