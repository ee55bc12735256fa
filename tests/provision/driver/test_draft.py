"""Each reason to refuse reaches the plan: a sound machine is refused nothing, and one change is.

The machine and apt answer from data; all between their answers and the plan is real.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import msgspec
import pytest

from doctor.facts import Facts, Reading, seen
from doctor.profile.schema import Monitoring, Profile
from doctor.provision.driver import prepare
from doctor.provision.driver.ask import Survey
from doctor.provision.driver.prepare import Asking, Draft, draft
from doctor.provision.driver.sets import Change, Package, Simulation
from doctor.provision.target import Target
from tests.provision.driver.made import MATRIX, PROFILE, facts, rows
from tests.provision.driver.repository import suffixed

OLD, NEW = rows(*suffixed("570.86.10")), rows(*suffixed("580.95.05"))
Row = tuple[str, str, str, str, str]
PLAIN = msgspec.structs.replace(PROFILE, monitoring=Monitoring())


def installed(*packages: Package) -> tuple[Row, ...]:
    return tuple((p.name, p.version, p.arch, p.source, "installed") for p in packages)


SWITCH = tuple(Change("remove", p.name, p.version) for p in OLD if "fabric" not in p.name) + tuple(
    Change("install", p.name, "", p.version) for p in NEW if "fabric" not in p.name
)


@dataclass(frozen=True)
class World:
    """What the machine says, what is offered, what apt would do."""

    facts: Facts = field(default_factory=lambda: facts("NVIDIA H100 80GB HBM3"))
    survey: Survey = Survey(
        manager="apt", kernel="6.8.0-31-generic", headers=True, free_mib=1 << 20,
        packages=installed(*(p for p in OLD if "fabric" not in p.name)),
    )  # fmt: skip
    offers: tuple[Package, ...] = (*OLD, *NEW)
    answer: Simulation = Simulation(changes=SWITCH)
    profile: Profile = PLAIN
    busy: bool = False


Plan = Callable[[World], Draft]


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch) -> Plan:
    def planned(world: World) -> Draft:
        def offered(*_: object, **__: object) -> tuple[tuple[Package, ...], tuple[str, ...]]:
            return world.offers, ()

        monkeypatch.setattr(prepare, "read_survey", lambda *_: world.survey)
        monkeypatch.setattr(prepare, "read_offers", offered)
        monkeypatch.setattr(prepare, "simulate", lambda *_: world.answer)
        asking = Asking(Target(), world.profile, None, world.busy)
        return draft(asking, world.facts, MATRIX)

    return planned


SOUND = World()


def of_system(name: str, version: str) -> Facts:
    return facts("NVIDIA H100 80GB HBM3", system=(name, version))


def on(platform: str) -> Facts:
    return replace(SOUND.facts, host=replace(SOUND.facts.host, platform=seen(platform, "test")))


def says(**changes: object) -> World:
    """A machine whose own account differs."""
    return replace(SOUND, survey=msgspec.structs.replace(SOUND.survey, **changes))


def wants(**changes: object) -> Profile:
    """A profile with another wish for the driver."""
    return msgspec.structs.replace(PLAIN, driver=msgspec.structs.replace(PLAIN.driver, **changes))


def card(name: str, **wish: object) -> World:
    return replace(SOUND, facts=facts(name), profile=wants(**wish))


def does(*changes: Change, kept: Sequence[Change] = SWITCH) -> World:
    return replace(SOUND, answer=Simulation(changes=(*kept, *changes)))


def switched(count: Reading[int]) -> Facts:
    return replace(SOUND.facts, nvidia=replace(SOUND.facts.nvidia, nvswitch=count))


def test_a_sound_machine_is_refused_nothing(plan: Plan) -> None:
    found = plan(SOUND)
    assert found.blockers == ()
    assert found.goal.version == "580.95.05"


REFUSED = {
    "no root": (says(uid=1000), "need root"),
    "WSL": (replace(SOUND, facts=on("wsl2")), "driver of Windows"),
    "Jetson": (replace(SOUND, facts=on("jetson")), "another JetPack"),
    "another manager": (says(manager="zypper"), "by apt alone"),
    "no manager": (says(manager=""), "no package manager"),
    "runfile": (says(runfile="/usr/bin/nvidia-uninstall"), "own installer"),
    "held broken": (says(broken=("nvidia-dkms-570-open",)), "broken state"),
    "mixed": (
        says(packages=installed(*OLD, *rows(*suffixed("535.261.03")))), "the driver is mixed",
    ),
    "branch dropped a card": (card("Tesla V100-SXM2-16GB", branch=595), "does not drive"),
    "branch older than a card": (card("NVIDIA B200", branch=550), "does not drive"),
    "proprietary where open is required": (
        card("NVIDIA B200", modules="proprietary"), "needs the open",
    ),
    "open where a card cannot": (card("Tesla V100-SXM2-16GB", modules="open"), "cannot run on"),
    "proprietary where there is none": (
        card("NVIDIA H100 PCIe", branch=620, modules="proprietary"), "open kernel modules only",
    ),
    "busy": (says(users=("python3 (7)",)), "--busy"),
    "unknown distribution": (
        replace(SOUND, facts=of_system("plan9", "4")), "how plan9 4 packages branch 580 is not",
    ),
    "no distribution": (
        replace(SOUND, facts=of_system("", "")), "packages branch 580 is not known",
    ),
    "not offered": (replace(SOUND, offers=OLD), "no repository of that machine offers branch 580"),
    "minimum not offered": (
        replace(SOUND, profile=wants(minimum="580.105.08")), "580.105.08 or later",
    ),
    "removes a driver package": (
        does(kept=(Change("remove", "nvidia-dkms-570-open", "570.86.10-0ubuntu1"),)),
        "the driver's package nvidia-dkms-570-open",
    ),
    "removes another package": (does(Change("remove", "vim")), "remove vim"),
    "apt cannot": (
        replace(SOUND, answer=Simulation(status=100, said="E: held broken packages")),
        "held broken packages",
    ),
    "no headers": (says(headers=False), "headers of the running kernel"),
    "NVSwitch without a manager": (
        replace(
            SOUND,
            facts=switched(seen(6, "test")),
            offers=tuple(p for p in SOUND.offers if "fabric" not in p.name),
        ),
        "joined by NVSwitch",
    ),
    "no DCGM": (replace(SOUND, profile=PROFILE), "which DCGM needs"),
    "no file of it": (
        replace(SOUND, offers=tuple(msgspec.structs.replace(p, sha256="") for p in SOUND.offers)),
        "as chosen",
    ),
    "no room": (says(free_mib=1), "MiB are free"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(plan: Plan, name: str) -> None:
    world, words = REFUSED[name]
    found = " | ".join(plan(world).blockers)
    assert words in found, found
    assert "--user" not in found  # no driver is a user's


def test_programs_on_the_gpus_may_be_put_up_with(plan: Plan) -> None:
    assert plan(replace(says(users=("python3 (7)",)), busy=True)).blockers == ()


def test_what_is_known_is_not_refused(plan: Plan) -> None:
    assert plan(replace(SOUND, facts=of_system("ubuntu", "22.04"))).blockers == ()
