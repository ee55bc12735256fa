"""What stands in the way of a driver. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pytest

from doctor.facts import Facts, seen
from doctor.facts.host import HostFacts
from doctor.matrix.packaging import schemes_for
from doctor.provision.driver import refuse
from doctor.provision.driver.choose import Choice, Wish
from doctor.provision.driver.sets import Change, DriverState, Simulation
from tests.provision.driver.made import DCGM, FAMILY, MATRIX, facts, package, state

SCHEME = schemes_for(MATRIX, "ubuntu 24.04", 580)[1]
CHOICE = Choice(scheme=SCHEME, version="580.95.05", words=())


def words(found: Iterable[str]) -> str:
    return " | ".join(found)


@pytest.mark.parametrize(
    ("there", "uid", "text"),
    [
        (state(runfile="/usr/bin/nvidia-uninstall"), 0, "own installer"),
        (state(broken=("nvidia-dkms-580",)), 0, "dpkg --configure -a"),
        (state(manager="dnf"), 0, "dnf is there: doctor changes drivers by apt alone"),
        (state(manager=""), 0, "no package manager"),
        (state(), 1000, "need root"),
    ],
)
def test_of_the_machine(there: DriverState, uid: int, text: str) -> None:
    assert text in words(refuse.of_host(facts(), there, uid))


def test_a_plain_machine_is_not_refused() -> None:
    assert not list(refuse.of_host(facts(), state(), 0))


@pytest.mark.parametrize("platform", ["wsl2", "jetson"])
def test_platforms_with_drivers_of_their_own(platform: str) -> None:
    found = Facts(host=HostFacts(platform=seen(platform, "test")))
    assert list(refuse.of_host(found, state(), 0))


def test_two_sources_at_two_versions_are_a_mixture() -> None:
    there = state(
        package("libcuda1", "535.309.01-1", "nvidia-graphics-drivers"),
        package("nvidia-dkms-580-open", "580.95.05-1", "nvidia-graphics-drivers-580"),
    )
    assert "mixed" in words(refuse.of_mixture(there, FAMILY))
    same = state(
        package("libcuda1", "535.309.01-1", "nvidia-graphics-drivers"),
        package("nvidia-open-kernel-dkms", "535.309.01-1", "nvidia-open-gpu-kernel-modules"),
        package("nvidia-persistenced", "535.171.04-1"),
    )
    assert not list(refuse.of_mixture(same, FAMILY))


@pytest.mark.parametrize(
    ("card", "branch", "modules", "text"),
    [
        ("Tesla V100-SXM2-16GB", 595, "proprietary", "does not drive"),
        ("Tesla V100-SXM2-16GB", 580, "open", "cannot run on the open"),
        ("NVIDIA B200", 580, "proprietary", "needs the open"),
        ("NVIDIA B200", 550, "open", "does not drive"),
        ("NVIDIA H100 80GB HBM3", 620, "proprietary", "open kernel modules only"),
    ],
)
def test_of_the_cards(card: str, branch: int, modules: str, text: str) -> None:
    devices = facts(card).devices.value or ()
    wish = Wish(branch=branch, modules=modules)
    assert text in words(refuse.of_cards(devices, wish, MATRIX))


@pytest.mark.parametrize(
    ("card", "branch", "modules"),
    [
        ("Tesla V100-SXM2-16GB", 580, "proprietary"),
        ("NVIDIA H100 80GB HBM3", 550, "proprietary"),
        ("NVIDIA H100 80GB HBM3", 550, "open"),
        ("NVIDIA H100 80GB HBM3", 620, "open"),
        ("NVIDIA B200", 580, "open"),
        ("NVIDIA H100 80GB HBM3", 581, "open"),
    ],
)
def test_cards_that_may_have_it_are_not_refused(card: str, branch: int, modules: str) -> None:
    devices = facts(card).devices.value or ()
    assert not list(refuse.of_cards(devices, Wish(branch=branch, modules=modules), MATRIX))


def test_the_flavour_follows_the_cards() -> None:
    old, new = facts("Tesla V100-SXM2-16GB").devices.value, facts("NVIDIA B200").devices.value
    assert refuse.modules_for(old or (), "any", MATRIX) == "proprietary"
    assert refuse.modules_for(new or (), "any", MATRIX) == "open"
    assert refuse.modules_for(new or (), "proprietary", MATRIX) == "proprietary"


def test_programs_on_the_gpus() -> None:
    assert "--busy" in words(refuse.of_users(state(users=("python3 (7)",))))


def removal(*names: str, installs: tuple[str, ...] = ()) -> str:
    changes = [Change("remove", name) for name in names]
    changes += [Change("install", name, "", "580.95.05-1") for name in installs]
    there = state(package("nvidia-kernel-dkms", "535.261.03-1", "nvidia-graphics-drivers"))
    answer = Simulation(changes=tuple(changes))
    return words(refuse.of_simulation(answer, CHOICE, there, FAMILY))


def test_a_removal_that_nothing_replaces_is_refused() -> None:
    assert "the driver's package nvidia-kernel-dkms" in removal("nvidia-kernel-dkms")
    assert removal("vim") == "apt would remove vim, and nothing takes its place"
    assert "the driver's package libnvidia-gl-550" in removal("libnvidia-gl-550")


def test_a_removal_that_something_replaces_is_none() -> None:
    assert not removal("nvidia-dkms-570-open", installs=("nvidia-dkms-580-open",))
    assert not removal("nvidia-kernel-dkms", installs=("nvidia-open-kernel-dkms",))
    assert not removal("nvidia-driver-pinning-570", installs=("nvidia-driver-pinning-580",))
    assert not removal("nvidia-driver-570-open")


def test_the_line_of_dcgm_before_may_go_for_the_one_that_is_wanted() -> None:
    answer = Simulation(changes=(Change("remove", "datacenter-gpu-manager"),))
    refused = refuse.of_simulation(answer, CHOICE, state(), FAMILY)
    assert "datacenter-gpu-manager" in words(refused)
    assert DCGM is not None
    assert not list(refuse.of_simulation(answer, CHOICE, state(), FAMILY, DCGM.conflicts))


def test_dcgm_is_wanted_whole_or_not_at_all() -> None:
    assert DCGM is not None
    wish = Wish(branch=580, modules="open", monitor=DCGM)
    first, *others = DCGM.packages
    assert f"offers {' and '.join(DCGM.packages)} at" in words(
        refuse.of_monitor(CHOICE, wish, state())
    )
    there = state(package(first, "1:4.4.1-1"))
    assert not [n for n in others if n not in words(refuse.of_monitor(CHOICE, wish, there))]
    asked = msgspec.structs.replace(CHOICE, words=tuple(f"{n}=1:4.4.1-1" for n in DCGM.packages))
    assert not list(refuse.of_monitor(asked, wish, state()))
    assert not list(refuse.of_monitor(CHOICE, Wish(branch=580, modules="open"), state()))


def test_what_apt_cannot_do_is_said_in_its_words() -> None:
    silent = refuse.of_simulation(Simulation(status=100), CHOICE, state(), FAMILY)
    assert "does not say why" in words(silent)
    answer = Simulation(status=100, said="E: Unable to correct problems")
    assert "Unable to correct" in words(refuse.of_simulation(answer, CHOICE, state(), FAMILY))


def test_a_module_needs_headers() -> None:
    bare, answer = state(headers=False), Simulation()
    assert "headers" in words(refuse.of_headers(CHOICE, bare, answer))
    headers = Change("install", "linux-headers-6.8.0-31-generic", "", "6.8.0-31.31")
    assert not list(refuse.of_headers(CHOICE, bare, Simulation(changes=(headers,))))
    assert not list(refuse.of_headers(CHOICE, state(), answer))
    devel = Change("install", "kernel-devel", "", "5.14.0-427.el9")
    assert not list(refuse.of_headers(CHOICE, bare, Simulation(changes=(devel,))))
    signed = msgspec.structs.replace(CHOICE, signed=True)
    assert not list(refuse.of_headers(signed, bare, answer))


def test_switched_cards_need_a_manager_of_that_version() -> None:
    switched = Wish(branch=580, modules="open", fabric=True)
    assert "offers nvidia-fabricmanager-580 at" in words(refuse.of_fabric(CHOICE, switched))
    without = msgspec.structs.replace(CHOICE, scheme=msgspec.structs.replace(SCHEME, fabric={}))
    assert "offers a fabric manager at" in words(refuse.of_fabric(without, switched))
    whole = Choice(
        scheme=SCHEME, version="580.95.05", words=("nvidia-fabricmanager-580=580.95.05-1",)
    )
    assert not list(refuse.of_fabric(whole, switched))
    assert not list(refuse.of_fabric(CHOICE, Wish(branch=580, modules="open")))


def test_a_part_that_goes_under_another_name_since_is_replaced() -> None:
    since = schemes_for(MATRIX, "ubuntu 24.04", 595)[1]
    choice = Choice(scheme=since, version="595.71.05", words=())
    gone = Change("remove", "nvidia-compute-utils-570")
    answer = Simulation(changes=(gone, Change("install", "nvidia-persistenced", "", "595.71.05-1")))
    assert not list(refuse.of_simulation(answer, choice, state(), FAMILY))
    assert list(refuse.of_simulation(Simulation(changes=(gone,)), choice, state(), FAMILY))
