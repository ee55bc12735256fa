"""Gates without a GPU: files on hosts in words, judged by the one judge, shown at their lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from doctor.checkup import check
from doctor.cli.main import run
from doctor.errors import UsageError
from doctor.examine import Plans, Sources
from doctor.report.place import place

CASES: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "cases.yaml").read_text())


def _plans(case: dict[str, Any]) -> Plans:
    named = case["named"]
    kinds = {
        "requirements": Plans(requirements=(named,)),
        "dockerfile": Plans(dockerfiles=(named,)),
        "compose": Plans(composes=(named,)),
        "profile": Plans(profile=named),
    }
    return kinds[case["kind"]]


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_a_file_is_judged(
    case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in case.get("files", {}).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    report = check(Sources(host=case["host"], plans=_plans(case)))
    targets = report.diagnosis.targets
    assert {t.subject: t.verdict.value for t in targets} == case["verdicts"]
    found: dict[str, tuple[str, int] | None] = {}
    for target in targets:
        for finding in target.findings:
            found.setdefault(finding.cause, place(report, finding))
    for cause, where in case.get("causes", {}).items():
        assert cause in found, f"{cause} not in {sorted(found)}"
        if where:
            assert found[cause] == (where.rpartition(":")[0], int(where.rpartition(":")[2]))
    for cause in case.get("silent", ()):
        assert cause not in found


def test_sarif_and_annotations_name_the_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sub").mkdir()
    Path("sub/requirements.txt").write_text("# pinned\nnumpy==2.0\nvllm==0.20.0\n")
    line = ["check", "--requirements", "sub/requirements.txt", "--host", "L40S,driver=550.54"]
    assert run([*line, "--format", "sarif"]) == 1
    results = json.loads(capsys.readouterr().out)["runs"][0]["results"]
    first = next(r for r in results if r["properties"]["cause"] == "driver-too-old")
    where = first["locations"][0]["physicalLocation"]
    assert where["artifactLocation"]["uri"] == "sub/requirements.txt"
    assert where["region"]["startLine"] == 3
    assert run([*line, "--format", "github"]) == 1
    assert (
        "::error file=sub/requirements.txt,line=3,title=driver-too-old" in capsys.readouterr().out
    )


def test_without_a_host_what_depends_on_one_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "empty.yaml"
    empty.write_text("notes: nothing is known of this host\n")
    wanted = tmp_path / "requirements.txt"
    wanted.write_text("vllm==0.20.0\n")
    assert run(["check", "--requirements", str(wanted), "--facts", str(empty)]) == 3
    assert "unknown nvidia.driver" in capsys.readouterr().out


def test_files_of_others_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("vllm==0.1.1\n")
    inside = tmp_path / "repository"
    inside.mkdir()
    monkeypatch.chdir(inside)
    (inside / "link.txt").symlink_to(secret)
    lines = ("-r ../secret.txt", f"-r {secret}", "-r link.txt", "-r ~/x", "torch==2.8.0")
    (inside / "requirements.txt").write_text("\n".join(lines))
    report = check(Sources(host="L40S", plans=Plans(("requirements.txt",))))
    assert [p.name for p in report.facts.scopes[0].packages.value or ()] == ["torch"]
    assert sum("is not read" in note for note in report.notes) == 4


@pytest.mark.parametrize("option", ["--requirements", "--dockerfile", "--compose", "--profile"])
@pytest.mark.parametrize("text", ["", "\0binary", "a: [", "[[package\n"])
def test_what_is_no_such_file_is_one_clear_error_or_open(
    option: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(text)
    code = run(["check", option, str(path), "--host", "L40S"])
    err = capsys.readouterr().err
    assert code in (2, 3)
    assert "this is a bug" not in err


def test_two_questions_at_once_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        check(Sources(pythons=("x",), plans=Plans(("requirements.txt",))))
