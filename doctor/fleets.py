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

# A snapshot of a machine with many environments has a few megabytes.
_MOST_BYTES = 64 << 20

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
    named = files_of(Path(folder))
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


@dataclass(frozen=True)
class Reach:
    """How machines of an inventory are asked: which, how many at once, for how long.

    `keep` is the folder for their snapshots, made if it is not there.
    """

    inventory: str
    keep: Path
    limit: str = ""
    forks: int = 10
    limit_s: float = 180.0
    say: Callable[[str], None] = lambda _: None


def judge_inventory(reach: Reach, question: Question, progress: Progress) -> Fleet:
    """Collect the facts of machines, keep them, and judge each.

    Nothing is installed there: the probes are copied to a file, run and removed. A machine
    that gives no facts becomes a line of the report. Raises UsageError for what is no
    inventory.
    """
    from doctor.provision.fleet_facts import fact_jobs, fault_of
    from doctor.provision.fleet_inventory import read_inventory
    from doctor.provision.fleet_pool import Pool

    hosts = read_inventory(reach.inventory, reach.limit, _made(reach.keep))
    faults = {host.name: host.fault for host in hosts if host.fault}
    by_name = {host.name: host for host in hosts}
    found: dict[str, Report] = {}
    matrix = load_matrix()
    pool = Pool(reach.forks, reach.limit_s, limit_bytes=_MOST_BYTES)
    for ended in pool.run(fact_jobs(hosts, reach.limit_s)):
        fault = fault_of(by_name[ended.name], ended, reach.limit_s)
        path = reach.keep / f"{ended.name}.json"
        if not fault:
            path.write_bytes(ended.out)
            fault = _judged_or_fault(ended.name, path, question, matrix, found)
        if fault:
            path.unlink(missing_ok=True)
            faults[ended.name] = fault
        progress(len(found) + len(faults), len(hosts), ended.name)
    lost = tuple(
        Unreadable(h.name, h.target.name, faults[h.name]) for h in hosts if h.name in faults
    )
    lost = question.redactor.value(lost) if question.redactor else lost
    reports = tuple(found[host.name] for host in hosts if host.name in found)
    reach.say(f"snapshots are kept in {reach.keep}")
    return Fleet(reach.inventory, reports, lost)


def _made(folder: Path) -> Path:
    """A folder that only its user reads: facts name what runs on a machine."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as fault:
        raise UsageError(f"cannot make {folder}: {fault.strerror}", "use --keep DIR") from None
    return folder


def _judged_or_fault(
    name: str, path: Path, question: Question, matrix: Matrix, found: dict[str, Report]
) -> str:
    """Judge a snapshot; why it cannot be, if it cannot."""
    try:
        found[name] = _judge(name, path, question, matrix)
    except UsageError as fault:
        return str(fault)
    facts = found[name].facts
    if facts.host.kernel.is_known or not facts.notes:
        return ""
    del found[name]
    return facts.notes[0]


def files_of(folder: Path) -> list[tuple[str, Path]]:
    """Host names and files of a folder of snapshots, in the order of their names.

    Raises UsageError for a folder without files.
    """
    try:
        inside = sorted(p for p in folder.iterdir() if not p.name.startswith("."))
    except OSError as fault:
        raise UsageError(f"{folder}: {fault.strerror}", "name a folder of snapshots") from None
    found = [(p.stem, p) for p in inside if p.is_file()]
    found += [(p.name, p / "facts.json") for p in inside if (p / "facts.json").is_file()]
    if not found:
        raise UsageError(f"{folder}: no files in it", "put one snapshot a host there")
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
