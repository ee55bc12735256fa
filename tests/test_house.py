"""The house rules that a reader relies on: layers, sizes, no knowledge in code, honest docs."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "doctor"

# From the bottom up: a module may import from its own layer's folder and from layers below.
LAYERS = (
    ("errors", "extras", "version_info", "named_files"),
    ("resources",),
    ("facts",),
    ("binaries",),
    ("probes",),
    ("findings",),
    ("matrix",),
    ("intake",),
    ("sizing",),
    ("logs",),
    ("likelihood",),
    ("rules",),
    ("undecided",),
    ("diagnose", "explain"),
    ("stack",),
    ("profile",),
    ("smoke",),
    ("provision",),
    ("images",),
    ("examine", "scanning"),
    ("planned_profile",),
    ("planned",),
    ("supposed",),
    ("fitting", "diffing", "updating"),
    ("report",),
    ("gate", "planning"),
    ("config_schema",),
    ("fleets",),
    ("checkup", "resolving", "fleet_diff"),
    ("cli",),
    ("entry",),
    ("__main__",),
)
HEIGHT = {name: height for height, names in enumerate(LAYERS) for name in names}
STANDALONE = {"facts": set(), "binaries": {"zstandard"}, "probes": {"pynvml"}}
MODULES = sorted(p for p in PACKAGE.rglob("*.py") if p != PACKAGE / "__init__.py")

# Words that look like versions and are not knowledge about one.
LITERALS_ALLOWED: dict[str, set[str]] = {}


def _imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module)
            if node.module == "doctor":
                found |= {f"doctor.{alias.name}" for alias in node.names}
    return found


def _layer(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_imports_point_down(path: Path) -> None:
    own = _layer(_name(path))
    for module in _imports(path):
        if module.startswith("doctor.") and _layer(module) in HEIGHT:
            assert HEIGHT[_layer(module)] <= HEIGHT[own], f"{own} must not import {module}"
            same_shelf = HEIGHT[_layer(module)] == HEIGHT[own] and _layer(module) != own
            assert not same_shelf, f"{own} must not import its neighbour {module}"


@pytest.mark.parametrize("path", [p for p in MODULES if _layer(_name(p)) in STANDALONE], ids=_name)
def test_core_needs_only_the_standard_library(path: Path) -> None:
    allowed = STANDALONE[_layer(_name(path))] | {"doctor"} | set(sys.stdlib_module_names)
    assert {module.split(".")[0] for module in _imports(path)} <= allowed


VERSION = re.compile(r"\d{1,3}\.\d{1,3}(\.\d+)*")


@pytest.mark.parametrize(
    "path", [p for p in MODULES if _layer(_name(p)) in {"rules", "probes"}], ids=_name
)
def test_no_version_literals(path: Path) -> None:
    tree = ast.parse(path.read_text())
    found = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and VERSION.fullmatch(node.value)
    }
    assert found <= LITERALS_ALLOWED.get(_name(path), set())


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_files_and_functions_are_short(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= 300
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            doc = ast.get_docstring(node, clean=False)
            length = (node.end_lineno or 0) - node.lineno + 1 - (doc.count("\n") if doc else 0)
            # A click command's signature is its table of options.
            options = len(node.args.args) if "cli" in path.parts else 0
            assert length - options <= 40, f"{node.name} has {length} lines"
            whole = (node.end_lineno or 0) - node.lineno + 1
            assert whole <= 45, f"{node.name} has {whole} lines with its docstring"


def test_importing_the_package_does_nothing() -> None:
    for path in MODULES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Expr):
                assert isinstance(node.value, ast.Constant), f"{path}:{node.lineno} runs at import"


PATH_IN_PROSE = re.compile(
    r"`((?:doctor|tests|docs|benchmarks|examples|scripts|playbooks|profiles|images)/[\w./*-]+)`"
)


@pytest.mark.parametrize(
    "page",
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")],
    ids=lambda p: str(p.relative_to(ROOT)),
)
def test_paths_in_prose_exist(page: Path) -> None:
    for named in PATH_IN_PROSE.findall(page.read_text()):
        assert any(ROOT.glob(named)) if "*" in named else (ROOT / named).exists(), named
