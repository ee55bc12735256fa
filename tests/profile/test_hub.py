"""Models of a hub: pinned, fetched whole, taken up again, or refused."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.errors import DoctorError, RemoteError, UsageError
from doctor.profile.hub import COMPLETE, Hub, Wish, fetch_model, hub_of, pin_model, wanted_files
from doctor.profile.lock import LockedModel
from tests.profile.hub import COMMIT, TOKEN, StandInHub
from tests.web import Given, Site

NAME = "org/model"
BIG = random.Random(1).randbytes(3_000_000)  # noqa: S311 - any bytes will do
FILES = {
    "config.json": b'{"model_type": "llama"}',
    "tokenizer/vocab.json": b"{}",
    "model.safetensors": BIG,
    "pytorch_model.bin": b"the same once more",
    ".gitattributes": b"*.safetensors filter=lfs",
}
LFS = frozenset({"model.safetensors", "pytorch_model.bin"})
KEPT = ["config.json", "model.safetensors", "tokenizer/vocab.json"]

pytestmark = pytest.mark.real


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def hub() -> Iterator[StandInHub]:
    with StandInHub(NAME, dict(FILES), LFS) as found:
        yield found


def pinned(hub: StandInHub) -> LockedModel:
    return pin_model(Hub(hub.site.url), Wish(NAME))


def test_a_revision_is_pinned_to_its_commit_with_every_hash(hub: StandInHub) -> None:
    model = pinned(hub)
    assert (model.commit, [file.name for file in model.files]) == (COMMIT, KEPT)
    assert not hub.other.seen, "large files are not fetched to be pinned"
    assert sum(file.size for file in model.files) == len(BIG) + 25


def test_files_are_fetched_whole_and_only_once(hub: StandInHub, tmp_path: Path) -> None:
    model = pinned(hub)
    told: list[tuple[str, int, int]] = []
    fetch_model(Hub(hub.site.url), model, tmp_path, lambda *row: told.append(row))
    assert {name: (tmp_path / name).read_bytes() for name in KEPT} == {n: FILES[n] for n in KEPT}
    assert told[-1][1] == told[-1][2]
    before = len(hub.site.seen)
    fetch_model(Hub(hub.site.url), model, tmp_path)
    assert len(hub.site.seen) == before
    assert not list(tmp_path.rglob("*.part"))


def test_what_was_cut_off_is_taken_up_where_it_ended(hub: StandInHub, tmp_path: Path) -> None:
    model = pinned(hub)
    hub.faults = [1_000_000, 500_000]
    fetch_model(Hub(hub.site.url), model, tmp_path)
    asked = [request.headers.get("range", "") for request in hub.other.seen]
    assert asked == ["", "bytes=1000000-", "bytes=1500000-"]
    assert (tmp_path / "model.safetensors").read_bytes() == BIG


def test_a_broken_fetch_goes_on_another_day(hub: StandInHub, tmp_path: Path) -> None:
    model = pinned(hub)
    hub.faults = [100_000] * 3
    with pytest.raises(RemoteError, match="cut off"):
        fetch_model(Hub(hub.site.url), model, tmp_path)
    assert not (tmp_path / COMPLETE).exists()
    fetch_model(Hub(hub.site.url), model, tmp_path)
    assert hub.other.seen[-1].headers["range"] == "bytes=300000-"
    assert (tmp_path / "model.safetensors").read_bytes() == BIG


def test_a_server_without_ranges_begins_anew(hub: StandInHub, tmp_path: Path) -> None:
    hub.ranges = False
    model = pinned(hub)
    hub.faults = [1_000_000]
    fetch_model(Hub(hub.site.url), model, tmp_path)
    assert (tmp_path / "model.safetensors").read_bytes() == BIG


def test_another_content_is_refused_and_not_kept(hub: StandInHub, tmp_path: Path) -> None:
    model = pinned(hub)
    for change in (BIG[:-1] + b"x", BIG + b"x", BIG[:-1]):
        hub.files["model.safetensors"] = change
        with pytest.raises(RemoteError):
            fetch_model(Hub(hub.site.url), model, tmp_path)
        assert not (tmp_path / "model.safetensors").exists()
    hub.files["model.safetensors"] = BIG
    (tmp_path / "model.safetensors").write_bytes(b"half")
    fetch_model(Hub(hub.site.url), model, tmp_path)
    assert (tmp_path / "model.safetensors").read_bytes() == BIG


def test_a_token_opens_a_gate_and_is_shown_to_nobody_else(tmp_path: Path) -> None:
    with StandInHub(NAME, dict(FILES), LFS, gated=True) as hub:
        with pytest.raises(RemoteError, match="GatedRepo") as fault:
            pinned(hub)
        assert "model.token" in fault.value.hint
        opened = Hub(hub.site.url, TOKEN.partition(" ")[2])
        fetch_model(opened, pin_model(opened, Wish(NAME)), tmp_path)
        assert hub.other.seen
        assert all("authorization" not in request.headers for request in hub.other.seen)
        assert "canary" not in repr(opened)


def test_a_renamed_repository_is_followed(hub: StandInHub, tmp_path: Path) -> None:
    moved = LockedModel(id="old/name", commit=COMMIT, files=pinned(hub).files)
    fetch_model(Hub(hub.site.url), moved, tmp_path)
    assert (tmp_path / "config.json").read_bytes() == FILES["config.json"]
    with pytest.raises(UsageError, match="no main"):
        pin_model(Hub(hub.site.url), Wish("no/such"))


@pytest.mark.parametrize(
    "given",
    [
        Given(200, b"<html>"),
        Given(200, b'{"sha": "main", "siblings": [{"rfilename": "a", "lfs": {}}]}'),
        Given(200, b'{"sha": "%s", "siblings": 3}' % COMMIT.encode()),
        Given(200, b'{"siblings": [{"rfilename": "../../x", "lfs": {"sha256": "%s", "size": 1}}],'
              b'"sha": "%s"}' % (b"0" * 64, COMMIT.encode())),
        Given(500),
        Given(302, b"", {"Location": "file:///etc/passwd"}),
    ],
)  # fmt: skip
def test_a_strange_hub_is_one_clear_error(given: Given) -> None:
    with Site(lambda _: given) as site, pytest.raises(DoctorError):
        pin_model(Hub(site.url), Wish(NAME))


def test_the_endpoint_is_that_of_the_environment() -> None:
    assert hub_of({"HF_ENDPOINT": "https://mirror.example"}).endpoint == "https://mirror.example"
    assert hub_of({}).endpoint.startswith("https://")


@pytest.mark.parametrize(
    ("names", "form", "pick", "kept"),
    [
        (("m.safetensors", "m.bin", "config.json"), "hf", (), ("config.json", "m.safetensors")),
        (("m.bin", "config.json"), "hf", (), ("config.json", "m.bin")),
        (("a-Q4.gguf", "README.md"), "gguf", (), ("a-Q4.gguf",)),
        (("a-00001-of-00002.gguf", "a-00002-of-00002.gguf"), "gguf", (),
         ("a-00001-of-00002.gguf", "a-00002-of-00002.gguf")),
        (("a-Q4.gguf", "a-Q8.gguf"), "gguf", ("*Q8*",), ("a-Q8.gguf",)),
    ],
)  # fmt: skip
def test_which_files_a_model_is(
    names: tuple[str, ...], form: str, pick: tuple[str, ...], kept: tuple[str, ...]
) -> None:
    assert wanted_files(names, form, pick) == kept


def test_several_ggufs_are_a_choice() -> None:
    with pytest.raises(UsageError, match="2 GGUF") as fault:
        wanted_files(("a-Q4.gguf", "a-Q8.gguf"), "gguf")
    assert "model.files" in fault.value.hint


@given(st.lists(st.text(min_size=1, max_size=20)), st.sampled_from(["hf", "gguf"]))
def test_no_list_of_names_breaks_the_choice(names: list[str], form: str) -> None:
    with contextlib.suppress(UsageError):
        assert set(wanted_files(names, form)) <= set(names)
