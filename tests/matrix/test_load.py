"""Finding, compiling and caching the matrix, and laying overlays over it."""

from __future__ import annotations

import hashlib
import os
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.errors import MatrixError
from doctor.facts import Version
from doctor.matrix import load_matrix
from doctor.matrix.cache import cache_folder, read_compiled, write_compiled
from doctor.matrix.compile import compile_domain, read_yaml
from doctor.matrix.domains import shape_of
from doctor.matrix.load import DATA
from doctor.matrix.overlay import decided_by_overlay
from doctor.matrix.verify import verify

ENGINE = """
as_of: '2026-11-29'
name: demo
claims:
  - {id: demo-1, subject: demo, kind: cuda, value: 12.10, source: [s], confidence: documented}
releases:
  - {version: 3.10, requires_python: '>=3.10', source: [s], confidence: measured}
"""


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "demo.yaml").write_text(ENGINE)
    return folder


def overlay(tmp_path: Path, text: str, name: str = "demo.yaml") -> Path:
    path = tmp_path / "overlay" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"as_of: '2027-01-01'\nname: demo\n{text}")
    return path


# -- compiling and caching -----------------------------------------------------


def test_versions_that_look_like_numbers_stay_text(data: Path) -> None:
    matrix = load_matrix(data)
    assert [r.version for r in matrix.releases("demo")] == ["3.10"]
    assert [m.claim.value for m in matrix.claims("demo", "cuda")] == ["12.10"]


def _cached(name: str) -> Path:
    folder = cache_folder()
    assert folder is not None
    return folder / name


def test_the_second_load_reads_the_cache(data: Path) -> None:
    load_matrix(data).engine("demo")
    cached = _cached("demo.json")
    digest = hashlib.sha256((data / "demo.yaml").read_bytes()).hexdigest()
    assert read_compiled(cached, digest, own_only=True)
    # Proof that it is read: the same digest with another content.
    payload = compile_domain(data / "demo.yaml", shape_of("demo"))
    write_compiled(cached, payload.replace(b"12.10", b"12.99"), digest)
    assert [m.claim.value for m in load_matrix(data).claims("demo", "cuda")] == ["12.99"]


def test_a_changed_source_is_compiled_anew(data: Path) -> None:
    load_matrix(data).engine("demo")
    (data / "demo.yaml").write_text(ENGINE.replace("12.10", "13.0"))
    assert [m.claim.value for m in load_matrix(data).claims("demo", "cuda")] == ["13.0"]


@pytest.mark.parametrize("damage", [b"", b"{}", b"not json", b'{"as_of": 1}'])
def test_a_damaged_cache_is_no_fault(data: Path, damage: bytes) -> None:
    digest = hashlib.sha256((data / "demo.yaml").read_bytes()).hexdigest()
    write_compiled(_cached("demo.json"), damage, digest)
    assert load_matrix(data).engine("demo") is not None


def test_a_cache_that_others_can_write_is_not_trusted(data: Path) -> None:
    load_matrix(data).engine("demo")
    cached = _cached("demo.json")
    cached.write_bytes(cached.read_bytes().replace(b"12.10", b"66.6"))
    cached.chmod(0o666)
    assert [m.claim.value for m in load_matrix(data).claims("demo", "cuda")] == ["12.10"]


def test_an_unwritable_cache_is_no_fault(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", os.devnull)
    assert load_matrix(data).engine("demo") is not None


@pytest.mark.parametrize("home", ["", "relative", "/", "/nonexistent/home"])
def test_nothing_is_kept_without_a_home_or_where_one_stands(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    monkeypatch.setenv("HOME", home)
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    assert load_matrix(data).engine("demo") is not None
    assert sorted(tmp_path.rglob("*")) == before


def test_a_domain_that_is_not_there(data: Path) -> None:
    with pytest.raises(MatrixError, match="no matrix domain 'cuda'"):
        load_matrix(data).domain("cuda")


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("as_of: x\nas_of: y\nname: demo\n", "duplicate key 'as_of' in line 2"),
        ("as_of: x\nname: demo\nsurprise: 1\n", "surprise"),
        ("as_of: x\nname: demo\nreleases: [{version: 1.0, confidence: measured}]\n", "source"),
        ("as_of: x\nname: demo\nclaims: [{id: a, id: b}]\n", "duplicate key 'id'"),
        ("as_of: [unclosed\n", "demo.yaml"),
        ("? [a]\n: b\n", "no text"),
        ("- a list\n", "demo.yaml"),
        ("as_of: x\nname: demo\nreleases: [{version: 1, source: [s], confidence: sure}]", "sure"),
    ],
)
def test_what_the_compiler_refuses(data: Path, text: str, word: str) -> None:
    (data / "demo.yaml").write_text(text)
    with pytest.raises(MatrixError) as caught:
        load_matrix(data).engine("demo")
    assert word in str(caught.value)
    assert caught.value.hint


@given(st.binary(max_size=200))
def test_no_file_content_raises_anything_else(content: bytes) -> None:
    path = _cached("any.yaml")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    with suppress(MatrixError):
        read_yaml(path)


# -- version and date ----------------------------------------------------------


def test_the_version_follows_the_content(data: Path) -> None:
    before = load_matrix(data).version
    assert load_matrix(data).version == before
    (data / "demo.yaml").write_text(ENGINE.replace("12.10", "13.0"))
    assert load_matrix(data).version != before
    assert len(before) == 12


def test_the_date_is_that_of_the_newest_source(data: Path, tmp_path: Path) -> None:
    assert load_matrix(data).as_of == "2026-11-29"
    file = overlay(tmp_path, "")
    assert load_matrix(data, (file,)).as_of == "2027-01-01"


# -- overlays ------------------------------------------------------------------

ROW = "subject: demo, kind: cuda, value: '13', source: [t], confidence: measured"
NEW = f"claims: [{{id: demo-2, {ROW}}}]"
SAME = f"claims: [{{id: demo-1, {ROW}%s}}]"
ON_PURPOSE = ", override: true, reason: measured on our cards"


def test_an_overlay_adds_rows(data: Path, tmp_path: Path) -> None:
    file = overlay(tmp_path, NEW)
    claims = [m.claim for m in load_matrix(data, (file,)).claims("demo", "cuda")]
    assert [c.value for c in claims] == ["12.10", "13"]
    assert decided_by_overlay(claims[1].source) == (f"overlay {file}",)
    assert decided_by_overlay(claims[0].source) == ()


def test_an_overlay_replaces_only_on_purpose(data: Path, tmp_path: Path) -> None:
    with pytest.raises(MatrixError, match="replaces a row"):
        load_matrix(data, (overlay(tmp_path, SAME % ""),)).engine("demo")
    with pytest.raises(MatrixError, match="replaces a row"):
        load_matrix(data, (overlay(tmp_path, SAME % ", override: true"),)).engine("demo")
    file = overlay(tmp_path, SAME % ON_PURPOSE)
    claims = [m.claim for m in load_matrix(data, (file.parent,)).claims("demo", "cuda")]
    assert [c.value for c in claims] == ["13"]
    assert decided_by_overlay(claims[0].source) == (f"overlay {file}: measured on our cards",)


def test_an_override_of_nothing_is_a_mistake(data: Path, tmp_path: Path) -> None:
    text = (SAME % ON_PURPOSE).replace("demo-1", "demo-9")
    with pytest.raises(MatrixError, match="overrides nothing"):
        load_matrix(data, (overlay(tmp_path, text),)).engine("demo")


def test_an_overlay_may_bring_an_engine_of_its_own(data: Path, tmp_path: Path) -> None:
    file = overlay(tmp_path, NEW.replace("demo", "own"), "own.yaml")
    matrix = load_matrix(data, (file,))
    assert "own" in matrix.engine_names
    assert len(list(matrix.claims("own", "cuda"))) == 1


def test_an_overlay_is_never_taken_from_the_working_directory(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = overlay(tmp_path, NEW)
    monkeypatch.chdir(file.parent)
    assert [m.claim.value for m in load_matrix(data).claims("demo", "cuda")] == ["12.10"]
    with pytest.raises(MatrixError, match="not an absolute path"):
        load_matrix(data, (Path("demo.yaml"),))
    with pytest.raises(MatrixError, match="no overlay"):
        load_matrix(data, (tmp_path / "missing.yaml",))


# -- verify --------------------------------------------------------------------

CARD = "when: {capability"
CLAIM = "{id: %s, subject: demo, kind: cuda, value: '%s', source: [s], confidence: measured%s}"


@pytest.mark.parametrize(
    ("claims", "fault"),
    [
        ([("a", "1", ", since: 2.0, until: 1.0")], "is empty"),
        ([("a", "1", ", since: 2.0, until: 2.0")], "is empty"),
        ([("a", "1", ", since: 2.0, verified_to: 1.0")], "below its start"),
        ([("a", "1", ", since: soon")], "is not a version"),
        ([("a", "1", ", when: {colour: red}")], "unknown condition"),
        ([("a", "1", ", when: {capability: '>99.0'}")], "no card satisfies"),
        ([("a", "1", ""), ("a", "1", "")], "comes twice"),
        ([("a", "1", ""), ("b", "2", "")], "contradict"),
        ([("a", "1", ", until: 2.0"), ("b", "2", ", since: 1.5")], "contradict"),
        (
            [
                ("a", "1", ", when: {capability: '>=8.0'}"),
                ("b", "2", ", when: {capability: '8.9'}"),
            ],
            "contradict",
        ),
    ],
)
def test_verify_names_the_row(data: Path, claims: list[tuple[str, str, str]], fault: str) -> None:
    rows = "\n".join(f"  - {CLAIM % claim}" for claim in claims)
    (data / "demo.yaml").write_text(f"as_of: '2026-11-29'\nname: demo\nclaims:\n{rows}\n")
    found = verify(load_matrix(data))
    assert [text for text in found if fault in text and text.startswith("demo: claim")]


@pytest.mark.parametrize(
    "claims",
    [
        [("a", "1", ", until: 2.0"), ("b", "2", ", since: 2.0")],
        [("a", "1", ", when: {capability: '<8.0'}"), ("b", "2", ", when: {capability: '>=8.0'}")],
        [("a", "1", ", when: {vendor: amd}"), ("b", "2", ", when: {vendor: nvidia|intel}")],
        [("a", "1", ""), ("b", "2", ", when: {vendor: amd}")],
        [("a", "1", ""), ("b", "1", "")],
    ],
)
def test_verify_lets_sound_claims_be(data: Path, claims: list[tuple[str, str, str]]) -> None:
    rows = "\n".join(f"  - {CLAIM % claim}" for claim in claims)
    (data / "demo.yaml").write_text(f"as_of: '2026-11-29'\nname: demo\nclaims:\n{rows}\n")
    assert verify(load_matrix(data)) == ()


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ("pins: {torch: 'about 2'}", "is not a specifier"),
        ("cuda: new", "is not a version"),
        ("min_capability: 75", "min_capability"),
        ("targets: {lib.so: [sm_9x]}", "target"),
        ("files: [{file: a.whl, sha256: abc}]", "sha256"),
        ("checked: yesterday", "is not a day"),
        ("override: true", "belongs into an overlay"),
    ],
)
def test_verify_reads_releases(data: Path, row: str, fault: str) -> None:
    text = f"{{version: 1.0, source: [s], confidence: measured, {row}}}"
    (data / "demo.yaml").write_text(f"as_of: '2026-11-29'\nname: demo\nreleases: [{text}]\n")
    assert any(fault in found for found in verify(load_matrix(data)))


def test_verify_refuses_two_owners_of_a_device(tmp_path: Path) -> None:
    shutil.copy(DATA / "gpus.yaml", tmp_path)
    path = tmp_path / "gpus.yaml"
    twin = "  - {key: twin, devices: ['2684'], source: [s], confidence: measured}\n"
    path.write_text(path.read_text() + twin)
    assert any("also belongs to rtx-4090" in fault for fault in verify(load_matrix(tmp_path)))


def test_the_shipped_matrix_is_what_is_found_by_default() -> None:
    assert load_matrix().toolkit(Version("12.8")) is not None
