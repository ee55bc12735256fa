"""Recorded hosts: what a person can write by hand, and what it answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from doctor.errors import UsageError
from doctor.facts import Missing
from doctor.probes.recorded import RecordedHost
from tests.probes.written import write_host


def test_files_links_and_folders(tmp_path: Path) -> None:
    host = write_host(
        tmp_path,
        {"/etc/os-release": "ID=debian\n"},
        links={"/lib": "usr/lib", "/usr/lib/libcuda.so.1": "libcuda.so.580.95.05"},
        paths={"/usr/lib/libcuda.so.580.95.05": {"size": 42}, "/root/x": "not-permitted"},
    )
    assert host.read_text("/etc/os-release").value == "ID=debian\n"
    assert host.read_text("/etc/os-release", 2).value == "ID"
    assert host.real_path("/lib/libcuda.so.1").value == "/usr/lib/libcuda.so.580.95.05"
    assert host.list_dir("/lib").value == ("libcuda.so.1", "libcuda.so.580.95.05")
    assert host.list_dir("/").value == ("etc", "lib", "usr")
    stat = host.stat("/lib/libcuda.so.1").value
    assert stat is not None
    assert stat.size == 42
    assert host.read_text("/root/x").missing is Missing.NOT_PERMITTED
    assert host.read_text("/lib/libcuda.so.1").missing is Missing.NOT_READABLE
    assert host.read_text("/nothing").is_absent
    assert host.local_path("/nothing") is None
    assert host.local_path("/etc/os-release") == f"{tmp_path}/files/etc/os-release"


def test_listed_folders_and_things_without_text(tmp_path: Path) -> None:
    host = write_host(tmp_path, paths={"/dev/nvidia0": {}, "/x/site-packages": ["a", "b"]})
    assert host.stat("/dev/nvidia0").is_known
    assert host.list_dir("/dev").value == ("nvidia0",)
    assert host.list_dir("/x/site-packages").value == ("a", "b")
    assert host.list_dir("/x").value == ("site-packages",)


def test_commands_sockets_disks_nvml_and_environment(tmp_path: Path) -> None:
    host = write_host(
        tmp_path,
        commands=[
            {"argv": ["uname", "-m"], "stdout": ["x86_64"]},
            {"argv": ["nvidia-smi"], "missing": "timed-out"},
        ],
        sockets={"/run/s": {"/info": {"a": 1}, "/x": {"missing": "not-permitted"}}},
        disks={"/": {"total_mib": 10, "free_mib": 5}},
        nvml={"missing": "timed-out"},
        env={"CUDA_HOME": "/usr/local/cuda", "SECRET": "x"},
    )
    answer = host.run(("uname", "-m")).value
    assert answer is not None
    assert (answer.returncode, answer.stdout) == (0, "x86_64\n")
    assert host.run(("nvidia-smi",)).missing is Missing.TIMED_OUT
    assert host.run(("other",)).is_absent
    assert host.get("/run/s", "/info").value == '{"a": 1}'
    assert host.get("/run/s", "/x").missing is Missing.NOT_PERMITTED
    usage = host.disk("/").value
    assert usage is not None
    assert usage.free_mib == 5
    assert host.nvml(1.0).missing is Missing.TIMED_OUT
    assert host.environ() == {"CUDA_HOME": "/usr/local/cuda"}


def test_what_was_not_written_down_can_be_unknown(tmp_path: Path) -> None:
    host = write_host(tmp_path, host={"unlisted": "not-stated"})
    unknown = Missing.NOT_STATED
    answers = (host.read_text("/a"), host.run(("a",)), host.nvml(1), host.disk("/"))
    assert {answer.missing for answer in answers} == {unknown}
    assert host.get("/s", "/").missing is unknown
    assert host.list_dir("/a").missing is unknown
    assert host.real_path("/a").missing is unknown


@pytest.mark.parametrize(("name", "text"), [("paths", "[]"), ("commands", "{}"), ("env", "{")])
def test_a_bad_recording_is_one_clear_error(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / f"{name}.json").write_text(text)
    with pytest.raises(UsageError, match=f"{name}.json"):
        RecordedHost(str(tmp_path))
