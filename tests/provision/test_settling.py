"""A package database that an interruption has left half done: seen, finished, asked again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from doctor.provision.goal import SYSTEM
from doctor.provision.plan import make_plan
from doctor.provision.survey import probe_module
from tests.provision.machine import Machine, fresh_machine
from tests.provision.made import MEANS, bare_state, make_goal, state_of
from tests.provision.sandbox import Sandbox

CONTROL = """\
Package: half-there
Version: 1
Architecture: all
Maintainer: nobody <nobody@example.org>
Description: fails to configure while /fail is there
"""
POSTINST = "#!/bin/sh\ntest ! -e /fail\n"


def test_it_is_settled_first_and_only_for_a_service_of_the_system() -> None:
    goal = make_goal(scope=SYSTEM)
    for state in (state_of(goal), bare_state(goal)):
        broken = msgspec.structs.replace(state, unsettled=("x",))
        assert make_plan("local", goal, broken, MEANS).steps[0].name == "settle_packages"
        mine = msgspec.structs.replace(goal, scope="user")
        assert "settle_packages" not in [s.name for s in make_plan("l", mine, broken, MEANS).steps]
    nothing = msgspec.structs.replace(goal, release=None)
    broken = msgspec.structs.replace(state_of(goal), unsettled=("x",))
    names = [step.name for step in make_plan("local", nothing, broken, MEANS).steps]
    assert names == ["settle_packages", "remove_service"]


@pytest.mark.real
def test_no_dpkg_is_no_fault(tmp_path: Path) -> None:
    assert probe_module().unsettled_packages(str(tmp_path / "none")) == []


@pytest.fixture
def debian(tmp_path: Path) -> Iterator[Machine]:
    with fresh_machine(tmp_path) as found:
        yield found


@pytest.mark.slow
@pytest.mark.docker
def test_half_a_package_is_finished(box: Sandbox, debian: Machine) -> None:
    debian.run("mkdir", "-p", "/build/DEBIAN")
    debian.run("tee", "/build/DEBIAN/control", text=CONTROL)
    debian.run("tee", "/build/DEBIAN/postinst", text=POSTINST)
    debian.run("chmod", "755", "/build/DEBIAN/postinst")
    debian.run("dpkg-deb", "--build", "/build", "/half.deb")
    debian.run("touch", "/fail")
    assert debian.status("dpkg", "-i", "/half.deb")[0] != 0
    assert "half-there" in debian.run("dpkg", "--audit")

    profile = box.profile()
    failed = box.apply_on(debian.by_docker, profile)
    assert failed.status == 4
    assert "half-there" in failed.err

    debian.run("rm", "/fail")
    mended = box.run_on(debian.by_docker, "apply", profile, "--resume")
    assert mended.status == 0, mended.err
    assert debian.run("dpkg", "--audit") == ""
    assert "nothing to do" in box.apply_on(debian.by_docker, profile).out
