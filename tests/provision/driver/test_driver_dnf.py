"""Holding packages with dnf's versionlock: real dnf and rpm, made-up packages, an installroot."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from doctor.provision.playbook import Playbook
from doctor.provision.target import DOCKER, Target
from tests.provision.machine import Machine, fresh_machine

pytestmark = [pytest.mark.slow, pytest.mark.docker]

OLD, NEW = "570.86.10", "570.172.08"
NAMES = ("nvidia-driver-cuda", "kmod-nvidia-open-dkms", "nvidia-fabricmanager", "libnvsdm")
DNF = ("dnf", "-y", "--installroot", "/el", "--releasever", "9", "--setopt=reposdir=/repos",
       "--disableplugin=*", "--enableplugin=versionlock")  # fmt: skip
SPEC = """\
Name: {name}
Version: {version}
Release: 1.el9
Summary: made up
License: MIT
BuildArch: noarch
%description
made up
%files
"""


@pytest.fixture(scope="module")
def el(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine with dnf and a repository of two versions of each package."""
    folder = tmp_path_factory.mktemp("el")
    with fresh_machine(folder) as found:
        run = found.run
        run("apt-get", "-q", "update")
        tools = ("dnf", "rpm", "createrepo-c", "dnf-plugins-core")
        run("apt-get", "-qy", "--no-install-recommends", "install", *tools)
        for version in (OLD, NEW):
            for name in NAMES:
                run("tee", "/root/p.spec", text=SPEC.format(name=name, version=version))
                run("rpmbuild", "--quiet", "-bb", "--define", "_rpmdir /srv/rpm", "/root/p.spec")
        run("createrepo_c", "-q", "/srv/rpm")
        run("mkdir", "/repos")
        repository = "[cuda]\nname=cuda\nbaseurl=file:///srv/rpm\ngpgcheck=0\n"
        run("tee", "/repos/cuda.repo", text=repository)
        run(*DNF, "-q", "install", *(f"{name}-{OLD}" for name in NAMES))
        yield found


def versions(el: Machine) -> set[str]:
    said = el.run("rpm", "--root", "/el", "-qa", "--qf", "%{NAME} %{VERSION}\n")
    return {line.split()[1] for line in said.splitlines() if line.split()[0] in NAMES}


def hold(el: Machine, folder: Path, **what: list[str]) -> int:
    """Play the role; how many of its tasks changed something."""
    variables = {f"driver_hold_{key}": value for key, value in what.items()}
    book = Playbook(Target(DOCKER, el.name), folder)
    told = {**variables, "driver_hold_manager": "dnf", "driver_hold_dnf": list(DNF)}
    result = book.play("hold", "driver_hold", told)
    assert not result.failure, result.failure
    return result.changed


def test_held_released_and_taken_back(el: Machine, tmp_path: Path) -> None:
    assert versions(el) == {OLD}
    assert hold(el, tmp_path, hold=list(NAMES)) == 1
    assert hold(el, tmp_path, hold=list(NAMES)) == 0, "it is held already"
    el.run(*DNF, "-q", "upgrade")
    assert versions(el) == {OLD}

    assert hold(el, tmp_path, release=list(NAMES)) == 1
    el.run(*DNF, "-q", "upgrade")
    assert versions(el) == {NEW}
    el.run(*DNF, "-q", "downgrade", *(f"{name}-{OLD}" for name in NAMES))
    assert versions(el) == {OLD}


def test_a_glob_on_nvidia_misses_a_part_of_the_fabric(el: Machine, tmp_path: Path) -> None:
    hold(el, tmp_path, hold=["*nvidia*"])
    el.run(*DNF, "-q", "upgrade")
    assert versions(el) == {OLD, NEW}, "libnvsdm has no nvidia in its name"
