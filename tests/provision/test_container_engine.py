"""The role container_engine on a fresh Debian: check, converge, again; and that it replaces none.

The daemon itself cannot run in such a container, so it is not started here.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from doctor.matrix import load_matrix
from doctor.provision.playbook import Playbook, RoleResult
from doctor.provision.target import parse_target
from tests.provision.machine import Machine, fresh_machine

pytestmark = [pytest.mark.slow, pytest.mark.docker]

ROLE = "container_engine"


@pytest.fixture(scope="module")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    pytest.importorskip("ansible_runner")
    folder = tmp_path_factory.mktemp("machine")
    with fresh_machine(folder) as found:
        yield found


def variables(**more: Any) -> dict[str, Any]:
    row = load_matrix().containers.packages_for(("debian",), "12")
    assert row is not None
    return {
        "container_engine_packages": list(row.packages),
        "container_engine_client": [row.path],
        "container_engine_service": row.service,
        "container_engine_start": False,
        **more,
    }


def play(debian: Machine, folder: Path, check: bool = False, **more: Any) -> RoleResult:
    target = parse_target(debian.by_docker[1])
    result = Playbook(target, folder, check=check).play(ROLE, ROLE, variables(**more))
    assert not result.failure, result.failure
    return result


def test_checked_installed_and_never_replaced(debian: Machine, tmp_path: Path) -> None:
    has_docker = ("test", "-x", "/usr/bin/docker")
    assert play(debian, tmp_path / "check", check=True).changed == 1
    assert debian.status(*has_docker)[0] != 0

    # An engine of another source: nothing is installed beside it.
    debian.run("ln", "-s", "/bin/true", "/usr/bin/podman")
    assert play(debian, tmp_path / "other").changed == 0
    assert debian.status(*has_docker)[0] != 0
    debian.run("rm", "/usr/bin/podman")

    assert play(debian, tmp_path / "converge").changed == 1
    assert debian.run("/usr/bin/docker", "--version").startswith("Docker version")
    assert play(debian, tmp_path / "again").changed == 0
