"""CUDA versions in names: of packages that are built for one major, and of indexes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.facts import Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules import builds
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.image_facts import image_cuda

# "nixl-cu12", "cupy-cuda12x"; NVIDIA's library packages have a rule of their own.
_NAMED = re.compile(
    r"\b(?!nvidia-)([a-z][a-z0-9_]{1,40}(?:-[a-z0-9_]{1,20}){0,3})-cu(?:da)?(1[0-9])x?\b"
)
_IS_THERE = re.compile(
    r"\b(?:is|was|gets?|are|were|comes?|came|got) (?:\w+ )?(?:installed|there|in it|pulled)\b"
)
_INDEX = re.compile(
    r"\bindex(?:es)?\b[^.\n]{0,40}\bcu(1[0-9])\d?\b|\bcu(1[0-9])\d? (?:nightly )?index\b|"
    r"(?:index(?:-url)?|-i|-f|find-links)[ =]\S{1,120}/cu(1[0-9])\d?\b",
    re.IGNORECASE,
)


@rule("CUD136", cause="cuda-major-mismatch", severity=Severity.WARNING)
def package_named_for_another_major(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A package carries a CUDA major in its name, and the stack beside it is of another.

    What: names such as "nixl-cu12" or "cupy-cuda12x", stated or told in a note, against the
        CUDA major of torch, of the image, or of the toolkits.
    Why: the package links to libraries of the major in its name: "libcudart.so.12: cannot
        open shared object file". It often comes as a requirement of something else.
    How to fix: the package of the same name for the other major, and that one alone.
    Silent when: the packages were read on disk, whose libraries another rule judges; one for
        the right major is there too; or nothing tells the CUDA of the stack.
    Sources: names and METADATA of such packages on the index.
    """
    found = dict(_named(case))
    if not found:
        raise NotApplicable("no package names a CUDA major")
    stack = _stack(case, matrix)
    if stack is None:
        case.facts.nvidia.toolkits.known("nvidia.toolkits")
        raise NotApplicable("toolkits of several majors, or of none")
    cuda, fact = stack
    stems = {stem for stem, major in found if major == cuda.major}
    for (stem, major), evidence in found.items():
        if major != cuda.major and stem not in stems:
            yield Fault(
                f"{stem}-cu{major} is for CUDA {major}, and {fact.fact}",
                evidence=(evidence, fact),
                remedies=(
                    Remedy(
                        f"replace it by the {stem} for CUDA {cuda.major}",
                        (f"pip uninstall {stem}-cu{major}", f"pip install {stem}-cu{cuda.major}"),
                        role="python_env",
                    ),
                ),
            )
            return


def _named(case: Case) -> Iterator[tuple[tuple[str, int], Evidence]]:
    """Stem and major of packages by their names, and where each is told."""
    for package in case.scope.packages.value or ():
        match = _NAMED.fullmatch(package.name)
        if match is not None and not package.location:
            yield (match[1], int(match[2])), Evidence(package.name, case.scope.packages.at)
    for note in case.facts.notes:
        if _IS_THERE.search(note):
            for match in _NAMED.finditer(note.lower()):
                yield (match[1], int(match[2])), Evidence(note, "notes")


def _stack(case: Case, matrix: Matrix) -> tuple[Version, Evidence] | None:
    """The CUDA version of torch, of the image, or of toolkits of one major."""
    torch = builds.torch_build(case, matrix)
    if torch is not None and not torch.assumed:
        return torch.cuda, Evidence(f"{torch.label} is for CUDA {torch.cuda}", torch.evidence.at)
    image = image_cuda(case.scope, matrix)
    if image is not None:
        return image.cuda, Evidence(f"the image is for CUDA {image.cuda}", image.evidence.at)
    toolkits = case.facts.nvidia.toolkits
    here = [t.version for t in toolkits.value or () if t.version is not None]
    if len({version.major for version in here}) != 1:
        return None
    return here[0], Evidence(f"the toolkit is CUDA {here[0]}", toolkits.at)


@rule("CUD137", cause="cuda-major-mismatch", severity=Severity.WARNING)
def build_not_of_the_index(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """An index for one CUDA was asked, and the version that came is that of the default index.

    What: notes that name an index for a CUDA line ("cu129") against the CUDA major of the
        default build of the engine's version, which has no label.
    Why: an extra index only adds candidates: a final release of the default index beats the
        nightly or the labelled one of the extra index, and it is built for another major.
    How to fix: make that index the first one for the engine, or name the version with its
        label.
    Silent when: the version carries a label, its build is stated, or both are of one major.
    Sources: vllm-project/vllm issue 42338; LMCache pull request 3256; PEP 440.
    """
    told = [(note, match) for note in case.facts.notes if (match := _INDEX.search(note))]
    if not told:
        raise NotApplicable("no note names an index for a CUDA version")
    build = builds.engine_build(case, matrix)
    if build is None or not build.assumed:
        raise NotApplicable("the build is stated, or its CUDA is not known")
    note, match = told[0]
    asked = int(next(group for group in match.groups() if group))
    if build.cuda.major != asked:
        yield Fault(
            f"an index for CUDA {asked} was asked, and {build.label} of the default index is "
            f"for CUDA {build.cuda}",
            evidence=(Evidence(note, "notes"), build.evidence),
            remedies=(
                Remedy(f"name the version with its label (+cu{asked}...), or ask that index first"),
            ),
            sources=(*build.sources, "https://github.com/vllm-project/vllm/issues/42338"),
        )


RULES: tuple[Rule, ...] = (package_named_for_another_major, build_not_of_the_index)
