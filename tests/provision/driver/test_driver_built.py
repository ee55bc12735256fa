"""The real driver 535 of Debian: chosen, fetched, built by DKMS, held and read back. No GPU.

All is real but the kernel's name: the container's is told to be the one that Debian has headers
for, so that DKMS builds for it and doctor looks for the module there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from doctor.provision.driver.ask import read_survey
from doctor.provision.survey import read_facts
from doctor.provision.target import DOCKER, Target
from tests.provision.driver.driven import Driven
from tests.provision.driver.made import FAMILY
from tests.provision.machine import fresh_machine

pytestmark = [pytest.mark.heavy, pytest.mark.docker]

# A build takes six minutes of two cores; others may want them too.
BUILD_S = 5400
PROOF_FAILED = 4
COMPONENTS = "main contrib non-free non-free-firmware"
UNAME = """\
#!/bin/sh
[ "$*" = -r ] && exec cat /proc/sys/kernel/osrelease
exec /usr/bin/uname.real "$@"
"""


@pytest.fixture
def debian(tmp_path: Path) -> Iterator[Driven]:
    """A Debian with all components of its archive, whose kernel is Debian's by name."""
    with fresh_machine(tmp_path, "--cap-add", "SYS_ADMIN") as found:
        home = tmp_path / "home"
        home.mkdir()
        run = found.run
        archive = run("cat", "/etc/apt/sources.list").split()[1].rstrip("/")
        lines = (f"deb {archive} bookworm {COMPONENTS}",
                 f"deb {archive}-security bookworm-security {COMPONENTS}")  # fmt: skip
        run("tee", "/etc/apt/sources.list", text="\n".join(lines) + "\n")
        run("apt-get", "-q", "update")
        driven = Driven(found, home, BUILD_S)
        _pass_for(driven)
        yield driven


def _pass_for(debian: Driven) -> None:
    run = debian.machine.run
    headers = re.search(r"linux-headers-(6\S+)", run("apt-cache", "depends", "linux-headers-amd64"))
    assert headers
    run("tee", "/run/osrelease", text=f"{headers[1]}\n")
    run("mount", "--bind", "/run/osrelease", "/proc/sys/kernel/osrelease")
    run("dpkg-divert", "--rename", "--divert", "/usr/bin/uname.real", "/usr/bin/uname")
    run("tee", "/usr/bin/uname", text=UNAME)
    run("chmod", "755", "/usr/bin/uname")


@pytest.mark.parametrize("modules", ["proprietary", "open"])
def test_the_module_is_built_and_read_back(debian: Driven, modules: str) -> None:
    answer = debian.apply(debian.profile(535, modules))
    if answer.status == PROOF_FAILED and "DKMS" in answer.out:
        _taken_back(debian, f"{answer.out}\n{answer.err}")
        pytest.skip(f"the archive's {modules} module does not build; taken back: {answer.out}")
    assert answer.status == 0, answer.err
    assert "only in part" in answer.out
    target = Target(DOCKER, debian.machine.name)
    facts, there = read_facts(target).nvidia, read_survey(target, FAMILY, "").driver

    path, version = next(iter(there.modules.items()))
    assert version.startswith("535.")
    assert str(facts.module_on_disk.value) == str(facts.userspace.value) == version
    assert facts.module_flavour.value == modules
    assert facts.module_signed.value is True
    assert there.signers[path] == "DKMS module signing key"
    print(f"\n{modules} {version} {path}: built and proven in {answer.seconds:.0f} s")

    assert {"libcuda1", "nvidia-smi"} <= debian.holds
    assert debian.audit == ""
    drift = debian.drift()
    assert drift.status == 0, drift.out
    assert "nothing to do" in debian.apply(debian.profile(535, modules)).out


def _taken_back(debian: Driven, said: str) -> None:
    """A module that cannot be built leaves nothing of its driver behind."""
    assert not debian.versions, said
    assert not debian.holds, said
    assert debian.audit == "", said
