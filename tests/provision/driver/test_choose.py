"""Which packages are asked for: schemes, versions, what takes the place of what. Pure."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.facts import ContainerEngine, seen
from doctor.matrix.packaging import packaging, schemes_for
from doctor.profile.schema import Monitoring
from doctor.provision.driver.choose import (
    Wish,
    at_one_version,
    choose,
    driver_version,
    order_key,
    set_members,
)
from doctor.provision.driver.companions import names_beside
from doctor.provision.driver.names import role_of, successor
from doctor.provision.driver.refuse import of_monitor
from doctor.provision.driver.scene import Scene, on_this_machine
from doctor.provision.driver.services import has_runtime
from doctor.provision.driver.sets import upstream
from doctor.provision.target import Target
from tests.provision.driver.made import (
    DCGM,
    FAMILY,
    MATRIX,
    PROFILE,
    WISH,
    driver_set,
    facts,
    package,
    rows,
    shelf,
    state,
)
from tests.provision.driver.repository import Deb, monitor, suffixed, toolkit, unsuffixed

UBUNTU = schemes_for(MATRIX, "ubuntu 24.04")
VERSIONS = st.from_regex(
    r"([0-9]:)?[0-9]{1,3}(\.[0-9a-z+~]{1,4}){0,2}(-[0-9a-z.+~]{1,4})?", fullmatch=True
)


TOOLKIT = tuple(d.name for d in toolkit("1"))


def words(branch: int, *debs: Deb, there: tuple[Deb, ...] = ()) -> tuple[str, ...]:
    wish = WISH.__class__(branch=branch, modules="open")
    choice = choose(UBUNTU, wish, shelf(state(*rows(*there)), rows(*debs)))
    assert choice is not None
    return choice.words


@pytest.mark.real
@pytest.mark.skipif(shutil.which("dpkg") is None, reason="dpkg is not here to compare with")
@settings(max_examples=60, deadline=None)
@given(VERSIONS, VERSIONS)
def test_versions_sort_as_dpkg_sorts_them(one: str, other: str) -> None:
    for operator, mine in (
        ("lt", order_key(one) < order_key(other)),
        ("eq", order_key(one) == order_key(other)),
    ):
        answer = subprocess.run(["dpkg", "--compare-versions", one, operator, other], check=False)
        assert (answer.returncode == 0) == mine


def test_the_newest_of_the_branch_in_the_naming_of_its_time() -> None:
    offers = [*suffixed("570.86.10"), *suffixed("580.65.06"), *suffixed("580.95.05")]
    found = words(580, *offers, *unsuffixed("595.71.05"))
    assert "nvidia-dkms-580-open=580.95.05-0ubuntu1" in found
    assert "nvidia-driver-pinning-580=580-5" in found
    assert not any("570" in word or "595" in word for word in found)
    assert "nvidia-open=595.71.05-1ubuntu1" in words(595, *offers, *unsuffixed("595.71.05"))


def test_a_branch_that_is_not_whole_is_not_chosen() -> None:
    offers = [d for d in suffixed("580.95.05") if "utils" not in d.name]
    assert choose(UBUNTU, WISH, shelf(state(), rows(*offers))) is None
    older = [*offers, *suffixed("580.65.06")]
    choice = choose(UBUNTU, WISH, shelf(state(), rows(*older)))
    assert choice is not None
    assert choice.version == "580.65.06"


def test_what_is_there_gets_a_successor_of_its_role() -> None:
    there = (
        *suffixed("570.86.10"),
        Deb("libnvidia-gl-570", "570.86.10-0ubuntu1", source="nvidia-graphics-drivers-570"),
    )
    gl = Deb("libnvidia-gl-580", "580.95.05-0ubuntu1", source="nvidia-graphics-drivers-580")
    found = words(580, *there, *suffixed("580.95.05"), gl, there=there)
    assert "libnvidia-gl-580=580.95.05-0ubuntu1" in found
    assert "nvidia-fabricmanager-580=580.95.05-1" in found


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("nvidia-dkms-570-open", "nvidia-dkms-580-open"),
        ("nvidia-dkms-570", "nvidia-dkms-580-open"),
        ("libnvidia-compute-570-server", "libnvidia-compute-580"),
        ("nvidia-kernel-dkms", "nvidia-open-kernel-dkms"),
        ("nvidia-fabricmanager-570", "nvidia-fabricmanager"),
    ],
)
def test_names_of_one_role(old: str, new: str) -> None:
    assert role_of(old) == role_of(new)
    assert successor(old, [new, "something-else"], "open", 580) == new


def test_a_flavour_is_kept_to() -> None:
    names = ["nvidia-dkms-580", "nvidia-dkms-580-open"]
    assert successor("nvidia-dkms-570", names, "open", 580) == "nvidia-dkms-580-open"
    assert successor("nvidia-dkms-570", names, "proprietary", 580) == "nvidia-dkms-580"


def test_what_only_looks_like_the_driver_is_no_part_of_its_set() -> None:
    there = [
        package("libnvidia-compute-580", "580.95.05-1", "nvidia-graphics-drivers-580"),
        package("nvidia-persistenced", "570.10-1"),
        package("nvidia-driver-pinning-580", "580-5"),
        package("firmware-nvidia-tegra", "20230404-1"),
        package("nvidia-container-toolkit", "1.20.0-1"),
    ]
    assert [p.name for p in set_members(there, FAMILY)] == ["libnvidia-compute-580"]
    assert driver_version(there, FAMILY) == "580.95.05"


def test_upstream_versions() -> None:
    assert upstream("1:580.95.05-0ubuntu1") == "580.95.05"
    assert upstream("535.261.03-1~bpo12+1") == "535.261.03"


def test_every_scheme_names_what_to_ask_for_and_says_where_it_comes_from() -> None:
    for row in packaging(MATRIX).schemes:
        assert row.open
        assert row.proprietary
        assert row.systems
        assert row.source


def test_the_toolkit_goes_in_at_one_version() -> None:
    names = ("toolkit", "toolkit-base")
    offers = rows(
        Deb("toolkit", "1.19.1-1"), Deb("toolkit", "1.20.0-1"), Deb("toolkit-base", "1.19.1-1")
    )
    assert [p.version for p in at_one_version(names, offers)] == ["1.19.1-1", "1.19.1-1"]
    assert at_one_version(names, rows(Deb("toolkit", "1.20.0-1"))) == []


@pytest.mark.parametrize(
    ("text", "known"),
    [
        (None, False),
        ("", False),
        ("[]", False),
        ("{", False),
        ('{"runtimes": null}', False),
        ('{"runtimes": {"nvidia": {}}}', True),
    ],
)
def test_what_docker_is_told(text: str | None, known: bool) -> None:
    assert has_runtime(text) is known


def test_what_goes_beside_is_asked_for_at_one_version() -> None:
    wish = Wish(branch=580, modules="open", beside=TOOLKIT, monitor=DCGM)
    debs = [*toolkit("1.19.0-1"), *toolkit("1.20.0-1"), *monitor("4.5.3", "13", 1)]
    offers = rows(*suffixed("580.95.05"), *debs, Deb(TOOLKIT[0], "1.21.0-1"))
    choice = choose(UBUNTU, wish, shelf(state(), offers))
    assert choice is not None
    assert {f"{name}=1.20.0-1" for name in TOOLKIT} <= set(choice.words)
    assert "datacenter-gpu-manager-4-cuda13=1:4.5.3-1" in choice.words
    assert not list(of_monitor(choice, wish, state()))
    bare = choose(UBUNTU, wish, shelf(state(), rows(*suffixed("580.95.05"))))
    assert bare is not None
    assert "cuda13 and datacenter-gpu-manager-4-core" in next(of_monitor(bare, wish, state()))


def test_what_goes_beside_and_is_whole_stays_as_it_is() -> None:
    wish = Wish(branch=580, modules="open", beside=TOOLKIT)
    offers = rows(*suffixed("580.95.05"), *toolkit("1.20.0-1"))
    whole, part = rows(*toolkit("1.17.0-1")), rows(*toolkit("1.17.0-1")[1:])
    stays = choose(UBUNTU, wish, shelf(state(*whole), offers))
    moves = choose(UBUNTU, wish, shelf(state(*part), offers))
    assert stays is not None
    assert moves is not None
    assert not any("container" in word for word in stays.words)
    assert {f"{name}=1.20.0-1" for name in TOOLKIT} <= set(moves.words)


def test_the_line_of_dcgm_is_that_of_the_branch() -> None:
    of = msgspec.structs.replace
    older = of(PROFILE, driver=of(PROFILE.driver, branch=570))
    assert "datacenter-gpu-manager-4-cuda12" in names_beside(older, MATRIX)
    assert "datacenter-gpu-manager" in names_beside(older, MATRIX), "what would have to go"
    plain = of(PROFILE, monitoring=Monitoring())
    assert names_beside(plain, MATRIX) == TOOLKIT


@pytest.mark.parametrize(
    ("secure", "cards", "engine", "expected"),
    [
        (True, ("NVIDIA B200",), "docker", (True, True, "docker")),
        (False, (), "", (False, False, "")),
    ],
)
def test_a_lock_is_told_what_the_machine_decides(
    secure: bool, cards: tuple[str, ...], engine: str, expected: tuple[bool, bool, str]
) -> None:
    found = facts(*cards)
    found = replace(found, host=replace(found.host, secure_boot=seen(secure, "test")))
    if engine:
        found = replace(found, container_engine=seen(ContainerEngine(engine), "test"))
    scene = Scene(Target(), found, MATRIX, FAMILY, state(), 0)
    locked = driver_set(*rows(*suffixed("580.95.05"), *toolkit("1.20.0-1")), builds=True)
    here = on_this_machine(locked, scene)
    assert (here.needs_key, here.starts, here.engine) == expected
