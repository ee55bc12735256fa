"""The commands from outside: exit codes, what goes to which stream, and what disturbs them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from doctor.cli.commands import COMMANDS
from doctor.cli.main import run

ROOT = Path(__file__).parent.parent
OLD_DRIVER = str(ROOT / "examples/old-driver.yaml")
HOSTS = ROOT / "tests/hosts"
HEALTHY = str(HOSTS / "gb10-580/facts.json")
BROKEN = str(HOSTS / "h200x8-fabricmanager/facts.json")
SAMPLES = ROOT / "tests/intake/samples"
PIP_LIST = str(SAMPLES / "pip_list.txt")
LOG = str(SAMPLES / "log_vllm.txt")
REQUIREMENTS = str(ROOT / "examples/requirements.txt")
DOCKERFILE = str(SAMPLES / "Dockerfile.txt")
COMPOSE = str(SAMPLES / "compose.txt")
LIBRARY = str(ROOT / "tests/binaries/samples/lz4.so")

ANSWERS: tuple[tuple[str, int], ...] = (
    (f"check --facts {HEALTHY}", 0),
    (f"check --facts {BROKEN}", 1),
    (f"check --facts {BROKEN} --fail-on never", 0),
    (f"check --facts {PIP_LIST}", 3),
    (f"check --facts {HEALTHY} --strict", 3),
    (f"check --facts {HEALTHY} --engine vllm==99.0", 3),
    (f"check --facts {OLD_DRIVER} --facts {PIP_LIST}", 1),
    ("explain", 0),
    ("explain DRV101", 0),
    ("explain Driver-Too-Old", 0),
    (f"diagnose {LOG}", 3),
    (f"diagnose {PIP_LIST}", 3),
    (f"scan {LIBRARY} --cc 8.0", 0),
    (f"scan {LIBRARY} --cc 7.0", 1),
    ("matrix show", 0),
    ("matrix query vllm 0.11.0", 0),
    ("matrix query vllm 99.0", 1),
    (f"check {REQUIREMENTS} --host L40S,driver=550.54", 1),
    (f"check --dockerfile {DOCKERFILE} --host L40S,driver=550.54 --fail-on never", 0),
    (f"fleet diff {HOSTS} {HOSTS}", 0),
    ("--version", 0),
    ("--help", 0),
)
LONG = "x" * 5000
MISTAKES = (
    *("chek", "check extra", "check --format xml", "check --facts /nonexistent/file"),
    *("check --facts /", "check --facts /dev/zero", f"check --facts {LIBRARY}"),
    *("check --engine foo", "check --engine vllm==", "check --engine vllm==x y", "check --model m"),
    *("check --root /nonexistent", f"check --root / --facts {HEALTHY}", "check --root=", "check "),
    *("check -o json", "check -o foo=bar", f"check --facts {HEALTHY} -o json=/nonexistent/x"),
    *(f"check --facts {HEALTHY} -o json=/proc/x", "explain foo", "explain a b", "record /dev/null"),
    *("diagnose /nonexistent", "scan /nonexistent", f"scan {PIP_LIST}", "scan / --cc x"),
    *("check --inventory /nonexistent", f"check --inventory {PIP_LIST} --facts-dir {HOSTS}"),
    *("check --requirements /nonexistent", "check --profile none", "check x.txt"),
    *("fleet diff /nonexistent /nonexistent", "apply none --inventory /nonexistent --yes"),
    *(f"{verb} x --inventory {PIP_LIST} --ssh-config {PIP_LIST}" for verb in ("plan", "drift")),
    *(f"check {REQUIREMENTS} --python /x", f"check {REQUIREMENTS} --root / --host L40S"),
    *(f"check --image {PIP_LIST} --host L40S", "check --image /nonexistent.tar --host L40S"),
    *(f"fit m --gpu H100 {word} nan" for word in ("--memory-gib", "--utilization")),
    *("check --limit a", "check --keep /x", "check --image-limit 9", "profile show x --lock y"),
    *(f"apply x --user {word} 1" for word in ("--limit", "--drain", "--serial", "--ssh-config")),
    *(f"record x --root {HOSTS} --python {path}" for path in ("/nonexistent", "/")),
    *("check --engine vllm --engine sglang", "profile show x --emit k8s --emit compose"),
    *("check -o json=x -o html=x", "fit m --gpu H100 --tp 1 --tp 2", "image pin a -o x -o y"),
    *("apply x --user --resume --check", "plan llamacpp-cpu --user --write-lock x"),
    *("plan llamacpp-cpu --user --busy", f"plan x --offline {LONG}", f"check --root {LONG}"),
    *("matrix query foo", "matrix show foo", "matrix query vllm [/foo]", "matrix"),
    *("explain \x1b[31m", "matrix query \u202e", "check --engine ::error::"),
)
JSON = (
    f"check --facts {BROKEN} --format json",
    f"check --facts {HEALTHY} --format json --engine vllm",
    f"diagnose {LOG} --format json",
    f"scan {LIBRARY} --format json",
    f"check {REQUIREMENTS} --host L40S,driver=550.54 --format json",
    f"check --compose {COMPOSE} --host L40S,driver=550.54 --format json",
    "check --profile vllm-nvidia --host L40S,driver=550.54 --format json",
    f"fleet diff {HOSTS} {HOSTS} --format json",
    "matrix show drivers --json",
    "matrix query gpu 4090 --json",
)


def _words(line: str) -> list[str]:
    return line.split(" ")


@pytest.mark.parametrize(("line", "code"), ANSWERS)
def test_the_exit_code_is_the_answer(
    line: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(_words(line)) == code
    out, err = capsys.readouterr()
    assert out.endswith("\n")
    assert not err


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_one_line_and_a_hint(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(_words(line)) == 2
    out, err = capsys.readouterr()
    assert not out
    if line == "matrix":  # the help, for there is nothing else to say
        return
    message, hint = err.splitlines()
    assert message.startswith("doctor: ")
    assert hint.startswith("  ")
    assert err.replace("\n", "").isprintable()


@pytest.mark.parametrize("line", JSON)
def test_in_json_stdout_holds_the_payload_alone(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run(_words(line))
    out, err = capsys.readouterr()
    assert json.loads(out)
    assert out.isascii()
    assert not err


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_says_what_it_does(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([name, "--help"]) == 0
    out, _ = capsys.readouterr()
    assert f"Usage: doctor {name}" in out
    assert max(map(len, out.splitlines())) <= 100


def test_files_are_written_whole_or_not_at_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.json"
    link = tmp_path / "link"
    link.symlink_to(report)
    assert run(["check", "--facts", BROKEN, "-o", f"json={link}"]) == 1
    assert json.loads(report.read_text())["verdict"] == "fail"
    assert link.is_symlink()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link", "report.json"]
    assert run(["check", "--facts", BROKEN, "-o", f"json={tmp_path}"]) == 2
    assert "Is a directory" in capsys.readouterr().err


def test_a_pipe_without_a_reader_is_not_waited_for_nor_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert run(["check", "--facts", BROKEN, "-o", f"json={pipe}"]) == 2
    assert pipe.is_fifo()
    assert run(["check", "--facts", BROKEN, "-o", "json=/dev/full"]) == 2
    assert "No space left" in capsys.readouterr().err
    assert Path("/dev/full").is_char_device()


# Every option and argument that names a file to read, with {} in its place.
NAMING = (
    *("check --facts {}", "check --root {}", "check --python {}", "check --facts-dir {}"),
    *(f"check --facts {HEALTHY} --baseline {{}}", f"check --facts {HEALTHY} --config {{}}"),
    *("diagnose {}", f"diagnose {LOG} --facts {{}}", "scan {}", "fit {}", "fit --facts {}"),
    *("matrix --overlay {} show", "profile validate {}", "profile show {}", "profile lock {}"),
    *("resolve vllm --facts {}", "resolve vllm --root {}", "plan {} --user", "drift {} --user"),
    *("plan llamacpp-cpu --user --lock {}", "smoke --profile {}", "record {}"),
    *("check --requirements {}", "check --dockerfile {}", "check --compose {}"),
    *("check --profile {}", "check --inventory {}", "plan llamacpp-cpu --inventory {}"),
    *("apply llamacpp-cpu --yes --inventory {}", "drift llamacpp-cpu --inventory {}"),
    *("fleet diff {} {}",),
    "smoke http://127.0.0.1:9 --expect {}",
    "smoke http://127.0.0.1:9 --api-key file:{}",
    *("bench http://127.0.0.1:9 --lengths {}", "bench http://127.0.0.1:9 --baseline {}"),
)


@pytest.mark.real
@pytest.mark.parametrize("line", NAMING)
def test_a_pipe_where_a_file_is_expected_is_refused_at_once(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo(tmp_path / "pipe.yaml")
    signal.alarm(20)
    try:
        pipe = tmp_path / "pipe.yaml"
        code = run(_words(line.format(pipe, pipe)))
    finally:
        signal.alarm(0)
    out, err = capsys.readouterr()
    assert (code, out) == (2, ""), err
    # Engines that run here meanwhile are looked at before it, and progress is told.
    assert "\ndoctor: " in f"\n{err}"


def _start(line: str, **options: object) -> subprocess.Popen[bytes]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    argv = [sys.executable, "-m", "doctor", *_words(line)]
    return subprocess.Popen(argv, **{**pipes, **options})  # type: ignore[call-overload,no-any-return]


@pytest.mark.real
def test_interrupted_it_says_so() -> None:
    child = _start("diagnose -", start_new_session=True)
    time.sleep(1.0)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=20)
    assert (child.returncode, out, err.strip()) == (130, b"", b"doctor: interrupted")


@pytest.mark.real
def test_a_reader_that_goes_away_does_not_change_the_answer() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    child = _start(f"check --facts {BROKEN} --format json", stdout=writer)
    os.close(writer)
    _, err = child.communicate(timeout=20)
    assert (child.returncode, err) == (1, b"")


@pytest.mark.real
def test_a_full_disk_behind_stdout_is_one_line() -> None:
    with open("/dev/full", "wb") as full:
        child = _start(f"check --facts {HEALTHY}", stdout=full)
        _, err = child.communicate(timeout=20)
    assert child.returncode == 4
    message, _hint = err.splitlines()
    assert message == b"doctor: cannot write the output: No space left on device"


@pytest.mark.real
@pytest.mark.parametrize("streams", [">&-", ">&- 2>&-", "2>&- >/dev/null", "<&- >/dev/null"])
def test_closed_streams_do_not_change_the_answer(streams: str) -> None:
    line = f'"{sys.executable}" -m doctor check --facts "{BROKEN}" {streams}'
    assert subprocess.run(["sh", "-c", line], timeout=20, check=False).returncode == 1


@pytest.mark.real
@pytest.mark.parametrize(
    "variables",
    [
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "latin-1", "COLUMNS": "1", "TERM": ""},
    ],
)
def test_any_encoding_takes_the_report(tmp_path: Path, variables: dict[str, str]) -> None:
    facts = tmp_path / "facts.yaml"
    facts.write_text("driver: 535.1\ngpus: [Karte \N{GREEK CAPITAL LETTER OMEGA}]\n", "utf-8")
    for form in ("text", "json"):
        env = {"PATH": os.environ["PATH"], **variables}
        child = _start(f"check --facts {facts} --format {form}", env=env)
        out, err = child.communicate(timeout=20)
        assert (child.returncode, err) == (3, b"")
    assert "\N{GREEK CAPITAL LETTER OMEGA}" in json.dumps(json.loads(out), ensure_ascii=False)


@pytest.mark.real
def test_this_machine_is_judged_without_home_terminal_or_rights(tmp_path: Path) -> None:
    child = _start("check --format json", env={"HOME": str(tmp_path / "none")}, cwd=tmp_path)
    out, _ = child.communicate(timeout=60)
    assert child.returncode in (0, 1)
    assert json.loads(out)["schema"] == "doctor/report/v1"
    assert not list(tmp_path.iterdir())


TRAP = "import os, pathlib; pathlib.Path({mark!r}).touch()\n"


@pytest.mark.real
def test_nothing_of_an_examined_environment_is_run(tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    site = tmp_path / "env/lib/python3.12/site-packages"
    for package in ("torch", "vllm"):
        (site / package).mkdir(parents=True)
        (site / package / "__init__.py").write_text(TRAP.format(mark=str(mark)))
        info = site / f"{package}-2.8.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 2.8.0\n")
    for name in ("sitecustomize.py", "usercustomize.py", "trap.pth"):
        (site / name).write_text(TRAP.format(mark=str(mark)))
    (tmp_path / "env/pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.12.3\n")
    programs = tmp_path / "env/bin"
    programs.mkdir()
    for name in ("python3", "python", "pip", "nvidia-smi", "docker", "gcc", "nvcc", "ldconfig"):
        (programs / name).write_text(f"#!/bin/sh\ntouch {mark}\nsleep 60\n")
        (programs / name).chmod(0o755)
    os.mkfifo(site / "pipe.pth")
    os.mkfifo(site / "torch/libpipe.so")
    shutil.copy(LIBRARY, site / "torch/libreal.so")
    (site / "odd.dist-info").mkdir()
    (site / "odd.dist-info/METADATA").symlink_to("/dev/zero")
    (site / "[bold]-1.dist-info").mkdir()
    (site / "[bold]-1.dist-info/METADATA").write_text("Name: [/foo]\x1b[31m\u202e\nVersion: 1\n")
    for name in ("click.py", "yaml.py", "json.py", "doctor_trap.py", "difflib.py"):
        (tmp_path / name).write_text(TRAP.format(mark=str(mark)))
    env = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    started = time.monotonic()
    for line in (f"check --python {tmp_path}/env -v", f"scan {tmp_path}/env"):
        child = _start(line, env=env, cwd=tmp_path)
        out, err = child.communicate(timeout=60)
        assert child.returncode in (0, 1, 3), err
        assert b"\x1b" not in out
    assert time.monotonic() - started < 30
    assert not mark.exists()
