"""Asking a registry which image a tag leads to: with and without rights, by platform, by digest."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.errors import DoctorError, RemoteError, UsageError
from doctor.profile.registry import parse_reference, pin_image
from doctor.profile.registry_login import Login, find_login
from doctor.profile.web import Call, get
from tests.web import Asked, Given, Site

LIST_TYPE = "application/vnd.oci.image.index.v1+json"
IMAGE_TYPE = "application/vnd.oci.image.manifest.v1+json"


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class Registry:
    """One repository with an image for two platforms behind a list, as registries keep it.

    With `user` it wants a token, which its own token service gives to that user alone.
    """

    def __init__(self, user: str = "", password: str = "") -> None:
        self.blobs: dict[str, bytes] = {}
        self.tags: dict[str, bytes] = {}
        self.pair = base64.b64encode(f"{user}:{password}".encode()).decode() if user else ""
        self.site = Site(self.answer)

    def put(self, text: Any) -> str:
        data = json.dumps(text).encode()
        self.blobs[digest_of(data)] = data
        return digest_of(data)

    def image(self, arch: str, mark: str = "") -> str:
        config = self.put({"architecture": arch, "os": "linux", "mark": mark})
        layer = {"mediaType": "x", "digest": digest_of(b"layer"), "size": 1000}
        return self.put({"mediaType": IMAGE_TYPE, "config": {"digest": config}, "layers": [layer]})

    def listed(self, **digests: str) -> str:
        entries = [
            {"digest": d, "platform": {"os": "linux", "architecture": a.partition("_")[0]}}
            for a, d in digests.items()
        ]
        attest = {"digest": digest_of(b"x"), "platform": {"os": "unknown", "architecture": "x"}}
        return self.put({"mediaType": LIST_TYPE, "manifests": [attest, *entries]})

    def tag(self, name: str, digest: str) -> None:
        self.tags[name] = self.blobs[digest]

    def answer(self, asked: Asked) -> Given:
        if asked.path == "/token":
            return self._token(asked)
        if self.pair and asked.headers.get("authorization") != "Bearer the-token":
            challenge = (
                f'Bearer realm="{self.site.url}/token",service="reg",scope="repository:o/i:pull"'
            )
            return Given(401, b"{}", {"WWW-Authenticate": challenge})
        name = asked.path.rpartition("/")[2]
        data = self.blobs.get(name) or self.tags.get(name)
        if data is None:
            return Given(404, b'{"errors": [{"code": "MANIFEST_UNKNOWN"}]}')
        return Given(200, data, {"Docker-Content-Digest": digest_of(data)})

    def _token(self, asked: Asked) -> Given:
        assert "scope=repository%3Ao%2Fi%3Apull" in asked.query
        if asked.headers.get("authorization") != f"Basic {self.pair}":
            return Given(401, b"{}")
        return Given(200, b'{"token": "the-token", "expires_in": 300}')

    @property
    def name(self) -> str:
        return f"{self.site.url.removeprefix('http://')}/o/i"


@pytest.fixture(autouse=True)
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No login of the person who runs the tests, and no proxy."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.mark.real
def test_a_list_leads_to_the_image_for_the_platform() -> None:
    registry = Registry()
    amd, arm = registry.image("amd64"), registry.image("arm64")
    registry.tag("v1", registry.listed(amd64=amd, arm64=arm))
    with registry.site:
        for arch, digest in (("x86_64", amd), ("aarch64", arm)):
            pinned = pin_image(f"{registry.name}:v1", arch)
            assert pinned.image == f"{registry.name}@{digest}"
            assert (pinned.tag, pinned.size) == ("v1", 1000)
            assert pinned.list_digest == digest_of(registry.tags["v1"])
        registry.tag("v2", registry.listed(arm64=arm))
        with pytest.raises(UsageError, match="no image for linux/amd64"):
            pin_image(f"{registry.name}:v2", "x86_64")


@pytest.mark.real
def test_one_image_alone_is_held_against_its_configuration() -> None:
    registry = Registry()
    registry.tag("latest", registry.image("amd64"))
    with registry.site:
        pinned = pin_image(registry.name, "x86_64")
        assert pinned.image.endswith(digest_of(registry.tags["latest"]))
        assert pinned.config in registry.blobs
        with pytest.raises(UsageError, match="made for amd64"):
            pin_image(registry.name, "aarch64")


@pytest.mark.real
def test_another_content_than_its_digest_is_refused() -> None:
    registry = Registry()
    amd, other = registry.image("amd64"), registry.image("amd64", "other")
    registry.tag("v1", registry.listed(amd64=amd))
    registry.blobs[amd] = registry.blobs[other]
    with registry.site, pytest.raises(RemoteError, match="not as sha256"):
        pin_image(f"{registry.name}:v1", "x86_64")


@pytest.mark.real
def test_a_token_is_got_with_the_users_own_login_and_goes_nowhere_else(tmp_path: Path) -> None:
    registry = Registry("me", "secret-5c1")
    registry.tag("v1", registry.image("amd64"))
    with registry.site:
        with pytest.raises(RemoteError) as fault:
            pin_image(f"{registry.name}:v1", "x86_64")
        assert "docker login" in fault.value.hint
        host = registry.name.partition("/")[0]
        entry = {"auth": base64.b64encode(b"me:secret-5c1").decode()}
        (tmp_path / "config.json").write_text(json.dumps({"auths": {host: entry}}))
        pinned = pin_image(f"{registry.name}:v1", "x86_64")
    assert pinned.tag == "v1"
    asked = [a for a in registry.site.seen if "secret" in base64_text(a)]
    assert {a.path for a in asked} == {"/token"}
    assert "secret" not in str(pinned)


def base64_text(asked: Asked) -> str:
    return base64.b64decode(asked.headers.get("authorization", "").partition(" ")[2] + "==").decode(
        "utf-8", "replace"
    )


@pytest.mark.real
@pytest.mark.parametrize(
    ("given", "said"),
    [
        (Given(404, b"{}"), "no such image"),
        (Given(403, b"{}"), "lets nobody in"),
        (Given(500, b"<html>"), "answers 500"),
        (Given(200, b"<html>"), "no image"),
        (Given(200, b"[" * 5000), "no image"),
        (Given(200, b'{"manifests": [1, null, {"platform": 7}]}'), "no image for"),
        (Given(200, b'{"manifests": 3}'), "no image for"),
        (Given(200, b'{"config": {"digest": "../x"}, "layers": []}'), "no image"),
        (Given(302, b"", {"Location": "ftp://elsewhere/x"}), "no address"),
        (Given(302, b"", {"Location": "/v2/o/i/manifests/again"}), "in circles"),
        (Given(401, b"", {"WWW-Authenticate": 'Bearer realm="http://h.example/t"'}), "without TLS"),
        (Given(401, b"", {"WWW-Authenticate": 'Bearer realm="https://["'}), "that is none"),
        (
            Given(401, b"", {"WWW-Authenticate": 'Bearer realm="https://h:x/"'}),
            "that is none",
        ),
        (Given(302, b"", {"Location": "https://["}), "Invalid IPv6 URL"),
        (Given(302, b"", {"Location": "https://h:999999/"}), "that is none"),
    ],
)
def test_a_strange_answer_is_one_clear_error(given: Given, said: str) -> None:
    with Site(lambda _: given) as site, pytest.raises(DoctorError, match=said):
        pin_image(f"{site.url.removeprefix('http://')}/o/i:v1", "x86_64")


@pytest.mark.real
def test_what_is_sent_goes_to_no_other_address() -> None:
    def answer(asked: Asked) -> Given:
        return Given(307, b"", {"Location": "/elsewhere"}) if asked.path == "/token" else Given()

    with Site(answer) as site, pytest.raises(RemoteError, match="elsewhere"):
        get(Call(f"{site.url}/token", data=b"refresh_token=s"), 100)
    assert [asked.path for asked in site.seen] == ["/token"]


@pytest.mark.real
def test_nobody_listening_is_one_clear_error() -> None:
    with pytest.raises(RemoteError, match=r"127\.0\.0\.1:1"):
        pin_image("127.0.0.1:1/o/i:v1", "x86_64")


@pytest.mark.parametrize(
    ("text", "registry", "repository", "version"),
    [
        ("debian", "docker.io", "library/debian", "latest"),
        ("vllm/vllm-openai:v0.33.0", "docker.io", "vllm/vllm-openai", "v0.33.0"),
        ("docker.io/debian:12", "docker.io", "library/debian", "12"),
        ("ghcr.io/o/i", "ghcr.io", "o/i", "latest"),
        ("localhost/i:1", "localhost", "i", "1"),
        ("127.0.0.1:5000/a/b:t", "127.0.0.1:5000", "a/b", "t"),
        (f"a/b:t@sha256:{'0' * 64}", "docker.io", "a/b", f"sha256:{'0' * 64}"),
    ],
)
def test_names_are_read_as_docker_reads_them(
    text: str, registry: str, repository: str, version: str
) -> None:
    found = parse_reference(text)
    assert (found.registry, found.repository, found.version) == (registry, repository, version)


@pytest.mark.parametrize("text", ["", "A", "a b", "a:", "a@sha256:1", "-x", "a;b", "a\n", "../a b"])
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_reference(text)


@given(st.text(max_size=80))
def test_any_text_is_a_name_or_a_clear_error(text: str) -> None:
    try:
        found = parse_reference(text)
    except UsageError:
        return
    assert found.base.startswith(("http://", "https://"))


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"auths": 1}', '{"auths": {"r": 1}}', '{"auths": {"r": {"auth": "!"}}}'],
)
def test_a_strange_configuration_is_no_login(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(text)
    assert find_login("r", {"DOCKER_CONFIG": str(tmp_path)}) == Login()


@pytest.fixture
def helper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Put a credential helper on the PATH that answers with a text."""

    def make(answer: str) -> None:
        program = tmp_path / "docker-credential-test"
        program.write_text(f"#!/bin/sh\ncat >/dev/null\nprintf '%s' '{answer}'\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    return make


@pytest.mark.real
def test_a_helper_is_asked_as_docker_asks_it(tmp_path: Path, helper: Callable[[str], None]) -> None:
    (tmp_path / "config.json").write_text('{"credsStore": "test"}')
    environ = {"DOCKER_CONFIG": str(tmp_path)}
    helper('{"Username": "me", "Secret": "s"}')
    assert find_login("r", environ) == Login("me", "s")
    helper('{"Username": "<token>", "Secret": "t"}')
    assert find_login("r", environ) == Login(token="t")  # noqa: S106
    helper("credentials not found")
    assert find_login("r", environ) == Login()
