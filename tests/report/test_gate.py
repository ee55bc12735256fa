"""Baselines and ignore lists: what they let pass, and that they say so."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from doctor.checkup import exit_code
from doctor.config_schema import PATH, schema_text
from doctor.errors import ExitCode, UsageError
from doctor.findings import Finding, Severity, Verdict
from doctor.gate import Config, Gate, Ignore, gate, own_config, read_baseline, read_config
from doctor.report import Report, Style, renderer
from tests.golden.shared import load

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TODAY = date(2026, 11, 29)


def _exit(report: Report, fail_on: str = "error") -> ExitCode:
    return exit_code(report, fail_on, strict=False, asked=True)


def _ignoring(*entries: Ignore) -> Report:
    return Gate(Config(entries), "doctor.toml", None, TODAY).apply(load("several"))


def test_a_baseline_lets_the_known_pass_and_new_findings_fail(tmp_path: Path) -> None:
    report = load("several")
    assert _exit(report) is ExitCode.NO
    file = tmp_path / "baseline.json"
    file.write_text(renderer("baseline")(report, Style()))
    allowed = gate("", str(file), TODAY)
    assert _exit(allowed.apply(report)) is ExitCode.OK
    assert allowed.apply(report).diagnosis.verdict is Verdict.FAIL
    assert _exit(allowed.apply(load("broken"))) is ExitCode.NO


def test_an_ignored_finding_is_gone_and_named() -> None:
    report = _ignoring(Ignore("the V100 is not used", code="DRV111"))
    target = report.diagnosis.targets[0]
    assert target.primary is not None
    assert target.primary.code == "DEV104"
    assert [h.finding.code for h in report.hidden] == ["DRV111"]
    for form in ("text", "markdown", "html", "json", "sarif", "junit", "github"):
        assert "the V100 is not used" in renderer(form)(report, Style())


def test_the_verdict_follows_what_is_left() -> None:
    report = _ignoring(Ignore("known", code="DRV111"), Ignore("known", cause="gpu-not-visible"))
    assert report.diagnosis.verdict is not Verdict.FAIL
    assert report.diagnosis.targets[0].primary is None


def test_the_likeliest_cause_stays_first_until_it_is_ignored_itself() -> None:
    report = load("several")
    target = report.diagnosis.targets[0]
    first, other = (replace(f, severity=Severity.INFO) for f in target.findings[:2])
    assert first.cause != other.cause
    undecided = replace(target, findings=(first, other), primary=first)
    asked = replace(report, diagnosis=replace(report.diagnosis, targets=(undecided,)))

    def left(cause: str) -> Finding | None:
        config = Config((Ignore("known", cause=cause),))
        return Gate(config, "", None, TODAY).apply(asked).diagnosis.targets[0].primary

    assert left(other.cause) is first
    assert left(first.cause) is None


@pytest.mark.parametrize(
    ("entry", "hides"),
    [
        (Ignore("r", cause="driver-too-new-for-old-gpu"), True),
        (Ignore("r", cause="driver-too-new-for-old-gpu", subject="h*"), True),
        (Ignore("r", cause="driver-too-new-for-old-gpu", subject="vllm"), False),
        (Ignore("r", cause="driver-too-new-for-old-gpu", code="DRV101"), False),
        (Ignore("r", cause="driver-too-new-for-old-gpu", host="n*"), False),
        (Ignore("r", cause="driver-too-new-for-old-gpu", until=TODAY), True),
        (Ignore("r", cause="driver-too-new-for-old-gpu", until=date(2026, 11, 28)), False),
    ],
)
def test_an_entry_hides_what_it_names(entry: Ignore, hides: bool) -> None:
    assert bool(_ignoring(entry).hidden) is hides


def test_an_expired_entry_is_named() -> None:
    report = _ignoring(Ignore("r", code="DRV111", until=date(2026, 1, 1)))
    assert "doctor.toml: ignoring DRV111 ended on 2026-01-01" in report.notes


WHOLE = """
[[ignore]]
cause = "engine-vulnerable"
subject = "venv:*"
host = "node-*"
until = 2027-01-31
reason = "the ports are closed"
"""


def test_a_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "doctor.toml"
    file.write_text(WHOLE)
    config, source = read_config(str(file))
    assert source == str(file)
    assert config.ignore[0].until == date(2027, 1, 31)


@pytest.mark.parametrize(
    "text",
    [
        '[[ignore]]\ncause = "engine-vulnerable"',
        '[[ignore]]\ncause = "engine-vulnerable"\nreason = " "',
        '[[ignore]]\nreason = "why not"',
        '[[ignore]]\ncode = "DRV101"\nreason = "r"\nexpires = 2027-01-01',
        '[[ignore]]\ncode = "DRV101"\nreason = "r"\nuntil = "soon"',
        "[ignore",
        '[other]\nkey = "value"',
    ],
)
def test_a_file_that_says_something_else_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "doctor.toml"
    file.write_text(text)
    with pytest.raises(UsageError, match=r"doctor\.toml"):
        read_config(str(file))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        read_config(str(tmp_path / "none.toml"))


def test_the_working_directory_is_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "doctor.toml").write_text(WHOLE)
    assert read_config() == (Config(), "")


def test_the_user_s_own_file_counts_unless_others_can_change_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    path = own_config()
    assert path is not None
    path.parent.mkdir()
    path.write_text(WHOLE)
    path.chmod(0o644)
    assert read_config()[0].ignore
    path.chmod(0o666)
    with pytest.raises(UsageError, match="others can change it"):
        read_config()
    monkeypatch.chdir(tmp_path.parent)
    monkeypatch.setenv("XDG_CONFIG_HOME", tmp_path.name)
    monkeypatch.setenv("HOME", "")
    assert own_config() is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": "doctor/report/v1"}', "\x00"])
def test_what_is_no_baseline_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "baseline.json"
    file.write_text(text)
    with pytest.raises(UsageError, match=r"not a baseline|empty|not a text"):
        read_baseline(str(file))


def test_the_published_schema_is_that_of_the_configuration(tmp_path: Path) -> None:
    assert PATH.read_text() == schema_text(), "run `python -m doctor.config_schema`"
    good = 'reason = "r"\ncode = "ENG601"\nsubject = "venv:*"\nuntil = 2027-01-31\n'
    bad = ('reason = "r"\n', 'code = "X"\n', 'reason = "r"\ncode = "X"\nwhy = "x"\n')
    for text, fits in ((good, True), *((text, False) for text in bad)):
        file = tmp_path / "doctor.toml"
        file.write_text(f"[[ignore]]\n{text}")
        data = tomllib.loads(file.read_text())
        for entry in data["ignore"]:
            entry.update({k: str(v) for k, v in entry.items()})
        valid = Draft202012Validator(json.loads(schema_text())).is_valid(data)
        assert valid is fits
        if fits:
            assert read_config(str(file))[0].ignore
        else:
            with pytest.raises(UsageError):
                read_config(str(file))


def test_a_misspelt_key_is_taught(tmp_path: Path) -> None:
    file = tmp_path / "doctor.toml"
    file.write_text('[[ignore]]\ncuase = "engine-vulnerable"\nreason = "r"\n')
    with pytest.raises(UsageError, match="did you mean `cause`") as caught:
        read_config(str(file))
    assert "[[ignore]]" in caught.value.hint
