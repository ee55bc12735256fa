"""The planner of a driver: nothing where nothing is to be done, in the right order, honest."""

from __future__ import annotations

import msgspec
import pytest

from doctor.provision.driver.before import driver_before
from doctor.provision.driver.goals import driver_goal
from doctor.provision.driver.holding import BLACKLIST, PREFERENCES, blacklist_text, preferences_text
from doctor.provision.driver.host_lock import host_lock_text, parse_host_lock
from doctor.provision.driver.sets import DriverSet, DriverState
from doctor.provision.driver.steps import driver_steps
from doctor.provision.driver.telling import driver_files
from doctor.provision.goal import Goal, goal_text, parse_goal
from doctor.provision.step import Step
from doctor.provision.survey import FileState, State
from tests.provision.driver.made import driver_set, package, rows, state
from tests.provision.driver.repository import suffixed

NEW = rows(*suffixed("580.95.05"))
OLD = rows(*suffixed("570.86.10"))
GOAL = driver_goal(driver_set(*NEW, replaced=OLD, absent=tuple(p.name for p in OLD)))


def machine(goal: Goal, there: DriverState) -> State:
    """A machine whose files are as the goal says."""
    files: dict[str, FileState | None] = {
        path: FileState(file.mode, file.text) for path, file in driver_files(goal).items()
    }
    return State(home=goal.home, files=files, driver=there)


def as_wanted(goal: Goal) -> State:
    wanted = goal.driver or driver_set()
    return machine(goal, state(*wanted.packages, holds=wanted.holds))


def names(steps: tuple[Step, ...]) -> list[str]:
    return [step.name for step in steps]


def test_nothing_to_do() -> None:
    assert driver_steps(GOAL, as_wanted(GOAL)) == ()


def test_a_switch_in_the_right_order() -> None:
    there = state(*OLD, holds=tuple(p.name for p in OLD))
    found = driver_steps(GOAL, State(home=GOAL.home, driver=there))
    assert names(found) == [
        "fetch_packages", "release_hold", "install_driver", "hold_driver", "verify",
    ]  # fmt: skip
    release, install = found[1], found[2]
    assert set(release.variables["driver_hold_release"]) == {p.name for p in OLD}
    assert set(install.variables["nvidia_driver_absent"]) == {p.name for p in OLD}
    assert install.undo == "exact"
    assert len(found[0].variables["nvidia_driver_packages"]) == len(NEW) + len(OLD)


def test_a_loaded_module_asks_for_a_boot_and_says_so() -> None:
    there = state(*OLD, loaded="570.86.10")
    found = driver_steps(GOAL, State(home=GOAL.home, driver=there))
    assert {s.name: s.undo for s in found}["install_driver"] == "needs-reboot"
    assert [s.name for s in found if s.reboots] == [found[-2].name]


def test_what_nobody_offers_any_more_cannot_be_taken_back() -> None:
    goal = driver_goal(driver_set(*NEW, absent=tuple(p.name for p in OLD)))
    there = state(*(package(p.name, p.version, p.source) for p in OLD))
    install = driver_steps(goal, State(home=goal.home, driver=there))[2]
    assert install.undo == "none"
    assert "cannot be taken back" in install.risk


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        (state(*NEW), ["hold_driver", "verify"]),
        (state(*NEW, holds=(NEW[0].name,)), ["hold_driver", "verify"]),
        (
            state(*NEW[1:], holds=tuple(p.name for p in NEW[1:])),
            ["fetch_packages", "install_driver", "hold_driver", "verify"],
        ),
    ],
)
def test_each_loss_is_mended(there: DriverState, expected: list[str]) -> None:
    assert names(driver_steps(GOAL, machine(GOAL, there))) == expected


def test_broken_packages_come_first_and_a_missing_module_is_built() -> None:
    goal = driver_goal(driver_set(*NEW, builds=True))
    held = tuple(p.name for p in NEW)
    there = state(*NEW, holds=held, broken=("x",), modules={"/m/nvidia.ko": "580.95.05"})
    assert names(driver_steps(goal, machine(goal, there)))[0] == "finish_packages"
    bare = state(*NEW, holds=held)
    assert names(driver_steps(goal, machine(goal, bare)))[0] == "build_module"


@pytest.mark.parametrize("unpacked", range(len(NEW) + 1))
def test_what_was_broken_off_goes_too_on_the_way_back(unpacked: int) -> None:
    """However many of the new packages dpkg had begun with: it will finish them first."""
    back = driver_goal(driver_set(*OLD, absent=tuple(p.name for p in NEW), purges=True))
    begun = tuple(p.name for p in NEW[:unpacked])
    found = driver_steps(back, State(home=back.home, driver=state(broken=begun)))
    install = next(step for step in found if step.name == "install_driver")
    assert set(install.variables["nvidia_driver_absent"]) == set(begun)
    assert (found[0].name == "finish_packages") == bool(begun)


def test_what_an_interrupted_apt_would_still_remove_stays() -> None:
    there = state(*NEW, holds=tuple(p.name for p in NEW), leaving=(NEW[0].name,))
    first = driver_steps(GOAL, machine(GOAL, there))[0]
    assert first.name == "finish_packages"
    assert first.variables["nvidia_driver_kept"] == [NEW[0].name]


def test_secure_boot_is_a_matter_for_a_person() -> None:
    goal = driver_goal(driver_set(*NEW, builds=True, needs_key=True))
    steps = driver_steps(goal, State(home=goal.home, driver=state()))
    assert (steps[0].name, steps[0].actor) == ("enrol_key", "a person")
    assert "mokutil" in steps[0].reason
    enrolled = State(home=goal.home, driver=state(key_enrolled=True))
    assert driver_steps(goal, enrolled)[0].name == "fetch_packages"


def test_the_way_back_is_what_was_there() -> None:
    held = tuple(sorted(p.name for p in OLD))
    pins = FileState(0o600, "by hand\n")
    there = State(
        home=GOAL.home,
        files={PREFERENCES: pins, BLACKLIST: None},
        driver=state(*(package(p.name, p.version, p.source) for p in OLD), holds=held),
    )
    before = driver_before(GOAL, there)
    assert before.driver is not None
    assert {(p.name, p.version) for p in before.driver.packages} == {
        (p.name, p.version) for p in OLD
    }
    assert all(p.sha256 for p in before.driver.packages), "the hashes are those of the offers"
    assert set(before.driver.absent) == {p.name for p in NEW}
    assert before.driver.holds == held
    assert before.driver.version == before.version == "570.86.10"
    assert [(f.path, f.text, f.mode) for f in before.files] == [(PREFERENCES, "by hand\n", 0o600)]
    after = as_wanted(GOAL)
    back = driver_steps(before, after)
    assert names(back)[:3] == ["fetch_packages", "release_hold", "install_driver"]
    assert set(back[2].variables["nvidia_driver_absent"]) == {p.name for p in NEW}


def test_what_the_driver_brought_along_is_not_made_older_again() -> None:
    """Nobody may offer the older one any more, and others may rest on the newer one."""
    library = package("liblzma5", "5.4.1-1")
    newer = msgspec.structs.replace(library, version="5.4.1-2", sha256="a" * 64)
    fresh = msgspec.structs.replace(package("dkms", "3.0.10-8"), sha256="b" * 64)
    goal = driver_goal(driver_set(*NEW, needs=(newer, fresh)))
    bare = State(home=goal.home, driver=state(library))
    there = driver_steps(goal, bare)
    assert next(s for s in there if s.name == "install_driver").undo == "exact"
    before = driver_before(goal, bare)
    back = driver_steps(before, machine(goal, state(*NEW, newer, fresh)))
    install = next(s for s in back if s.name == "install_driver")
    assert install.variables["nvidia_driver_packages"] == []
    assert set(install.variables["nvidia_driver_absent"]) == {*(p.name for p in NEW), "dkms"}
    assert driver_steps(before, State(home=before.home, driver=state(newer))) == ()


def test_the_way_back_from_a_first_driver_leaves_nothing() -> None:
    bare = State(home=GOAL.home, driver=state())
    before = driver_before(GOAL, bare)
    steps = driver_steps(before, as_wanted(GOAL))
    install = next(s for s in steps if s.name == "install_driver")
    assert install.variables["nvidia_driver_purge"] is True
    files = [s for s in steps if s.name in ("release_hold", "hold_driver")]
    gone = [path for s in files for path in s.variables["driver_hold_remove"]]
    assert {PREFERENCES, BLACKLIST, f"{GOAL.home}/applied.json"} <= set(gone)
    assert driver_steps(before, bare) == ()


def test_the_texts_that_hold() -> None:
    text = preferences_text(NEW)
    assert text.count("Pin-Priority: 1001") == len({p.version for p in NEW})
    assert "\n\n" not in text.split("Package:")[0]
    assert '"^libstdc[+][+]6$";' in blacklist_text(["libstdc++6"])


def test_goals_and_locks_are_kept_whole() -> None:
    assert parse_goal(goal_text(GOAL), "x") == GOAL
    wanted = GOAL.driver or driver_set()
    plain = msgspec.structs.replace(wanted, replaced=())
    assert parse_host_lock(host_lock_text(plain), "x") == plain


def test_driver_set_names() -> None:
    assert isinstance(GOAL.driver, DriverSet)
    assert GOAL.driver.package("libnvidia-compute-580") is not None
