"""One check from sources to report, and the exit code that it earns."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from doctor.errors import ExitCode, UsageError
from doctor.examine import (
    Gathered,
    Sources,
    gather,
    need_askable,
    need_consistent,
    parse_engine,
    request_of,
)
from doctor.facts import Facts, LogText, Scope, Workload, seen
from doctor.facts.model import LOG_LIMIT
from doctor.findings import Diagnosis, OutcomeKind, Verdict, left_open
from doctor.report import Fleet, Report
from doctor.report.fingerprint import is_known

if TYPE_CHECKING:
    from doctor.matrix import Matrix

_NOTHING_KNOWN = "no line of this log is an error that doctor knows"
_NO_ENGINE = "no engine or framework that doctor knows was found in the image"
_THRESHOLD = {"info": 0, "warning": 1, "error": 2, "never": 3}


def check(sources: Sources, engine: str = "", model: str = "") -> Report:
    """Read the facts, judge them, return the report. Raises UsageError for bad input."""
    need_askable(engine, model)
    if sources.plans:
        from doctor.planning import check_plans

        return check_plans(sources, sources.plans, engine, model)
    if sources.image:
        _need_image(sources)
    found = gather(sources)
    if sources.image:
        found, engine = _look_into(found, sources, engine)
    notes: tuple[str, ...] = ()
    if found.facts.is_idle and not (engine or sources.pythons or sources.image):
        # Judging nothing needs neither the judge nor the matrix, half the cost of a check.
        diagnosis = Diagnosis(Verdict.NOTHING_TO_JUDGE, ())
    else:
        found, diagnosis, notes = _judged(found, engine, sources, model)
    if sources.image and not engine and not _image_holds_engine(found.facts):
        diagnosis, notes = left_open(diagnosis), (*notes, _NO_ENGINE)
    return Report(found.facts, diagnosis, found.source, paths=sources.facts, notes=notes)


def _need_image(sources: Sources) -> None:
    """Raise for an image that is not there: the host it would run on is long to read."""
    from doctor.images.reading import need_image

    need_consistent(sources)
    need_image(sources.image)


def _image_holds_engine(facts: Facts) -> bool:
    from doctor.diagnose import holds_engine
    from doctor.matrix import load_matrix

    matrix = load_matrix()
    return any(s.kind == "image" and holds_engine(s, matrix) for s in facts.scopes)


def _look_into(found: Gathered, sources: Sources, engine: str) -> tuple[Gathered, str]:
    """The facts with the image in them, and the engine to judge: the one that it starts.

    An engine that its environment holds is found there by itself.
    """
    import sys

    from doctor.images.facts import read_facts, with_image
    from doctor.images.reading import read_image
    from doctor.matrix import load_matrix
    from doctor.report.progress import ByteProgress

    with (
        ByteProgress(sys.stderr) as progress,
        read_image(sources.image, progress, sources.image_limit_s) as opened,
    ):
        image = read_facts(opened)
    if not engine and image.engine and not image.holds_engine:
        version = _tagged_version(image.scope, load_matrix())
        engine = f"{image.engine}=={version}" if version else image.engine
    facts = with_image(found.facts, image)
    return Gathered(facts, f"{found.source}; image {sources.image}"), engine


def _tagged_version(scope: Scope, matrix: Matrix) -> str:
    """The engine's version that the tag of a known image names, or ""."""
    import re

    from doctor.rules.image_facts import known_image

    row = known_image(scope, matrix)
    tag = scope.image.ref.partition("@")[0].rpartition(":")[2]
    match = re.fullmatch(row.tag, tag) if row else None
    return (match.groupdict().get("version") or "") if match else ""


def _judged(
    found: Gathered, engine: str, sources: Sources, model: str
) -> tuple[Gathered, Diagnosis, tuple[str, ...]]:
    """Judge the facts, or where an engine was asked about that they lack what it would bring."""
    from doctor.diagnose import diagnose
    from doctor.matrix import load_matrix

    matrix = load_matrix()
    request = request_of(engine, sources, found.facts, model=model)
    if not request.version or request.scopes:
        return found, diagnose(found.facts, matrix, request), ()
    from doctor.supposed import supposed

    with_it = supposed(found.facts, request, matrix)
    if with_it is None:
        return found, diagnose(found.facts, matrix, request), ()
    facts, request, note = with_it
    return Gathered(facts, found.source), diagnose(facts, matrix, request), (note,)


def read_log(path: str, sources: Sources, engine: str = "") -> Report:
    """Judge a log, with what it tells of the host and the facts of `sources`.

    A log in which no error is known leaves open what it was handed over for. Raises
    UsageError for input that cannot be read.
    """
    from doctor.diagnose import HOST_SCOPE, diagnose
    from doctor.intake.detect import label_of, read_text
    from doctor.intake.merge import merge
    from doctor.logs import suspect
    from doctor.matrix import load_matrix

    text = read_text(path)
    told, formats = _told_by(text, path)
    stated = gather(sources).facts if sources.facts else Facts()
    facts = merge(stated, told)
    workload = _workload(facts, engine)
    logs = facts.logs or (LogText(text[:LOG_LIMIT]),)
    judged = replace(
        facts, workloads=(workload,), logs=tuple(replace(log, workload="") for log in logs)
    )
    matrix = load_matrix()
    diagnosis, notes = diagnose(judged, matrix), tuple[str, ...]()
    if suspect(judged, judged.scope(workload.scope) or HOST_SCOPE, workload, matrix) is None:
        diagnosis, notes = left_open(diagnosis), (_NOTHING_KNOWN,)
    source = f"{label_of(path)}: {', '.join(formats)}" if formats else label_of(path)
    paths = () if path == "-" else (path,)
    return Report(judged, diagnosis, source, paths=paths, notes=notes)


def _told_by(text: str, path: str) -> tuple[Facts, tuple[str, ...]]:
    """Facts that stand in the log itself, such as a pasted collect_env."""
    from doctor.intake.detect import parse_input

    try:
        understood = parse_input(text, path)
    except UsageError:
        return Facts(), ()
    return understood.facts, understood.formats


def _workload(facts: Facts, engine: str) -> Workload:
    """The engine that was named, else the one that the facts name, else an unknown one."""
    name, version = parse_engine(engine) if engine else ("", None)
    known = next((w for w in facts.workloads if name in ("", w.engine)), None)
    workload = known or Workload("log", name)
    return replace(workload, version=seen(version, "--engine")) if version else workload


def exit_code(report: Report, fail_on: str, strict: bool, asked: bool) -> ExitCode:
    """1 for findings at or above `fail_on` that the baseline lacks.

    3 if a target was asked for and a gate is open, or with `strict` any rule is.
    """
    targets = report.diagnosis.targets
    new = (f for t in targets for f in t.findings if not is_known(report, t.subject, f))
    if max((f.severity.weight for f in new), default=-1) >= _THRESHOLD[fail_on]:
        return ExitCode.NO
    if asked and report.diagnosis.verdict is Verdict.CANNOT_TELL:
        return ExitCode.CANNOT_TELL
    outcomes = (o for target in targets for o in target.outcomes)
    if strict and any(o.kind is OutcomeKind.CANNOT_TELL for o in outcomes):
        return ExitCode.CANNOT_TELL
    return ExitCode.OK


def fleet_exit_code(fleet: Fleet, fail_on: str, strict: bool) -> ExitCode:
    """The highest of the hosts' codes; a host whose facts could not be read counts as 3."""
    codes = [exit_code(report, fail_on, strict, asked=True) for report in fleet.hosts]
    return max([*codes, *(ExitCode.CANNOT_TELL for _ in fleet.unreadable)], default=ExitCode.OK)
