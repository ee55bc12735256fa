"""`check --engine X==V` on a host in words: what that release would bring is judged, and said."""

from __future__ import annotations

import pytest

from doctor.checkup import check
from doctor.examine import Sources
from doctor.findings import Severity, Verdict
from doctor.report import Report

SOUND = "H100x8,driver=580.95,python=3.12,ubuntu=22.04"


def judged(engine: str, host: str = SOUND) -> Report:
    return check(Sources(host=host), engine)


@pytest.mark.parametrize(
    ("engine", "torch"),
    [("vllm==0.11.0", "2.8.0"), ("sglang==0.5.3", "2.8.0"), ("lmdeploy==0.9.0", "")],
)
def test_a_host_that_could_run_it_passes_and_is_told_with_what(engine: str, torch: str) -> None:
    report = judged(engine)
    assert report.diagnosis.verdict is Verdict.PASS
    assert [t.primary for t in report.diagnosis.targets] == [None]
    (note,) = report.notes
    assert f"{engine} was not seen here" in note
    assert f"with torch {torch}" in note
    assert "x86_64" in note


@pytest.mark.parametrize(
    ("host", "cause"),
    [
        ("H100x8,driver=470.86,python=3.12,arch=x86_64", "driver-too-old"),
        ("P40,driver=570.86,python=3.12,arch=x86_64", "cc-below-engine-minimum"),
        ("H100,driver=580.95,python=3.7,arch=x86_64", "python-unsupported"),
    ],
)
def test_a_host_that_could_not_is_told_why(host: str, cause: str) -> None:
    report = judged("vllm==0.11.0", host)
    (target,) = report.diagnosis.targets
    assert target.verdict is Verdict.FAIL
    assert target.primary is not None
    assert (target.primary.cause, target.primary.severity) == (cause, Severity.ERROR)


@pytest.mark.parametrize("engine", ["vllm", "vllm==99.0", "ollama==0.12.0"])
def test_nothing_is_supposed_where_no_release_is_known(engine: str) -> None:
    report = judged(engine)
    assert report.notes == ()
    assert report.diagnosis.verdict is Verdict.CANNOT_TELL


def test_what_is_read_counts_and_not_what_an_install_would_bring() -> None:
    report = check(Sources(facts=("tests/intake/samples/pip_list.txt",)), "vllm==0.11.0")
    assert not any("was not seen" in note for note in report.notes)
