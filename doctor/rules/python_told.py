"""What notes name: wheels that a person tries, and requirements that an installer printed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from doctor.facts import Missing, MissingFact, Version
from doctor.findings import Evidence, Remedy
from doctor.intake.names import package_name
from doctor.matrix import Matrix
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.host_cpu import architecture
from doctor.rules.python import tag_fits
from doctor.rules.software import admits

_WHEEL = re.compile(
    r"\b([A-Za-z0-9][\w.]{0,60})-(\d[\w.+]{0,60})-((?:cp|py|pp)\d[\w.]{0,20})-(\w[\w.]{0,20})"
    r"-(any|(?:many|musl)?linux\w{0,30}|win\w{0,20}|macosx\w{0,30})[\w.]{0,80}?\.whl\b"
)
_MACHINE = re.compile(r"_(x86_64|amd64|aarch64|arm64|ppc64le|s390x|armv7l)$")
_X86 = ("x86_64", "amd64")
_SYSTEMS = (("win", "windows"), ("macosx", "macos"))
# "vllm 0.8.3 requires torch==2.6.0, but you have torch 2.5.1", and the like in a person's words.
_REQUIRES = re.compile(
    r"\b([A-Za-z][\w.-]{1,60}?)(?:[ =]{1,2}\d[\w.+]{0,30})? "
    r"(?:requires?|needs?|asks? for|depends? on|pins?|wants?) ([A-Za-z][\w-]{1,60})\s?"
    r"((?:[<>!=~]=?=?\s?\d[\w.*]{0,30}(?:\s?,\s?|\s?\band\s)?){1,4})"
    r"(?:,?\s?but you have [\w.-]{1,60} (\d[\w.+]{0,30}))?"
)


@dataclass(frozen=True)
class Wheel:
    """The name of a wheel in a note."""

    file: str
    tags: tuple[str, str, str]
    note: str


def _wheels(case: Case) -> list[Wheel]:
    """Wheels that notes name; raises where there are none."""
    found = [
        Wheel(match[0], (match[3], match[4], match[5]), note)
        for note in case.facts.notes
        for match in _WHEEL.finditer(note)
    ]
    if not found:
        raise NotApplicable("no note names a wheel")
    return found


@rule("PYE108", cause="python-unsupported", severity=Severity.WARNING)
def told_wheel_for_another_python(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A wheel that a note names is for another Python than the one that is stated.

    What: the Python tag in the file's name against the Python of the environment.
    Why: installers refuse it: "is not a supported wheel on this platform".
    How to fix: the file for this Python, or an environment with the Python of the file.
    Silent when: one of the wheels that are named is for this Python, or is pure Python.
    Sources: PEP 425 and PEP 427.
    """
    wheels, python = _wheels(case), case.scope.python.known("python")
    release = python.version.release
    if len(release) < 2:
        raise MissingFact("python", Missing.NOT_STATED)
    minor = f"{release[0]}.{release[1]}"
    fits = [
        any(tag_fits(tag, wheel.tags[1], minor, python.abi) for tag in wheel.tags[0].split("."))
        for wheel in wheels
    ]
    if not any(fits):
        yield Fault(
            f"{wheels[0].file} is for {wheels[0].tags[0]}; this is Python {python.version}",
            evidence=(
                Evidence(wheels[0].note, "notes"),
                Evidence(f"Python {python.version}", case.scope.python.at),
            ),
            remedies=(Remedy(f"the file for Python {minor}, or another Python"),),
            sources=("https://peps.python.org/pep-0425/",),
        )


@rule("HST134", cause="arch-wheel-missing", severity=Severity.WARNING)
def told_wheel_for_another_machine(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A wheel that a note names is for another system or processor than the one that is stated.

    What: the platform tag in the file's name against system and architecture of the host.
    Why: installers refuse it: "is not a supported wheel on this platform".
    How to fix: the file for this platform, or a build from source.
    Silent when: one of the wheels that are named is for this platform.
    Sources: PEP 425 and PEP 600.
    """
    wheels = _wheels(case)
    answers = [_is_for_this(case, wheel.tags[2]) for wheel in wheels]
    if all(answer is False for answer in answers):
        yield Fault(
            f"{wheels[0].file} is for {wheels[0].tags[2]}, and this host is another",
            evidence=(Evidence(wheels[0].note, "notes"),),
            remedies=(Remedy("the file for this platform, or a build from source"),),
            sources=("https://peps.python.org/pep-0425/",),
        )
    elif not any(answers):
        raise MissingFact("host.arch", Missing.NOT_STATED)


def _is_for_this(case: Case, tag: str) -> bool | None:
    """Tell whether a platform tag is of this host; None where too little is stated of it."""
    if tag == "any":
        return True
    system = case.facts.host.os.value
    wanted = next((name for start, name in _SYSTEMS if tag.startswith(start)), "linux")
    own = system.id if system is not None and system.id in ("windows", "macos") else "linux"
    if system is not None and own != wanted and case.facts.host.platform.value != "wsl2":
        return False
    machine = _MACHINE.search(tag)
    if machine is None or case.facts.host.arch.value is None:
        return None if machine is not None else True
    arch = architecture(case)
    return machine[1] in (_X86 if arch in _X86 else (arch, arch.replace("aarch64", "arm64")))


@rule("PYE209", cause="dependency-conflict", severity=Severity.WARNING)
def told_requirement_unmet(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A note tells what a package asks for, and another version of that is here.

    What: requirements in notes ("A requires B>=2"), as installers print and people repeat
        them, against the versions that are stated.
    Why: an installer names such a conflict once and goes on; the import fails later.
    How to fix: the version that is asked for, best by one resolver run over all packages.
    Silent when: the version of what is asked for is not stated, or fits.
    Sources: PEP 440; messages of pip.
    """
    told = [(note, match) for note in case.facts.notes for match in _REQUIRES.finditer(note)]
    if not told:
        raise NotApplicable("no note tells a requirement")
    for note, match in told:
        name = package_name(match[2])
        spec = re.sub(r"\s*(?:,|\band\b)\s*", ",", match[3]).strip(", ").replace(" ", "")
        package = case.scope.package(name)
        here = Version.maybe(match[4] or "") or (package.version if package else None)
        if here is not None and admits(spec, here) is False:
            yield Fault(
                f"{match[1]} asks for {name}{spec}; {here} is here",
                evidence=(Evidence(note, "notes"),),
                remedies=(Remedy(f"install {match[1]} and {name}{spec} in one resolver run"),),
            )
            return


RULES: tuple[Rule, ...] = (
    told_wheel_for_another_python,
    told_wheel_for_another_machine,
    told_requirement_unmet,
)
