"""The roles of NPUs with made-up installers on a real machine. The vendor's own were never run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from doctor.provision.playbook import Playbook, RoleResult
from doctor.provision.target import parse_target
from tests.provision.machine import Machine, fresh_machine
from tests.provision.npu.made import VERSIONS, profile_of
from tests.provision.sandbox import Sandbox

pytestmark = [pytest.mark.slow, pytest.mark.docker]

LOG = "/var/log/ascend_seclog/ascend_install.log"
# Each notes how it was called. What they print is what the vendor's print.
RUN = '#!/bin/sh\n[ "$1" = --check ] && exit 0\necho "{kind} $*" >> /root/called\n'
GOOD_DRIVER = (
    f"mkdir -p {LOG.rpartition('/')[0]}\n"
    f"echo '[Driver] [INFO]Driver package installed successfully! Reboot needed for "
    f"installation/upgrade to take effect!' >> {LOG}\n"
)
GOOD_FIRMWARE = "echo 'Firmware package upgraded successfully! Reboot now'\nexit 2\n"
BAD_DRIVER = "echo '[ERROR]The list of missing tools: lspci,ifconfig,'\nexit 0\n"
TOOLKIT = (
    "mkdir -p /usr/local/Ascend/cann-9.0.0/$(uname -m)-linux\n"
    "ln -sfn cann-9.0.0 /usr/local/Ascend/cann\n"
    "printf 'package_name=Ascend-cann-toolkit\\nversion=9.0.0\\npath=x\\n' "
    "> /usr/local/Ascend/cann/$(uname -m)-linux/ascend_toolkit_install.info\n"
)


@pytest.fixture(scope="module")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    pytest.importorskip("ansible_runner")
    with fresh_machine(tmp_path_factory.mktemp("npu")) as found:
        yield found


def lay(debian: Machine, kind: str, body: str) -> dict[str, str]:
    """Lay a made-up installer there; its path, version and hash."""
    text = RUN.format(kind=kind) + body
    path = f"/srv/ascend/{kind}.run"
    debian.run("mkdir", "-p", "/srv/ascend")
    debian.run("tee", path, text=text)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return {"path": path, "version": VERSIONS[kind], "sha256": digest}


def play_driver(debian: Machine, folder: Path, first: bool, driver: str) -> RoleResult:
    one, other = lay(debian, "driver", driver), lay(debian, "firmware", GOOD_FIRMWARE)
    debian.run("sh", "-c", "rm -f /root/called")
    book = Playbook(parse_target(f"docker://{debian.name}"), folder)
    return book.play("driver", "ascend_driver", {
        "ascend_driver_first": first,
        "ascend_driver_installer": one["path"], "ascend_driver_sha256": one["sha256"],
        "ascend_driver_firmware_installer": other["path"],
        "ascend_driver_firmware_sha256": other["sha256"],
    })  # fmt: skip


def called(debian: Machine) -> list[str]:
    return debian.run("sh", "-c", "cat /root/called || true").splitlines()


def test_the_installers_words_count_and_not_their_exit_status(
    debian: Machine, tmp_path: Path
) -> None:
    found = play_driver(debian, tmp_path / "1", True, GOOD_DRIVER)
    assert found.failure == ""
    user = "--install-username=HwHiAiUser --install-usergroup=HwHiAiUser"
    assert called(debian) == [
        f"driver --full --install-for-all --quiet {user}", "firmware --full --quiet",
    ]  # fmt: skip
    assert "HwHiAiUser" in debian.run("id", "HwHiAiUser")

    upgraded = play_driver(debian, tmp_path / "2", False, GOOD_DRIVER)
    assert upgraded.failure == ""
    assert [line.split()[:2] for line in called(debian)] == [
        ["firmware", "--upgrade"], ["driver", "--upgrade"],
    ]  # fmt: skip

    bad = play_driver(debian, tmp_path / "3", True, BAD_DRIVER)
    assert "does not say that it is installed" in bad.failure
    assert "missing tools: lspci" in bad.failure
    assert [line.split()[0] for line in called(debian)] == ["driver"], "the firmware waits"


def test_cann_is_applied_noted_found_to_drift_and_not_taken_back(
    debian: Machine, tmp_path: Path
) -> None:
    debian.run("sh", "-c", "rm -f /root/called")
    parts = {kind: lay(debian, kind, TOOLKIT) for kind in ("toolkit", "ops", "nnal")}
    box = Sandbox(tmp_path, tmp_path)
    profile = tmp_path / "mine.yaml"
    profile.write_text(json.dumps(_wire(parts)))

    plan = box.run_on(debian.by_docker, "plan", profile, "--format", "json")
    assert plan.status == 0, plan.err
    assert any(note.startswith("unverified: install_cann") for note in plan.json["notes"])
    done = box.run_on(debian.by_docker, "apply", profile, "--yes", "--format", "json")
    assert done.status == 0, done.err + done.out
    assert "only in part" in done.json["proof"]
    assert [line.split()[0] for line in called(debian)] == ["toolkit", "ops", "nnal"]
    again = box.run_on(debian.by_docker, "apply", profile, "--yes")
    assert "nothing to do" in again.out

    assert box.run_on(debian.by_docker, "drift", "ascend-driver").status == 0
    debian.run("rm", "-r", "/usr/local/Ascend/cann-9.0.0", "/usr/local/Ascend/cann")
    drift = box.run_on(debian.by_docker, "drift", "ascend-driver", "--format", "json")
    assert drift.status == 1, drift.out
    assert [d["subject"] for d in drift.json["differences"]] == ["toolkit"]
    back = box.run_on(debian.by_docker, "rollback", "ascend-driver")
    assert back.status != 0
    assert "installers cannot be undone" in back.err


def _wire(parts: dict[str, dict[str, str]]) -> dict[str, Any]:
    import msgspec

    profile: dict[str, Any] = msgspec.to_builtins(profile_of(*parts, **parts))
    return profile
