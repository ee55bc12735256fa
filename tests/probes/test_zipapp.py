"""The zipapp: small, source only, reproducible, and it runs on a real Python 3.9."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from doctor.errors import UsageError
from doctor.probes import zipapp, zipapp_pruning
from tests.fakes import hosts, nvml
from tests.provision.machine import may_mount

ROOT = Path(__file__).parent.parent.parent
ISOLATED = ("-I", "-S")


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("zipapp") / "doctor.pyz"
    zipapp.build(str(path))
    return path


def _run(*argv: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*map(str, argv)], check=False, capture_output=True, text=True, timeout=120
    )


def test_is_small_and_source_only(archive: Path) -> None:
    assert archive.stat().st_size <= zipapp.SIZE_LIMIT
    with zipfile.ZipFile(archive) as opened:
        names = opened.namelist()
    assert all(name.endswith(".py") for name in names)
    assert {"__main__.py", "pynvml.py", "doctor/probes/collect.py"} <= set(names)
    assert {name.split("/")[1] for name in names if name.count("/") > 1} == {
        "facts",
        "binaries",
        "probes",
    }


def test_is_the_same_to_the_last_bit(archive: Path, tmp_path: Path) -> None:
    zipapp.build(str(tmp_path / "again.pyz"))
    assert archive.read_bytes() == (tmp_path / "again.pyz").read_bytes()


def test_refuses_compiled_code(tmp_path: Path) -> None:
    (tmp_path / "facts").mkdir()
    (tmp_path / "facts/fast.cpython-312-x86_64-linux-gnu.so").write_bytes(b"\x7fELF")
    with pytest.raises(UsageError, match="compiled"):
        list(zipapp._sources(str(tmp_path), "facts"))


def _without_docstrings(source: str | bytes) -> str:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [s for s in body if not _is_text(s)]  # type: ignore[attr-defined]
    return ast.dump(tree)


def _is_text(statement: ast.stmt) -> bool:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def test_is_the_same_program_as_the_source(archive: Path) -> None:
    with zipfile.ZipFile(archive) as opened:
        for name in opened.namelist():
            if name.startswith("doctor/"):
                shipped, source = opened.read(name), (ROOT / name).read_text()
                assert _without_docstrings(shipped) == _without_docstrings(source), name
                assert shipped.count(b"\n") == source.count("\n"), name
        assert b"Copyright" in opened.read("pynvml.py")


@pytest.mark.real
def test_its_bindings_ask_what_the_whole_ones_ask(archive: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(archive) as opened:
        opened.extract("pynvml.py", tmp_path)
    folder = nvml.build(tmp_path)
    conditions = [host / "nvml.conf" for host in hosts.with_fake_nvml()]
    answers = [
        [answer["answer"] for answer in nvml.ask(folder, conditions, environ=environ)]
        for environ in ({}, {"PYTHONPATH": str(tmp_path)})
    ]
    assert answers[0] == answers[1]
    where = "import pynvml; print(pynvml.__file__)"
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    found = subprocess.run(
        [sys.executable, "-c", where], check=True, capture_output=True, text=True, env=environ
    )
    assert found.stdout.strip() == str(tmp_path / "pynvml.py")


def test_pruning_keeps_what_is_needed_and_what_does_something() -> None:
    source = (
        "import sys\nnvmlUsed = nvmlBase = 1\nNVML_ERROR_X = 2\nnvmlLeft = 3\n"
        "nvmlMade = print()\ndef nvmlAsk_v2():\n    return nvmlHelp\nnvmlHelp = 4\n"
        "@print\nclass nvmlOther:\n    pass\n"
    )
    found = zipapp_pruning.pruned(source, zipapp_pruning.words('ask("nvmlAsk", 1)'))
    assert found.count("\n") == source.count("\n")
    assert "nvmlLeft" not in found
    assert "nvmlOther" not in found
    assert "@print" not in found
    for kept in ("import sys", "nvmlBase", "NVML_ERROR_X", "nvmlMade", "nvmlAsk_v2", "nvmlHelp"):
        assert kept in found


@pytest.mark.real
def test_prints_facts_without_site_packages(archive: Path) -> None:
    done = _run(sys.executable, *ISOLATED, archive, "--python", sys.prefix)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["schema"] == "doctor/facts/v1"
    assert f"venv:{sys.prefix}" in {scope["id"] for scope in facts["scopes"]}
    assert "notes" not in facts


@pytest.mark.real
@pytest.mark.parametrize("arguments", [["--python"], ["--root", "/"], ["x"]])
def test_other_arguments_are_refused(archive: Path, arguments: list[str]) -> None:
    done = _run(sys.executable, *ISOLATED, archive, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("usage: ")


@pytest.mark.real
def test_a_python_without_json_says_what_to_install(archive: Path) -> None:
    script = (
        "import runpy, sys; sys.modules['json'] = None; sys.argv = sys.argv[1:]; "
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    done = _run(sys.executable, *ISOLATED, "-c", script, archive)
    assert done.returncode == 3
    assert "lacks the module json: install" in json.loads(done.stdout)["notes"][0]


def test_the_first_file_runs_on_any_python(archive: Path) -> None:
    with zipfile.ZipFile(archive) as opened:
        source = opened.read("__main__.py")
    ast.parse(source, feature_version=(3, 4))
    assert not re.search(rb"^(from|import) (?!sys)", source, re.MULTILINE)


RELEASE = "bullseye"


def _mirror() -> str:
    """The mirror that this system itself uses."""
    places = [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")]
    texts = [path.read_text(errors="replace") for path in places if path.is_file()]
    found = re.search(r"(?:^URIs: |^deb (?:\[.*?\] )?)(\S+/debian/?)\s", "\n".join(texts), re.M)
    if found is None:
        pytest.skip("this system names no Debian mirror")
    return found[1]


@pytest.fixture(scope="module")
def old_debian() -> Path:
    """A root folder of a Debian whose Python is 3.9, made once and kept in the user's cache."""
    if os.geteuid() != 0:
        pytest.skip("debootstrap and chroot need root")
    if not shutil.which("debootstrap"):
        pytest.skip("debootstrap is not installed")
    if not may_mount():
        pytest.skip("the tree is mounted read-only, which needs the right to mount")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    root = cache / "llm-doctor" / RELEASE
    if not (root / "ready").exists():
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        make = ["debootstrap", "--variant=minbase", "--include=python3", RELEASE, str(root)]
        subprocess.run([*make, _mirror()], check=True, timeout=600, capture_output=True)
        (root / "ready").touch()
    return root


@pytest.mark.slow
def test_runs_on_a_real_python_39_that_cannot_write(archive: Path, old_debian: Path) -> None:
    shutil.copy(archive, old_debian / "doctor.pyz")
    script = (
        'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && '
        'mount -t proc proc "$0/proc" && ! touch "$0/written" 2>/dev/null && '
        'exec chroot "$0" python3 -I -S /doctor.pyz'
    )
    done = _run("unshare", "--mount", "sh", "-c", script, old_debian)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert "notes" not in facts
    assert facts["host"]["os"]["value"]["id"] == "debian"
    system = next(s for s in facts["scopes"] if s["id"] == "system:/usr")
    assert system["python"]["value"]["version"].startswith("3.9.")
