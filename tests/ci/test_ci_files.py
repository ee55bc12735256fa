"""The files for CI systems: their scripts are run, their forms checked by published schemas."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent.parent
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
GITLAB: dict[str, Any] = yaml.safe_load((ROOT / "ci/gitlab.yml").read_text())
HOOKS: list[dict[str, Any]] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
STEPS = ACTION["runs"]["steps"]
BAD, GOOD = "vllm==0.20.0\n", "numpy==2.0\nvllm==0.11.0\n"
HOST = "L40S,driver=550.54,python=3.12,arch=x86_64,ubuntu=22.04"


def test_nothing_of_an_input_becomes_a_part_of_a_script() -> None:
    for step in STEPS:
        assert "${{" not in step["run"]


def test_actions_of_others_are_pinned_by_commit() -> None:
    texts = [(ROOT / "action.yml").read_text(), *(p.read_text() for p in ROOT.glob("docs/*.md"))]
    used = [name for text in texts for name in re.findall(r"uses: (\S+)", text)]
    assert used
    assert all(re.search(r"@[0-9a-f]{40}$|@COMMIT$", name) for name in used), used


def _step(name: str, folder: Path, inputs: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a step of the action as a runner does."""
    step = next(step for step in STEPS if step["name"] == name)
    given = {
        key: inputs.get(key, value.get("default", "")) for key, value in ACTION["inputs"].items()
    }
    env = {
        variable: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda m: given[m[1]], text)
        for variable, text in step["env"].items()
    }
    own = {"PATH": os.environ["PATH"], "HOME": str(folder), "RUNNER_TEMP": str(folder / "temp"),
           "GITHUB_ACTION_PATH": str(ROOT), "GITHUB_OUTPUT": str(folder / "output"),
           "GITHUB_STEP_SUMMARY": str(folder / "summary.md")}  # fmt: skip
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]],
        env={**own, **env}, cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip


def _installed(folder: Path) -> None:
    """This checkout in the place where the first step puts it."""
    bin_folder = folder / "temp/doctor/bin"
    bin_folder.mkdir(parents=True)
    script = bin_folder / "doctor"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m doctor "$@"\n')
    script.chmod(0o755)


@pytest.mark.real
@pytest.mark.parametrize(("text", "code"), [(BAD, 1), (GOOD, 0)])
def test_the_action_judges_files_and_says_so_three_ways(
    text: str, code: int, tmp_path: Path
) -> None:
    _installed(tmp_path)
    (tmp_path / "my requirements.txt").write_text(text)
    inputs = {"files": "my requirements.txt\n", "host": HOST, "allow-unknown": "true"}
    answer = _step("Check", tmp_path, inputs)
    assert answer.returncode == code, answer.stderr
    assert ("::error file=my requirements.txt,line=1,title=driver-too-old" in answer.stdout) == code
    assert json.loads((tmp_path / "doctor.sarif").read_text())["version"] == "2.1.0"
    assert "vllm" in (tmp_path / "summary.md").read_text()
    assert (tmp_path / "output").read_text() == f"sarif=doctor.sarif\nexit-code={code}\n"


@pytest.mark.real
def test_hostile_inputs_stay_words(tmp_path: Path) -> None:
    _installed(tmp_path)
    inputs = {"files": "--no-such\n$(touch pwned)", "host": '";touch pwned;"', "engine": "`id`"}
    answer = _step("Check", tmp_path, inputs)
    assert answer.returncode == 2
    assert not (tmp_path / "pwned").exists()


@pytest.mark.real
def test_the_gitlab_job_runs_and_leaves_its_reports(tmp_path: Path) -> None:
    _installed(tmp_path)
    (tmp_path / "requirements.txt").write_text(BAD)
    job = GITLAB[".doctor"]
    env = {**job["variables"], "PATH": f"{tmp_path}/temp/doctor/bin:{os.environ['PATH']}",
           "DOCTOR_FILES": "requirements.txt", "DOCTOR_HOST": HOST}  # fmt: skip
    script = job["script"][-1]
    assert script.startswith("doctor check")
    answer = subprocess.run(["sh", "-c", script], env=env, cwd=tmp_path, check=False)
    assert answer.returncode == 1
    left = {*job["artifacts"]["paths"], job["artifacts"]["reports"]["junit"]}
    assert left <= {path.name for path in tmp_path.iterdir()}


def test_the_hook_takes_the_files_that_check_takes() -> None:
    from doctor.examine import plans_of

    pattern = re.compile(HOOKS[0]["files"])
    names = ("requirements.txt", "a/requirements-gpu.in", "pyproject.toml", "x/uv.lock",
             "Dockerfile", "docker/Dockerfile.gpu", "gpu.Dockerfile", "compose.yaml",
             "docker-compose.prod.yml")  # fmt: skip
    for name in names:
        assert pattern.search(name), name
        assert plans_of((name,)), name
    assert not any(pattern.search(name) for name in ("README.md", "setup.py", "compose.py"))


@pytest.mark.real
@pytest.mark.parametrize(
    ("schema", "file"),
    [("vendor.github-actions", "action.yml"), ("vendor.gitlab-ci", "ci/gitlab.yml")],
)
def test_the_form_is_that_of_the_published_schema(schema: str, file: str) -> None:
    pytest.importorskip("check_jsonschema")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema]
    transform = ["--data-transform", "gitlab-ci"] if "gitlab" in schema else []
    answer = subprocess.run(
        [*command, *transform, str(ROOT / file)], capture_output=True, check=False
    )
    assert answer.returncode == 0, answer.stdout


@pytest.mark.slow
def test_the_action_installs_its_own_commit(tmp_path: Path) -> None:
    answer = _step("Install doctor", tmp_path, {"python": sys.executable})
    if "index" in answer.stderr or "No matching distribution" in answer.stderr:
        pytest.skip(f"no package index: {answer.stderr[-200:]}")
    assert answer.returncode == 0, answer.stderr
    version = [str(tmp_path / "temp/doctor/bin/doctor"), "--version"]
    assert subprocess.run(version, capture_output=True, check=False).returncode == 0


@pytest.mark.slow
def test_pre_commit_runs_the_hook_of_this_checkout(tmp_path: Path) -> None:
    pytest.importorskip("pre_commit")
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("no git checkout")
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org"]
    clone, work = tmp_path / "clone", tmp_path / "work"
    subprocess.run([*git, "clone", "-q", "--depth", "1", f"file://{ROOT}", clone], check=True)
    work.mkdir()
    subprocess.run([*git, "init", "-q"], cwd=work, check=True)
    (work / "requirements.txt").write_text(BAD)
    (work / "notes.md").write_text("no file of ours\n")
    subprocess.run([*git, "add", "."], cwd=work, check=True)
    config = {"repos": [{"repo": str(clone), "rev": _head(clone), "hooks": [
        {"id": "doctor", "args": ["--host", HOST]}]}]}  # fmt: skip
    (work / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
    env = {**os.environ, "PRE_COMMIT_HOME": str(tmp_path / "home")}
    answer = subprocess.run(
        [sys.executable, "-m", "pre_commit", "run", "--all-files", "--color", "never"],
        cwd=work, env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "No matching distribution" in answer.stdout:
        pytest.skip("no package index")
    assert answer.returncode == 1, answer.stdout + answer.stderr
    assert "driver-too-old" in answer.stdout
    assert "notes.md" not in answer.stdout


def _head(folder: Path) -> str:
    command = ["git", "-C", str(folder), "rev-parse", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
