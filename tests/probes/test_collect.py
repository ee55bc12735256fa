"""Collecting everything: this machine, an empty one, and one whose probes fail."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from doctor.facts import Facts, HostFacts, Missing, to_wire
from doctor.probes.collect import PROBES, Options, Probe, collect
from doctor.probes.host import Host
from doctor.probes.local import LocalHost
from doctor.probes.recorded import RecordedHost
from doctor.probes.zipapp import build
from tests.probes.written import write_host


@pytest.mark.real
def test_this_machine() -> None:
    facts = collect(LocalHost(), Options())
    assert facts.notes == ()
    assert facts.host.os.is_known
    assert facts.host.arch.is_known
    assert facts.scope("host") is not None
    assert json.loads(json.dumps(to_wire(facts)))["schema"] == "doctor/facts/v1"


def test_a_host_of_which_nothing_is_known(tmp_path: Path) -> None:
    facts = collect(write_host(tmp_path, host={"unlisted": "not-stated"}), Options())
    assert facts.notes == ()
    assert not facts.devices.is_known
    assert not facts.devices.is_absent
    assert facts.host.packages.missing is Missing.NOT_STATED


def test_a_host_without_anything(tmp_path: Path) -> None:
    facts = collect(RecordedHost(str(tmp_path)), Options())
    assert facts.notes == ()
    assert [scope.id for scope in facts.scopes] == ["host"]


HOSTS = sorted((Path(__file__).parent.parent / "hosts").glob("*/files"))
HOSTILE = {
    "empty": "",
    "binary": "\0\x01\x7f\ufffd" * 50,
    "escape": "\x1b[31m[/foo]\x1b]0;x\x07\n" * 20,
    "json": "[" * 5000,
    "colons": ":=:\n\n= :\n" * 100,
    "numbers": "9" * 5000 + "\n" + "-1 0x 1e999 ²\n" * 20,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_no_text_stops_a_probe(tmp_path: Path, text: str) -> None:
    for files in HOSTS[::4]:
        folder = tmp_path / files.parent.name
        shutil.copytree(files.parent, folder)
        for path in (folder / "files").rglob("*"):
            if path.is_file():
                path.write_text(text)
        assert collect(RecordedHost(str(folder)), Options()).notes == ()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
@pytest.mark.real
def test_a_user_who_may_do_little(tmp_path: Path) -> None:
    build(str(tmp_path / "doctor.pyz"))
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.geteuid() and folder.name != "tmp":
            folder.chmod(folder.stat().st_mode | 0o055)
    secret = tmp_path / "env"
    venv.create(secret, with_pip=False)
    secret.chmod(0o700)
    user = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    python = [shutil.which("python3", path="/usr/bin:/bin") or sys.executable, "-I", "-S"]
    command = [*user, *python, str(tmp_path / "doctor.pyz"), "--python", str(secret)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert "notes" not in facts
    assert facts["host"]["os"]["value"]["id"]


def _fails(host: Host, options: Options, facts: Facts) -> Facts:
    raise KeyError("oops")


def test_one_failing_probe_leaves_the_others(tmp_path: Path) -> None:
    broken = Probe("broken", _fails, ("host.cpu.flags", "devices"))
    host = write_host(tmp_path, {"/etc/os-release": "ID=debian\n"})
    facts = collect(host, Options(), (broken, *PROBES[:1]))
    assert facts.notes == ("probe broken failed: KeyError('oops')",)
    assert facts.host.cpu.flags.missing is Missing.NOT_READABLE
    assert facts.devices.missing is Missing.NOT_READABLE
    assert facts.host.os.is_known


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.name)
def test_every_probe_names_facts_that_exist(probe: Probe) -> None:
    for path in probe.fills:
        record: object = Facts()
        for name in path.split("."):
            record = getattr(record, name)
        assert type(record).__name__ == "Reading"


def test_the_host_probes_fill_what_they_say(tmp_path: Path) -> None:
    filled = {path.split(".")[1] for p in PROBES for path in p.fills if path.startswith("host.")}
    assert filled <= set(vars(HostFacts()))
