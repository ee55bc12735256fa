"""`doctor matrix update` against a real index on this machine."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from doctor.errors import MatrixError, RemoteError, UsageError
from doctor.facts import Version
from doctor.matrix import Matrix, load_matrix
from doctor.matrix.index import Index
from doctor.matrix.index_page import IndexFile, NotFetched
from doctor.matrix.learnt import learnt_files, learnt_folder
from doctor.matrix.update import Outcome, Updater, projects
from doctor.updating import index_of
from tests.matrix.local_index import TORCH, LocalIndex, metadata, served, three_new, wheel

pytestmark = pytest.mark.real

TODAY = "2026-11-29"
FORMS = {
    "json": LocalIndex(),
    "json, no metadata": LocalIndex(has_metadata=False),
    "html": LocalIndex(form="html"),
    "html, no metadata": LocalIndex(form="html", has_metadata=False),
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own; no proxy between the test and its index."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path / "llm-doctor" / "releases"


@pytest.fixture(scope="module")
def shipped() -> Matrix:
    return load_matrix()


def run(matrix: Matrix, index: LocalIndex | str, *names: str) -> dict[str, Outcome]:
    url = index if isinstance(index, str) else index.url
    updater = Updater(matrix, Index(url), TODAY)
    return {o.domain: o for o in updater.run(projects(matrix, names), lambda *_: None)}


@pytest.mark.parametrize("form", FORMS)
def test_new_releases_are_learnt_with_their_pins(form: str, shipped: Matrix, home: Path) -> None:
    index = three_new(FORMS[form])
    with served(index):
        found = run(shipped, index, "vllm")["vllm"]
    assert found == Outcome("vllm", "vllm", ("0.41.0", "0.40.1", "0.40.0"), newest="0.41.0")
    row = load_matrix().release("vllm", Version("0.40.1"))
    assert row is not None
    assert row.pins == {"torch": "==2.15.0", "transformers": "<6,>=5.20"}
    assert row.requires_python == ">=3.10,<3.15"
    assert (row.min_glibc, row.archs) == ("2.28", ("x86_64",))
    assert [file.file for file in row.files] == ["vllm-0.40.1-cp38-abi3-manylinux_2_28_x86_64.whl"]
    assert row.source[0] == "releases learnt by doctor matrix update"
    assert index.sent < 1_000_000, "less than one wheel"


def test_everything_is_asked_within_25_requests(shipped: Matrix) -> None:
    index = three_new(LocalIndex(has_metadata=False))
    with served(index):
        found = run(shipped, index)
    assert len(index.asked) <= 25
    assert found["vllm"].new
    assert found["sglang"].failed == "the index answers 404"


def test_a_second_run_changes_nothing(shipped: Matrix, home: Path) -> None:
    with served(three_new(LocalIndex())) as url:
        run(shipped, url, "vllm")
        before = (home / "vllm.json").read_bytes()
        again = run(load_matrix(), url, "vllm")["vllm"]
        run(shipped, url, "vllm")
    assert again.new == ()
    assert (home / "vllm.json").read_bytes() == before


def test_shipped_rows_win_and_claims_never_come_along(shipped: Matrix) -> None:
    index = LocalIndex()
    index.add("vllm", "0.33.0", "torch==1.0", "evil")
    three_new(index)
    with served(index) as url:
        run(shipped, url, "vllm")
    after = load_matrix()
    assert after.release("vllm", Version("0.33.0")) == shipped.release("vllm", Version("0.33.0"))
    assert after.domain("vllm").claims == shipped.domain("vllm").claims


def test_a_wheel_is_never_fetched_whole(shipped: Matrix) -> None:
    index = three_new(LocalIndex(has_metadata=False, has_ranges=False))
    with served(index):
        found = run(shipped, index, "vllm")["vllm"]
    assert found.unread == found.new != ()
    row = load_matrix().release("vllm", Version("0.41.0"))
    assert row is not None
    assert row.pins == {}
    assert row.source[-1].endswith("file list")


def test_yanked_candidates_and_foreign_files(shipped: Matrix) -> None:
    index = LocalIndex()
    index.add("vllm", "0.40.0", TORCH, yanked="broken")
    index.add("vllm", "0.41.0rc1", TORCH)
    index.add("vllm", "0.42.0", TORCH, filename="other-0.42.0-py3-none-any.whl")
    index.add("vllm", "0.43.0", TORCH, filename="vllm-0.43.0-py3-\x1b[31m-any.whl")
    with served(index):
        found = run(shipped, index, "vllm")["vllm"]
    assert found.new == ("0.41.0rc1", "0.40.0")
    assert found.newest == "0.40.0"
    release = load_matrix().release("vllm", Version("0.40.0"))
    assert release is not None
    assert release.yanked


@pytest.mark.parametrize(
    "page",
    [
        b"",
        b"not a page",
        b"[]",
        b'{"files": 3}',
        b'{"files": [3, null, {"filename": 5}, {"filename": "vllm-0.40.0.tar.gz", "url": []}]}',
        b"[" * 100_000,
        b'{"files": [{"filename": "vllm-0.40.0-py3-none-any.whl", "url": "http://["}]}',
        b'{"files": [{"filename": "vllm-0.40.0-py3-none-any.whl", "url": "file:///etc/passwd"}]}',
    ],
)
def test_hostile_pages_are_no_fault_of_the_work(page: bytes, shipped: Matrix) -> None:
    with served(LocalIndex(raw={"vllm": page})) as url:
        found = run(shipped, url, "vllm")["vllm"]
    assert found.failed or found.unread == found.new


def broken_wheel(fault: str) -> bytes:
    if fault == "empty":
        return b"\0" * 400_000
    if fault == "no METADATA":
        return wheel("vllm", "0.40.0", None, 300_000)
    if fault == "bomb":
        return wheel("vllm", "0.40.0", b"Name: vllm\n" + b"x" * (8 << 20), 300_000)
    return wheel("vllm", "0.40.0", metadata("vllm", "0.40.0"), 300_000)[:-30]


@pytest.mark.parametrize("fault", ["empty", "no METADATA", "cut", "bomb"])
def test_broken_wheels_give_no_metadata(fault: str) -> None:
    body = broken_wheel(fault)
    index = LocalIndex(wheels={"a.whl": body})
    with served(index) as url, pytest.raises(NotFetched):
        Index(url).metadata(IndexFile("a.whl", url.replace("simple", "files") + "/a.whl"))
    assert index.sent < len(body) + 1000


def test_metadata_that_is_not_what_was_announced_is_not_taken(shipped: Matrix) -> None:
    index = three_new(LocalIndex())
    index.stated["vllm-0.41.0-cp38-abi3-manylinux_2_28_x86_64.whl"] = b"Requires-Dist: evil\n"
    with served(index) as url:
        assert run(shipped, url, "vllm")["vllm"].unread == ("0.41.0",)


def test_no_index_at_the_address(shipped: Matrix, home: Path) -> None:
    with served(LocalIndex()) as url:
        pass
    with pytest.raises(RemoteError, match="cannot reach the package index") as caught:
        run(shipped, url.replace("//", "//me:secret@"), "vllm")
    assert "secret" not in str(caught.value) + str(caught.value.hint)
    assert not home.exists()


def test_the_login_goes_to_the_own_host_alone(shipped: Matrix) -> None:
    elsewhere = three_new(LocalIndex())
    with served(elsewhere) as other:
        place = other.removesuffix("/simple")
        own = LocalIndex(login="Basic bWU6cEBzcw==", moved=place)
        with served(own) as url:
            found = run(shipped, url.replace("//", "//me:p%40ss@"), "vllm")["vllm"]
            refused = run(shipped, url, "vllm")["vllm"]
    assert found.new
    assert own.logins[0] == "Basic bWU6cEBzcw=="
    assert set(elsewhere.logins) == {None}
    assert refused.failed == "the index answers 401"


def test_a_redirection_to_a_file_is_not_followed(shipped: Matrix) -> None:
    with served(LocalIndex(moved="file:///etc/passwd?")) as url:
        assert run(shipped, url, "vllm")["vllm"].failed == "the index answers 302"


@pytest.mark.parametrize("address", ["http://[", "http://h:port/", "http://h:999999/"])
def test_a_redirection_to_no_address_is_one_clear_error(shipped: Matrix, address: str) -> None:
    with served(LocalIndex(moved=address)) as url, pytest.raises(RemoteError, match="cannot reach"):
        run(shipped, url, "vllm")


def test_an_interruption_leaves_what_is_done_and_nothing_half(shipped: Matrix, home: Path) -> None:
    index = three_new(LocalIndex())
    index.add("sglang", "0.9.0", "torch==2.15.0")
    asked: list[str] = []

    def note(_: int, __: int, what: str) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(what)

    with served(index) as url:
        updater = Updater(shipped, Index(url), TODAY)
        with pytest.raises(KeyboardInterrupt):
            tuple(updater.run(projects(shipped, ("vllm", "sglang")), note))
    assert [path.name for path in home.iterdir()] == ["vllm.json"]
    assert load_matrix().release("vllm", Version("0.41.0")) is not None


def test_a_damaged_file_is_said_and_not_used(shipped: Matrix, home: Path) -> None:
    home.mkdir(parents=True)
    (home / "vllm.json").write_text('{"as_of": "2026-11-29", "claims": []}')
    with pytest.raises(MatrixError, match="damaged"):
        load_matrix().domain("vllm")


def test_files_that_others_can_write_are_not_read(shipped: Matrix, home: Path) -> None:
    with served(three_new(LocalIndex())) as url:
        run(shipped, url, "vllm")
    path = home / "vllm.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert learnt_files() == (path,)
    path.chmod(0o666)
    assert learnt_files() == ()
    assert load_matrix().release("vllm", Version("0.41.0")) is None


def test_without_a_home_nothing_is_learnt(monkeypatch: pytest.MonkeyPatch, shipped: Matrix) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", "/nonexistent")
    assert learnt_folder() is None
    assert learnt_files() == ()


def test_names_are_domains_with_releases(shipped: Matrix) -> None:
    assert projects(shipped, ("onnxruntime",)) == {"onnxruntime": "onnxruntime-gpu"}
    with pytest.raises(UsageError, match="no releases are kept of 'nothing'"):
        projects(shipped, ("nothing",))


@pytest.mark.parametrize(
    ("environ", "settings", "address"),
    [
        ({}, {"index-url": "https://a.example/simple"}, "https://a.example/simple"),
        ({"UV_INDEX_URL": "https://b.example"}, {}, "https://b.example"),
    ],
)
def test_the_index_is_the_users_own(
    environ: dict[str, str], settings: dict[str, str], address: str
) -> None:
    assert index_of(environ, settings).url == address


def test_without_settings_pip_knows_the_address() -> None:
    assert index_of({}, {}).url.startswith("https://")


@pytest.mark.parametrize("settings", [{"no-index": "true"}, {"index-url": "/srv/wheels"}])
def test_no_index_to_ask(settings: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        index_of({}, settings)


@pytest.mark.parametrize(("url", "shown"), [
    ("http://127.0.0.1:9/simple", "http://127.0.0.1:9/simple"),
    ("https://me:secret@[::1]:8443/simple?token=x", "https://[::1]:8443/simple"),
    ("https://me@host/simple", "https://host/simple"),
])  # fmt: skip
def test_an_index_is_named_whole_and_without_its_login(url: str, shown: str) -> None:
    assert Index(url).shown == shown
