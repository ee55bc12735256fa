"""The formats for machines, read by the tools that read them elsewhere."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from junitparser import Error, Failure, JUnitXml, Skipped
from prometheus_client.parser import text_string_to_metric_families

import doctor.cli.check_options
import doctor.facts
import doctor.report
from doctor.findings import OutcomeKind, Severity
from doctor.report import FLEET_FORMATS, FORMATS, Report, Style, fleet_renderer, renderer
from doctor.report.report_schema import PATH, schema_text
from tests.golden.shared import fleet, load, names

HERE = Path(__file__).parent
NAMES = names()


def _json(form: str, report: Report) -> Any:
    return json.loads(renderer(form)(report, Style()))


def _findings(report: Report) -> int:
    return sum(len(target.findings) for target in report.diagnosis.targets)


def test_the_command_offers_the_formats_that_there_are() -> None:
    assert doctor.cli.check_options.FORMATS == tuple(FORMATS) == tuple(FLEET_FORMATS)
    modules = {path.stem for path in Path(doctor.report.__file__).parent.glob("*.py")}
    assert {module.rpartition(".")[2] for module in FLEET_FORMATS.values()} <= modules


class TestSarif:
    SCHEMA: Any = json.loads((HERE / "sarif-2.1.0.schema.json").read_text())

    @pytest.mark.parametrize("name", NAMES)
    def test_it_is_valid(self, name: str) -> None:
        jsonschema.Draft4Validator(self.SCHEMA).validate(_json("sarif", load(name)))

    def test_a_fleet_is_valid(self) -> None:
        log = json.loads(fleet_renderer("sarif")(fleet(), Style()))
        jsonschema.Draft4Validator(self.SCHEMA).validate(log)
        places = {r["locations"][0]["logicalLocations"][0]["fullyQualifiedName"].split("/")[0]
                  for r in log["runs"][0]["results"]}  # fmt: skip
        assert places == {r.name for r in fleet().hosts if _findings(r) or r.hidden}

    @pytest.mark.parametrize("name", NAMES)
    def test_one_result_a_finding_and_rules_with_help(self, name: str) -> None:
        report = load(name)
        run = _json("sarif", report)["runs"][0]
        assert len(run["results"]) == _findings(report) + len(report.hidden)
        rules = run["tool"]["driver"]["rules"]
        for result in run["results"]:
            assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
            assert result["partialFingerprints"]["doctor/v1"]
        assert all("Why" in rule["help"]["text"] for rule in rules)

    def test_what_is_known_and_ignored_says_so(self) -> None:
        results = _json("sarif", load("gated"))["runs"][0]["results"]
        assert [r.get("baselineState") for r in results] == ["unchanged", None]
        assert results[0]["suppressions"] == []
        assert "ports are closed" in results[1]["suppressions"][0]["justification"]

    def test_the_place_is_the_file(self) -> None:
        result = _json("sarif", load("broken"))["runs"][0]["results"][0]
        place = result["locations"][0]["physicalLocation"]
        assert place["artifactLocation"]["uri"] == "examples/old-driver.yaml"


class TestJunit:
    @pytest.mark.parametrize("name", NAMES)
    def test_counts(self, name: str) -> None:
        report = load(name)
        suites = JUnitXml.fromstring(renderer("junit")(report, Style()).encode())
        outcomes = [o for t in report.diagnosis.targets for o in t.outcomes]
        assert (suites.tests or 0) == len(outcomes)
        kinds = Counter(type(r) for suite in suites for case in suite for r in case.result)
        assert (suites.failures or 0) == kinds[Failure]
        assert (suites.errors or 0) == kinds[Error]
        assert (suites.skipped or 0) == kinds[Skipped]
        unsure = (OutcomeKind.CANNOT_TELL, OutcomeKind.NOT_APPLICABLE)
        assert kinds[Skipped] >= sum(o.kind in unsure for o in outcomes) - _findings(report)

    def test_errors_fail_and_the_known_is_skipped(self) -> None:
        broken = JUnitXml.fromstring(renderer("junit")(load("broken"), Style()).encode())
        assert broken.failures == 1
        gated = JUnitXml.fromstring(renderer("junit")(load("gated"), Style()).encode())
        assert gated.failures == 0
        reasons = [r.message for suite in gated for case in suite for r in case.result]
        assert any("known from the baseline" in reason for reason in reasons)
        assert any("ports are closed" in reason for reason in reasons)

    def test_a_lost_host_is_an_error(self) -> None:
        suites = JUnitXml.fromstring(fleet_renderer("junit")(fleet(), Style()).encode())
        assert suites.errors == 1


class TestPrometheus:
    @pytest.mark.parametrize("name", NAMES)
    def test_it_is_read(self, name: str) -> None:
        report = load(name)
        families = {
            family.name: family.samples
            for family in text_string_to_metric_families(renderer("prometheus")(report, Style()))
        }
        targets = report.diagnosis.targets
        assert sum(s.value for s in families["doctor_verdict"]) == len(targets)
        assert len(families["doctor_finding"]) == _findings(report)
        assert {s.labels["known"] for s in families["doctor_finding"]} <= {"true", "false"}

    def test_no_sample_stands_twice(self) -> None:
        text = fleet_renderer("prometheus")(fleet(), Style())
        samples = [line.rpartition(" ")[0] for line in text.splitlines() if line[0] != "#"]
        assert len(samples) == len(set(samples))
        assert 'doctor_unreadable{host="lost"} 1' in text


class TestJson:
    SCHEMA: Any = json.loads(PATH.read_text())
    FACTS: Any = json.loads((Path(doctor.facts.__file__).parent / "facts.schema.json").read_text())

    def test_the_schema_is_as_the_code_has_it(self) -> None:
        assert PATH.read_text() == schema_text(), "python -m doctor.report.report_schema"

    @pytest.mark.parametrize("name", NAMES)
    def test_it_is_valid(self, name: str) -> None:
        data = _json("json", load(name))
        jsonschema.validate(data, self.SCHEMA)
        jsonschema.validate(data["facts"], self.FACTS)

    def test_a_fleet_is_valid(self) -> None:
        jsonschema.validate(json.loads(fleet_renderer("json")(fleet(), Style())), self.SCHEMA)


class TestAnnotations:
    @pytest.mark.parametrize("name", NAMES)
    def test_every_line_is_a_command(self, name: str) -> None:
        lines = renderer("github")(load(name), Style(verbose=True)).splitlines()
        assert lines
        assert all(re.match(r"::(error|warning|notice) [^\n]*::", line) for line in lines)

    def test_an_error_stands_at_its_file(self) -> None:
        first = renderer("github")(load("broken"), Style()).splitlines()[0]
        assert first.startswith("::error file=examples/old-driver.yaml,line=1,title=")

    def test_the_known_is_only_a_notice(self) -> None:
        assert "::error" not in renderer("github")(load("gated"), Style())


def test_errors_come_before_warnings_in_a_fleet() -> None:
    lines = fleet_renderer("github")(fleet(), Style(verbose=True)).splitlines()
    order = [line.split(" ")[0] for line in lines if "file=" in line and "lost" not in line]
    assert order == sorted(order, key=["::error", "::warning", "::notice"].index)
    assert Severity.ERROR.weight > Severity.WARNING.weight
