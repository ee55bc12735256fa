"""What of a driver is no longer what was applied: each drift alone, and none where all is so."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from doctor.facts import (
    ContainerEngine,
    Facts,
    Missing,
    NvidiaFacts,
    Reading,
    Version,
    missing,
    seen,
)
from doctor.facts.host import (
    AutomaticUpgrades,
    HeldPackages,
    HostFacts,
    OsRelease,
    SystemPackage,
)
from doctor.findings import Diagnosis, Rung, Severity, TargetDiagnosis, Verdict
from doctor.provision.driver.drift import (
    differences,
    expected_of,
    faults_of,
    judge_driver,
    unseen,
)
from doctor.provision.driver.goals import driver_goal
from doctor.provision.driver.holding import BLACKLIST, PREFERENCES
from doctor.provision.driver.sets import DriverState
from doctor.provision.driver.telling import driver_files
from doctor.provision.survey import FileState, State
from tests.provision.driver.made import MATRIX, driver_set, package, rows, state
from tests.provision.driver.repository import suffixed

V, NEWER = "580.95.05", "580.105.08"
PACKAGES = rows(*suffixed(V))
UNIT = "nvidia-persistenced.service"
GOAL = driver_goal(driver_set(*PACKAGES, builds=True, absent=("nvidia-open-570",), units=(UNIT,)))
WANTED = GOAL.driver or driver_set()
MANAGER = "nvidia-fabricmanager-580"


def version(text: str) -> Reading[Version]:
    return seen(Version.parse(text), "test")


# -- what the one judge finds ---------------------------------------------------------------

INSTALLED = tuple(SystemPackage(p.name, p.version, p.source) for p in PACKAGES)
HELD = HeldPackages(WANTED.holds, WANTED.holds)
NIGHTLY = AutomaticUpgrades(True, "unattended-upgrades", tuple(f"^{n}$" for n in WANTED.holds))
SOUND = Facts(
    host=HostFacts(
        os=seen(OsRelease("ubuntu", "24.04"), "test"),
        platform=seen("bare", "test"),
        packages=seen(INSTALLED, "test"),
        held_packages=seen(HELD, "test"),
        automatic_upgrades=seen(NIGHTLY, "test"),
    ),
    nvidia=NvidiaFacts(driver=version(V), module_on_disk=version(V), userspace=version(V)),
    container_engine=seen(ContainerEngine("docker", cdi_driver=version(V)), "test"),
)


def host(**changes: object) -> Facts:
    """The machine of SOUND, but for these readings of its host."""
    read = {name: seen(value, "test") for name, value in changes.items()}
    return replace(SOUND, host=replace(SOUND.host, **read))  # type: ignore[arg-type]


def moved(*names: str) -> Facts:
    """These packages are at a newer version."""
    found = tuple(
        replace(p, version=p.version.replace(V, NEWER)) if p.name in names else p for p in INSTALLED
    )
    return host(packages=found)


def codes(facts: Facts) -> set[str]:
    return {fault.code for fault in faults_of(judge_driver(GOAL, facts, MATRIX))}


def test_a_machine_that_is_as_applied_has_no_fault() -> None:
    assert codes(SOUND) == set()
    assert not list(unseen(judge_driver(GOAL, SOUND, MATRIX)))


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        pytest.param(host(held_packages=HeldPackages((), HELD.pins)), "DFT101", id="holds lost"),
        pytest.param(
            host(held_packages=HeldPackages(HELD.holds[1:], HELD.pins)), "DFT101", id="one lost"
        ),
        pytest.param(host(held_packages=HeldPackages(HELD.holds)), "DFT102", id="pins gone"),
        pytest.param(
            host(held_packages=HeldPackages(HELD.holds, HELD.pins[1:])), "DFT102", id="one pin gone"
        ),
        pytest.param(moved("libnvidia-compute-580"), "DFT103", id="split"),
        pytest.param(host(packages=INSTALLED[1:]), "DFT103", id="one is gone"),
        pytest.param(moved(*WANTED.names, "nvidia-driver-pinning-580"), "DFT103", id="nearly all"),
        pytest.param(host(packages=()), "DFT104", id="all gone"),
        pytest.param(moved(MANAGER), "DFT105", id="fabric manager apart"),
        pytest.param(
            replace(SOUND, container_engine=seen(ContainerEngine(
                "docker", cdi_driver=version("570.86.10")), "test")), "DFT106", id="stale CDI",
        ),
        pytest.param(
            host(automatic_upgrades=AutomaticUpgrades(True, "unattended-upgrades")),
            "DFT107", id="upgrades by night",
        ),
        pytest.param(
            host(automatic_upgrades=AutomaticUpgrades(True, "x", NIGHTLY.blacklist[1:])),
            "DFT107", id="one is reached by night",
        ),
        pytest.param(
            replace(SOUND, nvidia=replace(SOUND.nvidia, module_on_disk=version(NEWER))),
            "DRV122", id="module on disk is newer",
        ),
        pytest.param(
            replace(SOUND, nvidia=replace(SOUND.nvidia, userspace=version(NEWER))),
            "DRV121", id="libraries are newer",
        ),
    ],
)  # fmt: skip
def test_each_drift_is_found(facts: Facts, code: str) -> None:
    assert code in codes(facts)


def test_notes_and_what_is_wrong_with_others_is_no_drift_of_the_driver() -> None:
    fault = faults_of(judge_driver(GOAL, host(packages=()), MATRIX))[0]
    note = replace(fault, severity=Severity.INFO)
    other = replace(fault, code="HST101", rung=Rung.HOST)
    target = TargetDiagnosis("host", Verdict.FAIL, findings=(fault, note, other))
    assert faults_of(Diagnosis(Verdict.FAIL, (target,))) == (fault,)


@pytest.mark.parametrize("name", ["packages", "held_packages", "automatic_upgrades"])
def test_what_cannot_be_read_is_no_proof(name: str) -> None:
    blind = {name: missing(Missing.NOT_PERMITTED, "test")}
    facts = replace(SOUND, host=replace(SOUND.host, **blind))  # type: ignore[arg-type]
    found = list(unseen(judge_driver(GOAL, facts, MATRIX)))
    assert found
    assert all(kind == "unknown" and name in text for kind, _, text in found)


def test_the_judge_is_told_what_was_applied() -> None:
    told = expected_of(GOAL)
    assert dict(told.packages)[MANAGER] == f"{V}-1"
    assert told.holds == told.pins == WANTED.holds
    assert told.driver == Version.parse(V)
    loose = driver_goal(driver_set(*PACKAGES, holds=()))
    assert expected_of(loose).pins == ()


# -- what no fact speaks of -----------------------------------------------------------------

GOOD = state(
    *PACKAGES,
    holds=WANTED.holds,
    modules={"/m/nvidia.ko": V},
    units={UNIT: {"LoadState": "loaded", "UnitFileState": "enabled"}},
)
FILES: dict[str, FileState | None] = {
    path: FileState(file.mode, file.text) for path, file in driver_files(GOAL).items()
}


def seen_of(there: DriverState, files: dict[str, FileState | None] = FILES) -> list[str]:
    found = differences(GOAL, State(home=GOAL.home, files=files, driver=there))
    return [" ".join(row) for row in found]


def but(**changes: object) -> DriverState:
    return msgspec.structs.replace(GOOD, **changes)


def test_nothing_differs() -> None:
    assert seen_of(GOOD) == []


@pytest.mark.parametrize("path", [PREFERENCES, BLACKLIST])
@pytest.mark.parametrize(
    ("more", "mode", "words"),
    [(None, 0, "is not there"), ("#", 0o644, "has another content"), ("", 0o600, "has mode 600")],
)
def test_files_that_hold_it(path: str, more: str | None, mode: int, words: str) -> None:
    file = FILES[path]
    assert file
    changed = None if more is None else FileState(mode, f"{file.text}{more}")
    found = seen_of(GOOD, {**FILES, path: changed})
    assert len(found) == 1
    assert found[0].startswith(f"file {path} {words}")


@pytest.mark.parametrize(
    ("there", "words"),
    [
        (but(broken=("nvidia-dkms-580-open",)), "nvidia-dkms-580-open is in a broken state"),
        (but(leaving=("nvidia-dkms-580-open",)), "nvidia-dkms-580-open is marked to go"),
        (but(packages=(*PACKAGES, package("nvidia-open-570", "570.1"))), "is there again"),
        (but(modules={}), "has no module, not 580.95.05"),
        (but(modules={"/m/nvidia.ko": "570.86.10"}), "has 570.86.10, not 580.95.05"),
        (but(modules={"a": V, "b": "570.86.10"}), "has modules of 570.86.10, 580.95.05"),
        (but(units={UNIT: {"UnitFileState": "disabled"}}), f"unit {UNIT} is disabled"),
        (but(units={UNIT: {"LoadState": "masked"}}), f"unit {UNIT} is masked"),
    ],
)
def test_packages_modules_and_services(there: DriverState, words: str) -> None:
    found = seen_of(there)
    assert len(found) == 1
    assert words in found[0]


def test_a_driver_that_builds_nothing_is_not_asked_for_modules() -> None:
    signed = driver_goal(driver_set(*PACKAGES))
    there = msgspec.structs.replace(GOOD, modules={})
    files: dict[str, FileState | None] = {
        path: FileState(file.mode, file.text) for path, file in driver_files(signed).items()
    }
    assert not list(differences(signed, State(home=signed.home, files=files, driver=there)))
