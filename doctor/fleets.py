"""Many hosts in one run: a folder of snapshots, each judged and then cut down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container
from dataclasses import dataclass, replace
from pathlib import Path

from doctor.diagnose import diagnose
from doctor.errors import UsageError
from doctor.examine import Sources, request_of
from doctor.facts import UNSTATED, Cpu, Facts, Package, Reading, Scope
from doctor.gate import Gate
from doctor.matrix import Matrix, load_matrix
from doctor.report import Fleet, Report, Unreadable
from doctor.report.redact import Redactor

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Question:
    """What is asked of every host, and what becomes of the answer before it is shown."""

    engine: str = ""
    model: str = ""
    gate: Gate = Gate()
    redactor: Redactor | None = None


def judge_folder(folder: str, question: Question, progress: Progress) -> Fleet:
    """Judge every file of a folder, and the `facts.json` of every folder in it.

    A file that holds no facts becomes a line of the report. Raises UsageError for a folder
    without files.
    """
    named = _files(Path(folder))
    matrix = load_matrix()
    hosts: list[Report] = []
    lost: list[Unreadable] = []
    for number, (name, path) in enumerate(named):
        progress(number, len(named), name)
        try:
            hosts.append(_judge(name, path, question, matrix))
        except UsageError as fault:
            lost.append(Unreadable(name, str(path), str(fault)))
    unreadable = question.redactor.value(tuple(lost)) if question.redactor else tuple(lost)
    return Fleet(folder, tuple(hosts), unreadable)


def _files(folder: Path) -> list[tuple[str, Path]]:
    """Host names and files, in the order of their names."""
    try:
        inside = sorted(p for p in folder.iterdir() if not p.name.startswith("."))
    except OSError as fault:
        raise UsageError(f"--facts-dir {folder}: {fault.strerror}", "name a folder") from None
    found = [(p.stem, p) for p in inside if p.is_file()]
    found += [(p.name, p / "facts.json") for p in inside if (p / "facts.json").is_file()]
    if not found:
        raise UsageError(f"--facts-dir {folder}: no files in it", "put one snapshot a host there")
    stems = Counter(name for name, _ in found)
    return [(name if stems[name] == 1 else path.name, path) for name, path in found]


def _judge(name: str, path: Path, question: Question, matrix: Matrix) -> Report:
    from doctor.intake.detect import parse_input, read_text

    understood = parse_input(read_text(path), str(path))
    request = request_of(
        question.engine, Sources((str(path),)), understood.facts, model=question.model
    )
    diagnosis = diagnose(understood.facts, matrix, request)
    report = Report(
        _slim(understood.facts, matrix),
        diagnosis,
        source=f"{path.name}: {', '.join(understood.formats)}",
        name=name,
        paths=(str(path),),
    )
    shown = question.redactor.report(report) if question.redactor else report
    return question.gate.apply(shown)


def _slim(facts: Facts, matrix: Matrix) -> Facts:
    """Facts without the long lists that no page of a fleet shows."""
    host = replace(facts.host, cpu=Cpu(), packages=UNSTATED, modules=UNSTATED, dkms=UNSTATED)
    nvidia = replace(facts.nvidia, kernel_messages=UNSTATED, xid=UNSTATED, libcuda=UNSTATED)
    scopes = tuple(_slim_scope(scope, matrix.engine_packages) for scope in facts.scopes)
    return replace(facts, host=host, nvidia=nvidia, scopes=scopes, logs=(), topology=UNSTATED)


def _slim_scope(scope: Scope, kept: Container[str]) -> Scope:
    packages: Reading[tuple[Package, ...]] = scope.packages
    if packages.value is not None:
        engines = tuple(Package(p.name, p.version) for p in packages.value if p.name in kept)
        packages = replace(packages, value=engines, partial=True)
    return replace(scope, packages=packages, binaries=UNSTATED, env=UNSTATED)
