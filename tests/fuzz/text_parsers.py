"""Parsers of what a person hands over, of files that doctor wrote, and of what servers answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import yaml

from doctor import gate
from doctor.binaries import demangle, notes, records
from doctor.errors import DoctorError
from doctor.facts import CodeTarget, Specifier, Version
from doctor.images.config import parse_config as parse_image_config
from doctor.images.pins import read_pins
from doctor.images.sbom import read_purls
from doctor.intake import parse_input
from doctor.intake.document import read_document
from doctor.intake.field_report import read_field_report
from doctor.intake.formats import FORMATS
from doctor.intake.host_line import parse_host
from doctor.intake.project_toml import read_project
from doctor.intake.requirement_file import read_requirements
from doctor.intake.snapshot import read_snapshot, write_snapshot
from doctor.logs import find_matches
from doctor.matrix import index_html, index_page, load_matrix, update_release
from doctor.matrix.compile import read_yaml
from doctor.matrix.diff import parse_point
from doctor.matrix.learnt import read_learnt
from doctor.profile import hub, index, lock, locking, read, registry
from doctor.provision import fleet_inventory, goal, journal, runs, survey
from doctor.provision.asked import inputs_of
from doctor.provision.driver import host_lock
from doctor.provision.driver.services import has_runtime
from doctor.provision.target import parse_target
from doctor.resolving import parse_engine
from doctor.rules.relevance import parse_requirement
from doctor.sizing.config import model_of_config
from doctor.sizing.config import parse_config as parse_model_config
from doctor.smoke import allreduce, calls, metrics, values
from doctor.smoke import records as smoke_records
from doctor.smoke.bench import baseline, lengths_file
from tests.fuzz.parser import Parser
from tests.fuzz.scratch import through_file
from tests.fuzz.text_seeds import SEEDS

TESTS = Path(__file__).parent.parent


def _of_json(read_data: Callable[[Any], object]) -> Callable[[str], object]:
    """A parser of a document: what is no JSON does not reach it."""

    def run(text: str) -> object:
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            return None
        return read_data(document)

    return run


@lru_cache(maxsize=1)
def _signatures() -> Any:
    return load_matrix().signatures


def _input(text: str) -> object:
    """What `check --facts` does: recognise, read, write as a snapshot, read it back."""
    facts = parse_input(text).facts
    assert read_snapshot(write_snapshot(facts)) == facts
    return facts


def _versions(text: str) -> object:
    version, bounds = Version.maybe(text), Specifier.parse(text)
    if version is None:
        return None
    parts = (version.is_exact, version.release, version.public, version.local, str(version))
    return parts, version.older_than(Version("2.0")), bounds and bounds.admits(Version("1.0"))


def _listed(text: str) -> object:
    rows = list(index_page.listed(text.encode(), "https://host/simple/vllm/"))
    return [
        update_release.release_of((name, version), files, None, "2026-01-01")
        for name in ("vllm",)
        for version, files in update_release.by_version(rows, name).items()
    ]


def _model(text: str) -> object:
    return model_of_config(parse_model_config(text, "x"), load_matrix().memory, "x")


def _manifest(text: str) -> object:
    found = registry._object(text.encode())
    if "manifests" in found:
        return registry._for_platform(found, "amd64", registry.Reference("a/b"))
    layers = found.get("layers")
    return [registry._size(layer) for layer in layers] if isinstance(layers, list) else None


def _hub(text: str) -> object:
    rows = hub._object(text.encode()).get("siblings")
    listed = rows if isinstance(rows, list) else ()
    names = [str(row.get("rfilename")) for row in listed if isinstance(row, dict)]
    return hub.wanted_files(names, "hf"), hub.wanted_files(names, "gguf", ("*.gguf",))


def _run(path: Path) -> object:
    run = runs.Run(path.parent)
    return run.asked.get("service"), run.journal.read(), run.journal.end, run.journal.last_step


def _inventory(text: str) -> object:
    """What `ansible-inventory --list` printed; another form would be read by Ansible."""
    if not text.lstrip().startswith("{"):
        return None
    return _in_file("inventory.json", fleet_inventory.read_inventory)(text)


def _in_file(name: str, reader: Callable[[str], object]) -> Callable[[str | bytes], object]:
    return through_file(name, lambda path: reader(str(path)))


_READERS: Mapping[str, Callable[[Any], object]] = {
    "any input": _input,
    "snapshot": read_snapshot,
    "field report": lambda text: read_field_report(read_document(text)),
    "case file": _input,
    "host in a line": parse_host,
    "requirements with options": lambda text: read_requirements(text, "r.txt"),
    "pyproject.toml": lambda text: read_project(text, "pyproject.toml"),
    "document": read_document,
    "log": lambda text: find_matches(text, _signatures(), "vllm"),
    "profile": lambda text: read.parse_profile(text, "p.yaml"),
    "stack.lock": lock.parse_lock,
    "host lock": lambda text: host_lock.parse_host_lock(text, "h.lock"),
    "images.lock": _in_file("images.lock", read_pins),
    "doctor.toml": _in_file("doctor.toml", gate.read_config),
    "baseline": _in_file("baseline.json", gate.read_baseline),
    "pins of uv": locking.parse_pins,
    "pip config": lambda text: index.index_environment({}, index.parse_pip_settings(text)),
    "image name": lambda text: registry.parse_reference(text).base,
    "target": parse_target,
    "engine of a request": parse_engine,
    "version": _versions,
    "requirement": parse_requirement,
    "point of a difference": lambda text: parse_point(load_matrix(), text),
    "code target": CodeTarget.parse,
    "mangled name": demangle.demangle,
    "inventory": _inventory,
    "journal": through_file("journal.jsonl", lambda p: journal.Journal(p.parent).read()),
    "run.json": through_file("run.json", _run),
    "goal": lambda text: goal.parse_goal(text, "goal.json"),
    "state": _of_json(survey.parse_state),
    "plan": _in_file("plan.json", inputs_of),
    "daemon.json": has_runtime,
    "learnt releases": through_file("vllm.json", read_learnt),
    "matrix row": through_file("vllm.yaml", read_yaml),
    "index page": _listed,
    "old index page": lambda text: list(index_html.anchors(text, "https://host/simple/x/")),
    "METADATA of a release": lambda text: update_release.release_of(
        ("vllm", "0.9.0"), [], text.encode(), "2026-01-01"
    ),
    "manifest": _manifest,
    "image configuration": _of_json(parse_image_config),
    "files of a hub": _hub,
    "CycloneDX": _in_file("sbom.json", read_purls),
    "model's config.json": _model,
    "answer of an engine": _of_json(calls.read_piece),
    "metrics": metrics.parse_metrics,
    "smoke record": _in_file("record.json", smoke_records.read_record),
    "bench result": through_file("bench.json", baseline.read_baseline),
    "lengths.jsonl": through_file("lengths.jsonl", lengths_file.read_lengths),
    "lengths.csv": through_file("lengths.csv", lengths_file.read_lengths),
    "rank's answer": allreduce._answer,
    "argument": values.value_of,
    "note of compat libcuda": notes.parse_compatibility,
    "scan cache": _of_json(records.from_record),
}
_REFUSALS = {
    "index page": (index_page.NotFetched,),
    "answer of an engine": (calls.CallFault,),
    "version": (ValueError,), "code target": (ValueError,),
}  # fmt: skip


@lru_cache(maxsize=1)
def _samples() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = yaml.safe_load((TESTS / "intake/samples.yaml").read_text())
    return rows


def _of_format(name: str) -> Sequence[str]:
    files = [row["file"] for row in _samples() if name in row["formats"]]
    return [(TESTS / "intake/samples" / file).read_text() for file in files]


WRITTEN = tuple(
    Parser(
        name,
        reader,
        partial(SEEDS.__getitem__, name),
        refusals=(DoctorError, *_REFUSALS.get(name, ())),
    )
    for name, reader in _READERS.items()
)
PASTED = tuple(
    Parser(f"format {kind.name}", kind.parse, partial(_of_format, kind.name)) for kind in FORMATS
)
