"""Fleets without machines: inventories, batches, deadlines, rows."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.cli.main import run
from doctor.errors import ExitCode, UsageError
from doctor.fleet_diff import compare_fleets
from doctor.provision.apply import Outcome
from doctor.provision.fleet import CHANGES, DONE, FleetRun, Orders, Row, row_of
from doctor.provision.fleet_apply import INTERRUPTED, Hooks, apply_all, batches, sizes
from doctor.provision.fleet_inventory import FleetHost, read_inventory
from doctor.provision.fleet_pool import Ended, Job, Pool
from doctor.provision.journal import APPLIED, GIVEN_UP, ROLLED_BACK
from doctor.provision.target import DOCKER, LOCAL, SSH, Target
from doctor.report import Style
from doctor.report.fleet_run import render_json, render_text
from doctor.report.run import render_json as run_json

LISTED = {
    "_meta": {
        "hostvars": {
            "here": {"ansible_connection": "local"},
            "box": {"ansible_connection": "community.docker.docker", "ansible_host": "c1"},
            "far": {"ansible_host": "10.0.0.7", "ansible_user": "root", "ansible_port": 2222,
                    "ansible_ssh_private_key_file": "/keys/one"},
            "odd": {"ansible_host": "-oProxyCommand=touch pwned"},
            "jinja": {"ansible_host": "{{ lookup('pipe', 'id') }}"},
            "winrm": {"ansible_connection": "winrm"},
        }
    },
    "all": {"children": ["ungrouped", "gpu"]},
    "gpu": {"hosts": ["box", "far", "odd"], "children": ["old"]},
    "old": {"hosts": ["jinja"]},
    "ungrouped": {"hosts": ["here", "winrm", "bare"]},
}  # fmt: skip


@pytest.fixture
def listed(tmp_path: Path) -> str:
    path = tmp_path / "hosts.json"
    path.write_text(json.dumps(LISTED))
    return str(path)


def test_how_each_host_is_reached(listed: str, tmp_path: Path) -> None:
    hosts = {host.name: host for host in read_inventory(listed, folder=tmp_path)}
    assert hosts["here"].target.kind == LOCAL
    assert hosts["box"].target == Target(DOCKER, "c1")
    far = hosts["far"].target
    assert (far.kind, far.name) == (SSH, "ssh://root@10.0.0.7:2222")
    assert 'IdentityFile "/keys/one"' in Path(far.ssh_config).read_text()
    assert hosts["bare"].target == Target(SSH, "bare")
    assert {name for name, host in hosts.items() if host.fault} == {"odd", "jinja", "winrm"}


@pytest.mark.parametrize(
    ("limit", "names"),
    [
        ("gpu", {"box", "far", "odd", "jinja"}),
        ("old,here", {"jinja", "here"}),
        ("gpu:!old:!o*", {"box", "far"}),
        ("b*", {"box", "bare"}),
    ],
)
def test_patterns_choose_hosts_and_groups(listed: str, limit: str, names: set[str]) -> None:
    assert {host.name for host in read_inventory(listed, limit)} == names


@pytest.mark.parametrize("text", ["{}", "[]", '{"_meta": {}}', '{"_meta": {"hostvars": []}}'])
def test_what_is_no_inventory_is_one_clear_error(text: str, tmp_path: Path) -> None:
    path = tmp_path / "hosts.json"
    path.write_text(text.replace("[]", "{") if text == "[]" else text)
    with pytest.raises(UsageError):
        read_inventory(str(path))
    with pytest.raises(UsageError):
        read_inventory(str(tmp_path / "none"))


@pytest.mark.real
def test_ansible_reads_ini_and_yaml_and_runs_no_program(tmp_path: Path) -> None:
    pytest.importorskip("ansible")
    ini, program = tmp_path / "hosts.ini", tmp_path / "hosts"
    ini.write_text("[gpu]\nn[1:3] ansible_user=root\n[gpu:vars]\nansible_port=2200\n")
    found = read_inventory(str(ini), "gpu")
    assert [host.target.name for host in found] == [f"ssh://root@n{i}:2200" for i in (1, 2, 3)]
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/pwned\necho '{{\"_meta\": {{}}}}'\n")
    program.chmod(0o755)
    with pytest.raises(UsageError):
        read_inventory(str(program))
    assert not (tmp_path / "pwned").exists()


@pytest.mark.real
@pytest.mark.parametrize("mode", [0o700, 0o500])
def test_an_inventory_is_read_and_the_home_is_left_alone(
    mode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ansible")
    ini, home, scratch = tmp_path / "hosts.ini", tmp_path / "home", tmp_path / "scratch"
    scratch.mkdir()
    home.mkdir()
    home.chmod(mode)
    ini.write_text("[gpu]\none ansible_port=2200\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    assert len(read_inventory(str(ini))) == 1
    assert [*home.iterdir(), *scratch.iterdir()] == []


@pytest.mark.real
@pytest.mark.parametrize("form", ["json", "text"])
@pytest.mark.parametrize("line", ["check", "plan p", "drift p", "apply p --yes"])
def test_a_fleet_that_nobody_reaches_is_rows_and_3(
    line: str, form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hosts = tmp_path / "hosts.json"
    variables = {"a": {"ansible_connection": "winrm"}, "b": {"ansible_host": "{{ x }}"}}
    hosts.write_text(json.dumps({"_meta": {"hostvars": variables}, "all": {"hosts": ["a", "b"]}}))
    words = line.replace(" p", " llamacpp-cpu").split()
    options = ["--inventory", str(hosts), "--keep", str(tmp_path / "kept"), "--format", form]
    assert run([*words, *options]) == 3
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    if form == "json":
        found = json.loads(out)
        assert len(found.get("unreadable") or found["hosts"]) == 2
    else:
        assert "winrm" in out


@given(
    st.lists(st.from_regex(r"[1-9][0-9]{0,2}%?", fullmatch=True), min_size=1, max_size=5),
    st.integers(1, 500),
)
def test_batches_are_all_hosts_once_and_in_order(parts: list[str], total: int) -> None:
    hosts = [FleetHost(f"n{number}") for number in range(total)]
    cut = list(batches(hosts, ",".join(parts)))
    assert [host for batch in cut for host in batch] == hosts
    assert all(cut)


@pytest.mark.parametrize("limit", ["box,typo", "gpu:!typo", "typo"])
def test_a_mistyped_pattern_among_good_ones_is_told(listed: str, limit: str) -> None:
    with pytest.raises(UsageError, match=r"fits '!?typo'"):
        read_inventory(listed, limit)


def test_an_unfinished_machine_says_how_it_is_taken_up() -> None:
    orders = Orders("apply", "my profile.yaml", ("--user", "--lock", "x", "--yes"))
    host = FleetHost("far", Target(SSH, "10.0.0.7", "root", 2222, "/tmp/ssh config"))
    wanted = (
        "doctor apply 'my profile.yaml' --user --on ssh://root@10.0.0.7:2222 "
        "--ssh-config '/tmp/ssh config' --resume"
    )
    said = json.dumps({"end": GIVEN_UP, "failure": "x"}).encode()
    assert row_of(host, Ended("far", 4, said), orders).again == wanted
    refusal = b"doctor: run 1 of far is unfinished: it was interrupted at verify"
    assert row_of(host, Ended("far", 4, b"", refusal), orders).again == wanted
    assert row_of(host, Ended("far", None), orders).again == wanted
    back = json.dumps({"end": ROLLED_BACK, "failure": "x"}).encode()
    assert row_of(host, Ended("far", 4, back), orders).again == ""
    row = row_of(host, Ended("far", None), orders)
    text = render_text(FleetRun("apply", "p", (row,), "batch 1 did not end well"), Style(width=200))
    assert f"unfinished on far: {wanted}" in text
    assert "the same command again" in text


def test_ctrl_c_leaves_a_row_for_every_machine(tmp_path: Path) -> None:
    class Cut(Orders):
        def pool(self) -> Pool:
            raise KeyboardInterrupt

    hosts = [FleetHost(name, Target(DOCKER, name)) for name in ("a", "b", "c")]
    orders = Cut("apply", "p")
    planned = FleetRun("plan", "p", tuple(Row(h.name, h.target.name, CHANGES) for h in hosts))
    run = apply_all(hosts, planned, orders, Hooks(tmp_path), "1,100%")
    assert run.stopped == INTERRUPTED
    assert [(row.host, row.state) for row in run.rows] == [
        ("a", "failed"), ("b", "not begun"), ("c", "not begun"),
    ]  # fmt: skip
    assert run.rows[0].again == "doctor apply p --on docker://a --resume"


def test_the_usual_batches() -> None:
    assert sizes("1,25%,100%", 12) == (1, 3, 8)
    assert sizes("1,25%,100%", 1) == (1,)
    assert sizes("2", 5) == (2, 2, 1)
    for text in ("", "0", "x", "1,,2", "-1", "100000000000"):
        with pytest.raises(UsageError):
            sizes(text, 5)


@pytest.mark.real
def test_a_job_that_hangs_is_ended_with_its_children_and_the_others_go_on() -> None:
    mark = f"doctor-pool-{os.getpid()}"
    hang = f"sleep 301 & exec -a {mark} sleep 300"
    jobs = [
        Job("hangs", ("bash", "-c", hang)),
        Job("good", ("cat",), b"x" * 300_000),
        Job("fails", ("sh", "-c", "echo no >&2; exit 3")),
        Job("none", ("/no/program",)),
    ]
    ended = {found.name: found for found in Pool(4, 1.5).run(jobs)}
    assert ended["hangs"].code is None
    assert (ended["good"].code, len(ended["good"].out)) == (0, 300_000)
    assert (ended["fails"].code, ended["fails"].said) == (3, "no")
    assert ended["none"].missing == "/no/program"
    time.sleep(0.2)
    assert mark not in "".join(
        path.read_text() for path in Path("/proc").glob("[0-9]*/cmdline") if _readable(path)
    )


@pytest.mark.real
def test_a_job_that_does_not_stop_talking_is_ended() -> None:
    jobs = [Job("talks", ("cat", "/dev/zero")), Job("good", ("echo", "x"))]
    ended = {found.name: found for found in Pool(2, 60, limit_bytes=1 << 20).run(jobs)}
    assert ended["talks"].code == -signal.SIGXFSZ
    assert len(ended["talks"].out) <= 1 << 20
    assert ended["good"].out == b"x\n"


@pytest.mark.real
def test_ctrl_c_ends_all_jobs() -> None:
    code = (
        "from doctor.provision.fleet_pool import Job, Pool\n"
        "jobs = [Job(str(n), ('sleep', '311')) for n in range(3)]\n"
        "list(Pool(3, 300).run(jobs))\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    time.sleep(2)
    child.send_signal(signal.SIGINT)
    assert child.wait(30) != 0
    lines = [p.read_text() for p in Path("/proc").glob("[0-9]*/cmdline") if _readable(p)]
    assert "sleep\0311\0" not in lines


def _readable(path: Path) -> bool:
    try:
        path.read_text()
    except OSError:
        return False
    return True


def _run_said(end: str) -> bytes:
    """What `doctor apply --format json` prints of a run."""
    return run_json(Outcome(end, "r1", failure="no venv", steps=4, proof="alpha")).encode()


def test_rows_say_what_a_doctor_said() -> None:
    host = FleetHost("a", Target(SSH, "a"))
    orders = Orders("apply", "p")
    plan = Orders("plan", "p")
    said = {
        row_of(host, Ended("a", 0, _run_said(APPLIED)), orders).state: DONE,
        row_of(host, Ended("a", 0, b'{"steps": [{"title": "x"}]}'), plan).state: CHANGES,
        row_of(host, Ended("a", 4, b"", b"doctor: ssh://a: python3 ended with 255: refused"),
               plan).state: "unreachable",
        row_of(host, Ended("a", 4, _run_said(ROLLED_BACK)), orders).state: "failed",
        row_of(host, Ended("a", 5, _run_said(GIVEN_UP)), orders).state: "needs a person",
        row_of(host, Ended("a", None), orders).state: "timed out",
        row_of(host, Ended("a", 70, b"[]", b"Traceback"), orders).state: "failed",
    }  # fmt: skip
    assert all(found == wanted for found, wanted in said.items())


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (b"planning ...\ndoctor: it needs root\n  use --user\n", "it needs root; use --user"),
        (b"doctor: it needs root", "it needs root"),
        (b"doctor: one\n  first\ndoctor: two\n", "two"),
        (b"planning ...\nodd", "odd"),
        (b"", "it said nothing"),
    ],
)
def test_a_row_says_what_next(said: bytes, told: str) -> None:
    host = FleetHost("a", Target(LOCAL, "a"))
    assert row_of(host, Ended("a", 4, b"", said), Orders("apply", "p")).text == told


def test_hostile_rows_stay_rows() -> None:
    text = "\x1b[31m\n::error::x \u202e"
    run = FleetRun("apply", text, (Row(text, text, DONE, text, (text,), text),), text)
    shown = render_text(run, Style(verbose=True))
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "\n::error" not in shown
    assert render_json(run).isascii()
    assert json.loads(render_json(run))["hosts"][0]["host"] == text
    assert run.code is ExitCode.OK


def test_two_folders_of_snapshots_side_by_side(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    for folder, drivers in ((before, ("550.54", "550.54", "1")), (after, ("580.95", "580.95", ""))):
        folder.mkdir()
        for name, driver in zip(("n1", "n2", "n3"), drivers, strict=True):
            if driver:
                (folder / f"{name}.yaml").write_text(f"driver: '{driver}'\ngpus: [H100]\n")
    (after / "n4.yaml").write_text("driver: '580.95'\n")
    diff = compare_fleets(str(before), str(after))
    assert (diff.added, diff.removed, diff.same) == (("n4",), ("n3",), 0)
    (change,) = diff.changes
    assert change.what == "driver"
    assert change.hosts == ("n1", "n2")
    assert compare_fleets(str(before), str(before)).is_empty
