"""Every cause has rules, pages and cases, and each fact that they need comes from somewhere."""

from __future__ import annotations

import json
import re
from dataclasses import fields, is_dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from doctor.explain import HEADINGS, page_of
from doctor.facts import ContainerEngine, Device, Facts, Scope, Workload
from doctor.intake.formats.registry import FORMATS
from doctor.matrix import load_matrix
from doctor.probes.collect import PROBES, Probe
from doctor.rules.registry import RULES

HERE = Path(__file__).parent
TABLE = yaml.load((HERE / "data/cause_facts.yaml").read_text(), Loader=yaml.CSafeLoader)
CAUSES = sorted(set(load_matrix().causes) - {"not-environment"})
PROBED = {path for probe in PROBES for path in (*probe.fills, *probe.adds)}
LISTS: dict[str, Any] = {
    "container_engine": ContainerEngine("docker"),
    "devices": Device("gpu0", "nvidia"),
    "scopes": Scope("host", "host"),
    "workloads": Workload("w", "vllm"),
}
# No recorded host has these: contents of libraries, running engines, a container engine.
# tests/probes/test_libraries.py and test_containers.py fill them.
ELSEWHERE = ("workloads.", "container_engine.")
NOT_RECORDED = {
    f"scopes.{name}" for name in ("binaries", "libcuda", "image", "devices_visible", "mounts")
}


def test_the_table_is_whole() -> None:
    assert sorted(TABLE["causes"]) == CAUSES
    assert all(TABLE["causes"].values())


@pytest.mark.parametrize("cause", CAUSES)
def test_every_cause_has_rules_pages_and_cases(cause: str) -> None:
    rules = [rule for rule in RULES if rule.cause == cause]
    assert rules
    for rule in rules:
        assert set(page_of(rule).sections) == set(HEADINGS)
        assert (HERE / f"rules/{rule.code}.yaml").exists()


@pytest.mark.parametrize("cause", CAUSES)
def test_each_fact_of_a_cause_is_filled(cause: str) -> None:
    for path in TABLE["causes"][cause]:
        assert _exists(path), path
        assert path in PROBED or path in TABLE["inputs"], path


def test_inputs_are_formats_and_fill_what_no_probe_does() -> None:
    names = {kind.name for kind in FORMATS} | {"field report"}
    assert set(TABLE["inputs"].values()) <= names
    assert not PROBED & set(TABLE["inputs"])
    assert all(_exists(path) for path in TABLE["inputs"])


def test_the_documentation_names_what_no_probe_reads() -> None:
    text = (HERE.parent / "docs/facts.md").read_text()
    rows = re.findall(r"^\| `([a-z_.]+)` \| ([^|]+) \|$", text, re.MULTILINE)
    assert dict(rows) == TABLE["inputs"]


def _exists(path: str) -> bool:
    first, *rest = path.split(".")
    record: Any = LISTS[first] if rest and first in LISTS else None
    if record is None:
        record, rest = Facts(), [first, *rest]
    for name in rest:
        if not is_dataclass(record) or name not in {field.name for field in fields(record)}:
            return False
        record = getattr(record, name)
    return True


@lru_cache(maxsize=1)
def _recorded() -> set[str]:
    """Paths of all that the recorded hosts state, be it a value or why there is none."""
    found: set[str] = set()
    for path in sorted(HERE.glob("hosts/*/facts.json")):
        _walk(json.loads(path.read_text()), "", found)
    return found


def _walk(node: Any, where: str, found: set[str]) -> None:
    if isinstance(node, list):
        for item in node:
            _walk(item, where, found)
    elif isinstance(node, dict):
        inner = node.get("value", node)
        for name, value in inner.items() if isinstance(inner, dict) else ():
            path = f"{where}.{name}" if where else name
            found.add(path)
            _walk(value, path, found)
        if isinstance(inner, list):
            _walk(inner, where, found)


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.name)
def test_a_recorded_host_has_what_a_probe_fills(probe: Probe) -> None:
    stated = {path for path in (*probe.fills, *probe.adds) if not path.startswith(ELSEWHERE)}
    assert stated - NOT_RECORDED <= _recorded()
