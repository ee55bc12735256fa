"""The commands from outside: exit codes, streams, and names that are no images."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from doctor.cli.main import run
from tests.images.written import save, system, torch

OLD = "RTX 4090x1,driver=550.54.14,ubuntu=22.04"


@pytest.fixture
def image(tmp_path: Path) -> str:
    return str(save(tmp_path / "i.tar", torch(system(), "2.14.0+cu130", "13.0")))


def test_check(image: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "--image", image, "--host", OLD, "--format", "json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["verdict"] == "fail"
    assert answer["targets"][0]["subject"].startswith("image:")


@pytest.mark.parametrize("form", ["text", "markdown", "html", "sarif", "junit", "github"])
def test_check_in_every_form(image: str, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "--image", image, "--host", OLD, "--format", form]) == 1
    assert "driver" in capsys.readouterr().out


@pytest.mark.parametrize("words", [
    ["check", "--host", OLD, "--image"],
    ["image", "sbom"],
    ["image", "verify"],
])  # fmt: skip
def test_what_is_no_image_gives_one_line_and_2(
    tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "pipe.tar")
    (tmp_path / "text.tar").write_text("hello " * 1000)
    (tmp_path / "empty.tar").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    (tmp_path / "packed.tar").write_bytes(b"\x1f\x8b\x08" + bytes(100))
    for name in ("pipe.tar", "text.tar", "folder", "packed.tar", "absent.tar"):
        assert run([*words, str(tmp_path / name)]) == 2, name
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.startswith("doctor: ")
        assert captured.err.count("\n") <= 2


@pytest.mark.real
@pytest.mark.parametrize(
    ("ref", "status", "named"),
    [("./absent.tar", 2, "absent.tar"), ("/dev", 2, "/dev"), ("absent:1", 4, "/nowhere")],
)
def test_an_image_is_looked_for_before_its_host(
    ref: str,
    status: int,
    named: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")
    assert run(["check", "--image", ref, "--host", "no such card x1"]) == status
    assert named in capsys.readouterr().err


def test_lists_of_parts_and_verification(
    image: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = tmp_path / "parts.json"
    assert run(["image", "sbom", image, "-o", str(parts)]) == 0
    assert json.loads(parts.read_text())["bomFormat"] == "CycloneDX"
    assert run(["image", "sbom", image, "-o", str(tmp_path / "no" / "parts.json")]) == 2
    assert run(["image", "verify", image, "--sbom", str(parts), "--json"]) == 1
    points = {p["name"]: p["passed"] for p in json.loads(capsys.readouterr().out)["points"]}
    assert points["parts"] is True
    assert points["user"] is False


def test_recipes_and_refusals(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["image", "list"]) == 0
    assert "not built here" in capsys.readouterr().out
    assert run(["image", "build", "vllm"]) == 2
    assert "doctor image pin vllm" in capsys.readouterr().err
    assert run(["image", "build", "nothing"]) == 2
    assert run(["image", "build", "vllm", "--profile", "llamacpp-cpu", "--base", "x:1"]) == 2


def test_hostile_names_do_not_reach_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = "evil\x1b[31m\n::error::x"
    layer = system().distribution("torch", "2.14.0").file(f"etc/{evil}", "x", 0o666)
    config = {"User": evil, "Labels": {"a": evil}}
    image = str(save(tmp_path / "i.tar", layer, config=config, tag=evil))
    run(["check", "--image", image, "--host", OLD])
    run(["image", "verify", image])
    run(["image", "sbom", image])
    captured = capsys.readouterr()
    assert "\x1b" not in captured.out + captured.err
    assert "\n::error::" not in captured.out
