"""Python environments: real ones, and layouts of distributions, conda and uv."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from doctor.facts import Missing, Version
from doctor.facts.host import SystemPackage
from doctor.probes import scopes, torch_build
from doctor.probes.layout import parse_pyvenv_cfg
from doctor.probes.local import LocalHost
from doctor.probes.pyenvs import absolute, discover
from doctor.probes.rooted import RootedHost
from tests.probes.written import write_host

METADATA = "Metadata-Version: 2.1\nName: {}\nVersion: {}\n\n"
TORCH = """from typing import Optional
__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip']
__version__ = '2.8.0+cu128'
debug = False
cuda: Optional[str] = '12.8'
git_version = 'ba56102387ef21a3b04b357e5b183d48f0afefc7'
hip: Optional[str] = None
"""


def _wheel(folder: Path) -> Path:
    path = folder / "tiny-1.5-py3-none-any.whl"
    info = "tiny-1.5.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tiny.py", "x = 1\n")
        archive.writestr(f"{info}/METADATA", METADATA.format("Tiny", "1.5"))
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", f"tiny.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n")
    return path


@pytest.fixture(scope="module")
def real_venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment in which pip installed a wheel."""
    folder = tmp_path_factory.mktemp("real")
    root = folder / "env"
    venv.create(root, with_pip=False)
    pip = [sys.executable, "-m", "pip", "--isolated", "--disable-pip-version-check", "--python"]
    install = [str(root), "install", "--no-index", "--quiet", str(_wheel(folder))]
    subprocess.run([*pip, *install], check=True)
    return root


def test_a_real_environment(real_venv: Path) -> None:
    (scope,) = scopes.read(LocalHost(), [str(real_venv)])[:1]
    python = scope.python.value
    assert (scope.id, scope.kind, scope.root) == (f"venv:{real_venv}", "venv", str(real_venv))
    assert python is not None
    assert python.version == Version(".".join(map(str, sys.version_info[:3])))
    tiny = scope.package("tiny")
    assert tiny is not None
    assert (str(tiny.version), tiny.tags) == ("1.5", ("py3-none-any",))
    assert scope.torch.is_absent


@pytest.mark.parametrize("name", ["bin/python", "bin/python3", ""])
def test_named_by_executable_or_folder(real_venv: Path, name: str) -> None:
    named = str(real_venv / name)
    first = discover(LocalHost(), [named])[0]
    assert (first.root, first.kind, first.asked) == (str(real_venv), "venv", True)
    assert first.executable == (named if name else "")


def test_named_from_here(real_venv: Path) -> None:
    before = Path.cwd()
    os.chdir(real_venv)
    try:
        assert discover(LocalHost(), ["./bin/python"])[0].root == str(real_venv)
        assert discover(LocalHost(), ["."])[0].root == str(real_venv)
    finally:
        os.chdir(before)
    assert absolute("../x/./y/", "/a/b") == "/a/b/../x/y"


def test_what_is_no_environment_is_none(tmp_path: Path) -> None:
    host = write_host(tmp_path, {"/srv/notes": "x"})
    assert discover(host, ["/srv", "/srv/notes", "/nothing", "\0"]) == ()


def test_nothing_of_an_environment_is_run(tmp_path: Path) -> None:
    root, canary = tmp_path / "trap", tmp_path / "canary"
    venv.create(root, with_pip=False)
    site = next(root.glob("lib/python*/site-packages"))
    trap = f"open({str(canary)!r}, 'w')\n"
    (site / "sitecustomize.py").write_text(trap)
    (site / "trap.pth").write_text(f"import os; {trap}")
    for name in ("torch", "vllm"):
        (site / name).mkdir()
        (site / name / "__init__.py").write_text(trap)
        (site / f"{name}-1.dist-info").mkdir()
        (site / f"{name}-1.dist-info/METADATA").write_text(METADATA.format(name, "1"))
    (site / "torch/version.py").write_text(TORCH + trap)
    for name in ("python", "python3", "nvidia-smi"):
        (root / "bin" / name).unlink(missing_ok=True)
        (root / "bin" / name).write_text(f"#!/bin/sh\ntouch {canary}\n")
        (root / "bin" / name).chmod(0o755)
    (scope,) = scopes.read(LocalHost(), [f"{root}/bin/python"])[:1]
    assert scope.torch.value is not None
    assert str(scope.torch.value.cuda.value) == "12.8"
    assert not canary.exists()


def test_torch_of_a_cpu_build_has_no_cuda() -> None:
    found = torch_build.parse_version_file("__version__ = '2.8.0+cpu'\ncuda = None\n", "f").value
    assert found is not None
    assert found.cuda.is_absent
    assert found.hip.missing is Missing.NOT_STATED


def test_torch_for_rocm() -> None:
    text = (
        "__version__ = '2.8.0+rocm6.4'\ncuda = None\nhip: Optional[str] = '6.4.43482-0f2d60242'\n"
    )
    found = torch_build.parse_version_file(text).value
    assert found is not None
    assert str(found.hip.value) == "6.4.43482"


def test_companions_of_torch_have_the_label_of_their_file(tmp_path: Path) -> None:
    files = {"/v/pyvenv.cfg": "version = 3.12.3\n"}
    for name, version, stated in (
        ("torchvision", "0.28.0", "0.28.0+cu130"),
        ("torchaudio", "2.13.0", "2.12.0+cu130"),
        ("torchcodec", "0.9", "0.9+cpu"),
    ):
        files[f"/v/{SITE}/{name}-{version}.dist-info/METADATA"] = METADATA.format(name, version)
        files[f"/v/{SITE}/{name}/version.py"] = f"__version__ = '{stated}'\n"
    (scope,) = scopes.read(write_host(tmp_path, files), ["/v"])
    assert {p.name: str(p.version) for p in scope.packages.value or ()} == {
        "torchvision": "0.28.0+cu130",
        "torchaudio": "2.13.0",
        "torchcodec": "0.9",
    }


def test_torch_without_a_version_cannot_be_read() -> None:
    assert torch_build.parse_version_file("x = 1\n" + "(" * 99999).missing is Missing.NOT_READABLE


def test_configurations_of_venv_virtualenv_and_uv() -> None:
    made = parse_pyvenv_cfg(
        "home = /usr/bin\ninclude-system-site-packages = true\nversion = 3.11.2\n"
    )
    assert (made.version, made.home, made.uses_system) == ("3.11.2", "/usr/bin", True)
    other = parse_pyvenv_cfg("version_info = 3.12.0.final.0\nimplementation = PyPy\n")
    assert (other.version, other.implementation) == ("3.12.0", "pypy")
    assert parse_pyvenv_cfg("uv = 0.9\nversion_info = 3.13.1\n").version == "3.13.1"
    assert parse_pyvenv_cfg("version = nonsense").version == ""


SITE = "lib/python3.12/site-packages"


def test_system_packages_seen_from_a_venv(tmp_path: Path) -> None:
    host = write_host(
        tmp_path,
        {
            "/v/pyvenv.cfg": (
                "home = /usr/bin\ninclude-system-site-packages = true\nversion = 3.12.3\n"
            ),
            f"/v/{SITE}/a-1.dist-info/METADATA": METADATA.format("a", "1"),
            "/usr/lib/python3/dist-packages/a-0.dist-info/METADATA": METADATA.format("a", "0"),
            "/usr/lib/python3/dist-packages/b-2.dist-info/METADATA": METADATA.format("b", "2"),
        },
    )
    (scope,) = scopes.read(host, ["/v"])
    found = scope.package("a"), scope.package("b")
    assert [str(p.version) for p in found if p] == ["1", "2"]
    assert len(scope.packages.value or ()) == 3


def test_the_systems_python_takes_its_version_from_its_package(tmp_path: Path) -> None:
    host = write_host(
        tmp_path,
        {"/usr/lib/python3/dist-packages/x-1.dist-info/METADATA": METADATA.format("x", "1")},
        links={"/usr/bin/python3": "python3.11"},
        paths={"/usr/bin/python3.11": {}},
    )
    listed = (SystemPackage("python3.11", "3.11.2-6+deb12u6"),)
    exact, vague = (scopes.read(host, packages=known)[0] for known in (listed, ()))
    assert exact.python.value is not None
    assert vague.python.value is not None
    assert str(exact.python.value.version) == "3.11.2"
    assert str(vague.python.value.version) == "3.11.*"
    assert (exact.kind, exact.root) == ("system", "/usr")
    assert exact.absent.value == ("Python.h",)
    assert exact.package("x") is not None


def test_conda(tmp_path: Path) -> None:
    host = write_host(
        tmp_path,
        {
            "/opt/conda/conda-meta/python-3.12.4-h99e_1.json": "{}",
            "/opt/conda/envs/llm/conda-meta/python-3.11.9-h1_0_cpython.json": "{}",
            "/opt/conda/envs/llm/conda-meta/cuda-version-12.4-h3_3.json": "{}",
            f"/opt/conda/envs/llm/{SITE}/torch/version.py": TORCH,
            "/opt/conda/envs/dull/conda-meta/history": "",
            f"/opt/conda/{SITE}/none.py": "",
        },
        env={"HOME": "/root", "CONDA_PREFIX": "/opt/conda"},
    )
    base, llm = scopes.read(host)
    assert (base.kind, base.root) == ("conda", "/opt/conda")
    assert llm.python.value is not None
    assert str(llm.python.value.version) == "3.11.9"
    cuda = llm.package("cuda-version")
    assert cuda is not None
    assert str(cuda.version) == "12.4"
    assert llm.torch.is_known


def test_environments_of_no_interest_are_left_out(tmp_path: Path) -> None:
    cfg = "version = 3.12.3\n"
    host = write_host(
        tmp_path,
        {
            "/home/u/.local/share/uv/tools/vllm/pyvenv.cfg": cfg,
            f"/home/u/.local/share/uv/tools/vllm/{SITE}/vllm/__init__.py": "",
            "/home/u/.local/share/uv/tools/ruff/pyvenv.cfg": cfg,
            f"/home/u/.local/share/uv/tools/ruff/{SITE}/ruff/__init__.py": "",
        },
        env={"HOME": "/home/u"},
    )
    assert [s.root for s in scopes.read(host)] == ["/home/u/.local/share/uv/tools/vllm"]


def test_a_tree_has_the_environments_of_all_its_users(tmp_path: Path) -> None:
    site = tmp_path / "home/ann/miniforge3/envs/llm/lib/python3.12/site-packages/vllm"
    site.mkdir(parents=True)
    (tmp_path / "home/ann/miniforge3/envs/llm/conda-meta").mkdir()
    found = scopes.read(RootedHost(str(tmp_path)))
    assert [s.id for s in found] == ["conda:/home/ann/miniforge3/envs/llm"]


def test_an_environment_that_cannot_be_read_is_not_empty(tmp_path: Path) -> None:
    host = write_host(
        tmp_path,
        {"/v/pyvenv.cfg": "version = 3.12.3\n", f"/v/{SITE}/x": ""},
        paths={f"/v/{SITE}": "not-permitted", f"/v/{SITE}/torch/version.py": "not-permitted"},
    )
    (scope,) = scopes.read(host, ["/v"])
    assert scope.packages.missing is Missing.NOT_PERMITTED
    assert scope.torch.missing is Missing.NOT_PERMITTED


def test_a_broken_pyvenv_cfg_leaves_the_version_to_the_folder(tmp_path: Path) -> None:
    host = write_host(tmp_path, {"/v/pyvenv.cfg": "\0\xff", f"/v/{SITE}/x.py": ""})
    (scope,) = scopes.read(host, ["/v"])
    assert scope.python.value is not None
    assert str(scope.python.value.version) == "3.12.*"


def test_a_free_threaded_python(tmp_path: Path) -> None:
    cfg = {"/v/pyvenv.cfg": "version = 3.13.1\n", "/v/lib/python3.13t/site-packages/x": ""}
    (scope,) = scopes.read(write_host(tmp_path, cfg), ["/v"])
    assert scope.python.value is not None
    assert scope.python.value.abi == "t"


def test_an_editable_source_shows_once(tmp_path: Path) -> None:
    host = write_host(
        tmp_path,
        {
            "/v/pyvenv.cfg": "version = 3.12.3\n",
            f"/v/{SITE}/mine-1.dist-info/METADATA": METADATA.format("mine", "1"),
            f"/v/{SITE}/mine.pth": "/src\n",
            "/src/mine.egg-info/PKG-INFO": METADATA.format("mine", "1"),
            "/src/other.egg-info/PKG-INFO": METADATA.format("other", "3"),
        },
    )
    (scope,) = scopes.read(host, ["/v"])
    assert sorted(p.name for p in scope.packages.value or ()) == ["mine", "other"]
