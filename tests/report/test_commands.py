"""Commands as scripts call them: the report alone on standard output, several files at once."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import click
import pytest
from prometheus_client.parser import text_string_to_metric_families

from doctor.cli.check_options import FORMATS
from doctor.cli.group import root
from doctor.cli.main import run

ROOT = Path(__file__).parent.parent.parent
BROKEN = str(ROOT / "examples" / "old-driver.yaml")
HEALTHY = str(ROOT / "tests" / "hosts" / "t4-535" / "facts.json")
HOSTS = str(ROOT / "tests" / "hosts")
WANTED = [str(ROOT / "examples" / "requirements.txt"), "--host", "L40S,driver=550.54"]

# How each command that has a format for machines is called here.
CALLS: dict[str, list[str]] = {
    "check": ["--facts", BROKEN],
    "diagnose": [str(ROOT / "tests" / "golden" / "server.log"), "--engine", "vllm==0.20.0"],
    "scan": [os.path.realpath(sys.executable), "--cc", "8.9"],
    "fit": ["meta-llama/Meta-Llama-3.1-8B-Instruct", "--gpu", "RTX 4090"],
    "resolve": ["vllm", "--facts", BROKEN, "--no-unlocks"],
    "matrix show": [],
    "matrix query": ["gpu", "4090"],
    "matrix diff": ["vllm==0.19.1", "vllm==0.20.0"],
    "matrix verify": [],
    "profile list": [],
    "profile show": ["vllm-cpu"],
    "fleet diff": [HOSTS, HOSTS],
    "image list": [],
}
# They change a machine, ask an index or need a server; their own tests look at their output.
ELSEWHERE = {"plan", "apply", "rollback", "drift", "smoke", "bench", "matrix update",
             "image verify"}  # fmt: skip


def _commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """Paths of all commands with an option for machines, and that option."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None:
                yield from _commands(inner, (*path, name))
        return
    for option in command.params:
        if option.name == "form":
            yield " ".join(path), "--format"
        elif option.name == "as_json":
            yield " ".join(path), "--json"


def test_every_command_with_a_format_is_tried() -> None:
    assert {name for name, _ in _commands(root)} == set(CALLS) | ELSEWHERE


@pytest.mark.parametrize("name", CALLS)
def test_json_is_alone_on_stdout(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    option = dict(_commands(root))[name]
    form = [option, "json"] if option == "--format" else [option]
    assert run([*name.split(), *CALLS[name], *form]) in (0, 1, 3)
    out = capfd.readouterr().out
    json.loads(out)
    assert out.endswith("\n")
    assert "\x1b" not in out


def _is_whole(form: str, text: str) -> bool:
    """Tell whether a text is of its format from the first to the last character."""
    if form in ("json", "sarif", "baseline"):
        return isinstance(json.loads(text), dict)
    if form == "junit":
        return ElementTree.fromstring(text).tag == "testsuites"  # noqa: S314 - our own
    if form == "prometheus":
        return bool(list(text_string_to_metric_families(text)))
    if form == "github":
        return all(line.startswith("::") for line in text.splitlines())
    starts = {"markdown": "## ", "html": "<!doctype html>", "text": ""}
    return text.startswith(starts.get(form, ""))


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    "source",
    [["--facts", HEALTHY], ["--facts-dir", HOSTS], WANTED],
    ids=["one", "all", "a file"],
)
def test_check_prints_a_format_alone(
    source: list[str], form: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["check", *source, "--format", form, "--fail-on", "never"]) in (0, 3)
    assert _is_whole(form, capfd.readouterr().out)


def test_several_formats_at_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    files = {form: tmp_path / form for form in FORMATS}
    options = [part for form, path in files.items() for part in ("-o", f"{form}={path}")]
    assert run(["check", "--facts", BROKEN, *options, "-q"]) == 1
    assert all(_is_whole(form, path.read_text()) for form, path in files.items())
    assert len(capfd.readouterr().out.splitlines()) == 1


def test_a_baseline_of_the_command_lets_it_pass(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "baseline.json"
    assert run(["check", "--facts", BROKEN, "-o", f"baseline={file}"]) == 1
    assert run(["check", "--facts", BROKEN, "--baseline", str(file)]) == 0
    assert "(known from the baseline)" in capfd.readouterr().out


def test_an_ignore_list_of_the_command_says_what_it_hid(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "doctor.toml"
    file.write_text('[[ignore]]\ncode = "DRV101"\nreason = "replaced in May"\n')
    assert run(["check", "--facts", BROKEN, "--config", str(file)]) in (0, 3)
    assert "replaced in May" in capfd.readouterr().out


def test_names_are_kept_where_that_is_asked(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "server.log"
    log.write_text("OSError: /home/alicia/libcudart.so.12: cannot open shared object file\n")
    for option, is_named in (([], False), (["--no-redact"], True)):
        run(["diagnose", str(log), "--format", "json", *option])
        assert ("alicia" in capfd.readouterr().out) is is_named


@pytest.mark.parametrize("other", [["--facts", HEALTHY], ["--root", "/"], ["--python", "x"]])
def test_a_fleet_stands_alone(other: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "--facts-dir", HOSTS, *other]) == 2
    assert "stands alone" in capfd.readouterr().err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == 0
    assert "_DOCTOR_COMPLETE" in capfd.readouterr().out


def test_causes_are_completed() -> None:
    from click.shell_completion import BashComplete

    complete = BashComplete(root, {}, "doctor", "_DOCTOR_COMPLETE")
    found = {item.value for item in complete.get_completions(["explain"], "driver-too")}
    assert found == {"driver-too-old", "driver-too-new-for-old-gpu"}
    assert {c.value for c in complete.get_completions([], "ch")} == {"check"}
