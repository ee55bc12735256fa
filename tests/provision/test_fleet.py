"""A fleet of twelve real containers: one row a machine, batches that stop, diffs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from doctor.provision.runs import Runs
from tests.provision.machine import IMAGE, Machine, call, fresh_machine
from tests.provision.sandbox import Sandbox

pytestmark = [pytest.mark.slow, pytest.mark.docker]

# In the order of the inventory. "shell" is reached by ssh, "gone" is not there at all.
HOSTS = ("good1", "bad", "shell", "good2", "good3", "good4", "good5", "good6",
         "bare", "minimal", "hangs", "gone")  # fmt: skip
BREAKING = {
    # An environment cannot be made: the plan is fine and the step fails.
    "bad": ("rm", "-rf", "/usr/lib/python3.11/ensurepip", "/usr/lib/python3.11/venv"),
    "bare": ("sh", "-c", "rm -f /usr/bin/python3*"),
    "minimal": ("dpkg", "--purge", "--force-all", "libpython3.11-stdlib"),
    "hangs": ("sh", "-c", "rm /usr/bin/python3; printf '#!/bin/sh\\nexec sleep 600\\n' "
              "> /usr/bin/python3; chmod 755 /usr/bin/python3"),
}  # fmt: skip
GOOD = tuple(name for name in HOSTS if name.startswith("good"))


@dataclass(frozen=True)
class Fleet:
    """Containers by the names of the inventory, and the inventory's file."""

    containers: dict[str, str]
    inventory: Path

    def run(self, name: str, *argv: str) -> str:
        return call("docker", "exec", self.containers[name], *argv)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("fleet")
    with fresh_machine(folder) as reached:
        found = Fleet(_started(reached), _inventory(folder, reached))
        try:
            for container in (*found.containers.values(), reached.name):
                _give_library(container)
            for name, command in BREAKING.items():
                found.run(name, *command)
            yield found
        finally:
            call("docker", "rm", "-f", *found.containers.values())


def _started(reached: Machine) -> dict[str, str]:
    names = [name for name in HOSTS if name not in ("shell", "gone")]
    containers = {name: f"doctor-test-fleet-{reached.port}-{name}" for name in names}
    for container in containers.values():
        call("docker", "run", "-d", "--init", "--name", container, "--network", "none",
             IMAGE, "sleep", "3600")  # fmt: skip
    return containers


def _give_library(container: str) -> None:
    """What the engine needs beside its wheel; these machines reach no repository."""
    library = next(Path("/usr/lib").glob("*/libgomp.so.1")).resolve()
    call("docker", "cp", str(library), f"{container}:{library.parent}/libgomp.so.1")
    call("docker", "exec", container, "ldconfig")


def _inventory(folder: Path, reached: Machine) -> Path:
    lines = ["[gpu]"]
    for name in HOSTS:
        container = f"doctor-test-fleet-{reached.port}-{name}"
        where = f"ansible_connection=docker ansible_host={container}"
        if name == "shell":
            where = (
                f"ansible_host=127.0.0.1 ansible_port={reached.port} ansible_user=root "
                f'ansible_ssh_common_args="-F {reached.ssh_config}"'
            )
        lines.append(f"{name} {where}")
    path = folder / "hosts.ini"
    path.write_text("\n".join([*lines, "[first]", "good1", ""]))
    return path


def _rows(text: str) -> dict[str, dict[str, Any]]:
    return {row["host"]: row for row in json.loads(text)["hosts"]}


def test_check_gives_every_machine_its_row(fleet: Fleet, box: Sandbox, tmp_path: Path) -> None:
    kept = tmp_path / "before"
    answer = box.run_on(
        ("--inventory", str(fleet.inventory), "--host-limit", "60", "--forks", "6"),
        *("check", "--keep", kept, "--format", "json"),
    )
    assert answer.status == 3, answer.err
    found = answer.json
    assert {host["name"] for host in found["hosts"]} == {*GOOD, "bad", "shell"}
    lost = {row["name"]: row["reason"] for row in found["unreadable"]}
    assert lost.keys() == {"bare", "minimal", "hangs", "gone"}
    assert "no python3" in lost["bare"]
    assert "lacks the module" in lost["minimal"]
    assert "no answer within" in lost["hangs"]
    assert "not reachable" in lost["gone"]
    assert {path.stem for path in kept.iterdir()} == {*GOOD, "bad", "shell"}
    assert kept.stat().st_mode & 0o077 == 0
    for name in ("good1", "bad", "minimal"):
        assert "doctor-" not in fleet.run(name, "ls", "/tmp"), "nothing stays there"

    fleet.run("good2", "sh", "-c", "echo VERSION_ID=99 >> /etc/os-release")
    later = tmp_path / "after"
    limit = ("--inventory", str(fleet.inventory), "--limit", "good*,!good3")
    assert box.run_on(limit, "check", "--keep", later).status == 0
    diff = box.run_on((), "fleet", "diff", kept, later, "--format", "json")
    assert diff.status == 1, diff.err
    assert set(diff.json["removed"]) == {"good3", "bad", "shell"}
    (change,) = diff.json["changes"]
    assert (change["what"], change["hosts"]) == ("system", ["good2"])


def test_a_failing_batch_ends_the_apply(fleet: Fleet, box: Sandbox, tmp_path: Path) -> None:
    profile = box.profile()
    hooks = _hooks(tmp_path)
    on = ("--inventory", str(fleet.inventory), "--host-limit", "900", "--limit", "!hangs")
    answer = box.run(
        *("apply", profile, *on, "--serial", "1,1,100%", "--yes", "--format", "json"),
        *("--lock", box.wheels / "stack.lock", "--offline", box.wheels),
        *hooks,
    )
    assert answer.status == 4, answer.err
    rows = _rows(answer.out)
    states = {name: row["state"] for name, row in rows.items()}
    assert (states["good1"], states["bad"]) == ("done", "failed"), answer.out
    assert {states[name] for name in GOOD[1:]} == {"not begun"}
    assert {name: states[name] for name in ("bare", "minimal", "gone")} == {
        "bare": "failed", "minimal": "failed", "gone": "unreachable"
    }  # fmt: skip
    assert json.loads(answer.out)["stopped"].endswith("on bad")
    assert "it stays drained" in rows["bad"]["text"]
    log = (tmp_path / "hooks.log").read_text().split()
    assert log.count("drain") == 2
    assert [word for word in log if word == "undrain"] == ["undrain"] * log.count("undrain")
    assert "undrain-bad" not in log

    two = ("--inventory", str(fleet.inventory), "--limit", "good1,good4")
    drift = box.run("drift", profile, *two, "--format", "json")
    found = {name: row["state"] for name, row in _rows(drift.out).items()}
    assert found == {"good1": "as wanted", "good4": "failed"}, drift.out


def test_a_failing_canary_is_all_that_was_touched(
    fleet: Fleet, box: Sandbox, tmp_path: Path
) -> None:
    on = ("--inventory", str(fleet.inventory), "--limit", "bad,good5,good6")
    answer = box.run(
        *("apply", box.profile(), *on, "--yes", "--format", "json"),
        *("--lock", box.wheels / "stack.lock", "--offline", box.wheels),
    )
    assert answer.status == 4, answer.err
    states = {name: row["state"] for name, row in _rows(answer.out).items()}
    assert states == {"bad": "failed", "good5": "not begun", "good6": "not begun"}
    assert json.loads(answer.out)["stopped"] == "the canary did not end well on bad"
    assert "demo" not in fleet.run("good5", "sh", "-c", "ls ~/.local/share/doctor || true")


def test_the_usual_batches_with_the_canary_by_ssh(
    fleet: Fleet, box: Sandbox, tmp_path: Path
) -> None:
    profile, kept = box.profile(), tmp_path / "kept"
    hosts = ("shell", "good2", "good3", "good4")
    on = ("--inventory", str(fleet.inventory), "--limit", ",".join((*hosts, "gone")))
    two = ("--inventory", str(fleet.inventory), "--limit", "shell,good2")
    files = ("--lock", box.wheels / "stack.lock", "--offline", box.wheels)
    assert box.run_on(two, "check", "--keep", tmp_path / "before").status == 0
    answer = box.run(
        *("apply", profile, *on, "--yes", "--format", "json", "--keep", kept, *files),
        *_hooks(tmp_path),
    )
    rows = _rows(answer.out)
    assert {name: (row["state"], row["batch"]) for name, row in rows.items()} == {
        "shell": ("done", 1), "good2": ("done", 2), "good3": ("done", 3), "good4": ("done", 3),
        "gone": ("unreachable", 0),
    }, answer.out  # fmt: skip
    assert rows["shell"]["target"].startswith("ssh://")
    assert answer.status == 3, "one machine was not reached"
    assert json.loads((kept / "apply.json").read_text()) == json.loads(answer.out)
    _expect_hooks_in_order(tmp_path / "hooks.log", hosts)

    drift = box.run("drift", profile, *two, "--format", "json")
    assert {row["state"] for row in _rows(drift.out).values()} == {"as wanted"}, drift.out
    assert box.run_on(two, "check", "--keep", tmp_path / "after").status == 0
    diff = box.run_on(
        (), "fleet", "diff", tmp_path / "before", tmp_path / "after", "--format", "json"
    )
    engines = [change for change in diff.json["changes"] if "xllamacpp" in str(change)]
    assert {host for change in engines for host in change["hosts"]} == {"shell", "good2"}, diff.out


def _expect_hooks_in_order(log: Path, hosts: tuple[str, ...]) -> None:
    """Each machine is drained before it is changed, and put back after; batches wait."""
    lines = log.read_text().splitlines()
    assert lines[:4] == [
        f"drain drain-{hosts[0]} applied=False", f"undrain undrain-{hosts[0]} applied=True",
        f"drain drain-{hosts[1]} applied=False", f"undrain undrain-{hosts[1]} applied=True",
    ]  # fmt: skip
    third = hosts[2:]
    assert lines[4:6] == [f"drain drain-{name} applied=False" for name in third]
    assert set(lines[6:]) == {f"undrain undrain-{name} applied=True" for name in third}


def test_a_machine_that_another_doctor_works_on_is_left_alone(fleet: Fleet, box: Sandbox) -> None:
    service = f"docker://{fleet.containers['good5']}/demo"
    on = ("--inventory", str(fleet.inventory), "--limit", "good5")
    with Runs(box.home / ".local/state/doctor").alone(service):
        answer = box.run(
            *("apply", box.profile(), *on, "--yes", "--format", "json"),
            *("--lock", box.wheels / "stack.lock", "--offline", box.wheels),
        )
    (row,) = _rows(answer.out).values()
    assert (answer.status, row["state"]) == (4, "failed")
    assert "another doctor works on" in row["text"]
    assert "demo" not in fleet.run("good5", "sh", "-c", "ls ~/.local/share/doctor || true")


def _hooks(folder: Path) -> tuple[str, ...]:
    """Task files that write down, on this machine, when they are run and what was there then."""
    words: list[str] = []
    for which in ("drain", "undrain"):
        path = folder / f"{which}.yml"
        path.write_text(
            "- name: See whether it was changed\n  ansible.builtin.stat:\n"
            "    path: ~/.local/share/doctor/demo/applied.json\n  register: seen\n"
            "- name: Note it\n  delegate_to: localhost\n  connection: local\n"
            "  ansible.builtin.lineinfile:\n"
            f"    path: {folder}/hooks.log\n    create: true\n    mode: '0600'\n"
            f"    line: '{which} {which}-{{{{ fleet_host }}}} applied={{{{ seen.stat.exists }}}}'\n"
        )
        words += [f"--{which}", str(path)]
    return tuple(words)
