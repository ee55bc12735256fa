"""Recording a host: what is written answers as the host did, and names nobody."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from doctor.cli.main import run
from doctor.errors import ExitCode, UsageError
from doctor.facts import UNSTATED, to_wire
from doctor.probes.collect import Options, collect
from doctor.probes.local import LocalHost
from doctor.probes.recorded import RecordedHost
from doctor.probes.recording import record
from doctor.probes.scrub import Scrubber
from tests.probes.written import write_host

HOSTS = sorted(p for p in (Path(__file__).parent.parent / "hosts").glob("*") if p.is_dir())


def _wire(host: RecordedHost) -> Any:
    return Scrubber().tree(to_wire(collect(host, Options())))


@pytest.mark.parametrize("folder", HOSTS, ids=lambda p: p.name)
def test_a_recording_of_a_recording_tells_the_same(folder: Path, tmp_path: Path) -> None:
    host = RecordedHost(str(folder))
    record(host, str(tmp_path / "copy"))
    assert _wire(RecordedHost(str(tmp_path / "copy"))) == _wire(host)


@pytest.mark.real
def test_a_recording_of_this_machine_tells_the_same(tmp_path: Path) -> None:
    facts = record(LocalHost(), str(tmp_path / "out"))
    again = collect(RecordedHost(str(tmp_path / "out")), Options())
    # The content of binaries is not recorded.
    scopes = [
        tuple(replace(s, binaries=UNSTATED, libcuda=UNSTATED) for s in found.scopes)
        for found in (facts, again)
    ]
    # Folders that look like a person's home bear another name in the recording.
    assert Scrubber().tree(to_wire(scopes[0])) == Scrubber().tree(to_wire(scopes[1]))
    boot = replace(facts.host, boot=UNSTATED), replace(again.host, boot=UNSTATED)
    assert Scrubber().tree(to_wire(boot[0])) == Scrubber().tree(to_wire(boot[1]))
    assert to_wire(facts.devices) == to_wire(again.devices)


def test_a_link_below_a_link(tmp_path: Path) -> None:
    host = write_host(
        tmp_path / "host",
        links={"/lib": "/usr/lib", "/usr/lib/libstdc++.so.6": "libstdc++.so.6.0.30"},
        paths={"/usr/lib/libstdc++.so.6.0.30": {}},
    )
    record(host, str(tmp_path / "out"))
    facts = collect(RecordedHost(str(tmp_path / "out")), Options())
    assert str(facts.host.libstdcxx.value) == "3.4.30"


UUID = "GPU-8f3b2c1a-1111-2222-3333-444455556666"
SECRETS = (
    *("alice", "hunter2", "hf_abcdefghijklm", "wonderland", "10.1.2.3", "hidden-tool", "private"),
    *(UUID, "3c:ec:ef:00:11:22", "Q0FCQUJB", "sk-abcdefghijk"),
)
PRIVATE = {
    "/etc/os-release": "ID=debian\n",
    "/proc/meminfo": "MemTotal: 1024 kB\nMemAvailable: 1024 kB\nSwapTotal: 0 kB\n",
    "/proc/sys/kernel/hostname": "wonderland\n",
    "/proc/sys/kernel/random/boot_id": "8f3b2c1a-1111-2222-3333-444455556666\n",
    "/var/lib/dpkg/status": (
        "Package: private-tool\nStatus: install ok installed\nVersion: 1\n\n"
        "Package: nvidia-driver\nStatus: hold ok installed\nVersion: 580\nMaintainer: alice\n"
    ),
    "/etc/apt/apt.conf.d/proxy": 'Acquire::http::Proxy "http://alice:hunter2@10.1.2.3:3128";\n',
    "/etc/docker/daemon.json": '{"runtimes": {"nvidia": {}}, "proxies": {"x": "hunter2"}}',
    "/home/alice/.docker/config.json": '{"auths": {"x": {"auth": "Q0FCQUJB"}}}',
    "/home/alice/.venv/pyvenv.cfg": "home = /usr/bin\nversion = 3.12.3\n",
    "/home/alice/.venv/lib/python3.12/site-packages/vllm-0.20.0.dist-info/METADATA": (
        "Name: vllm\nVersion: 0.20.0\nAuthor-email: alice@private.example\n\nprivate text\n"
    ),
    "/proc/10/cmdline": "/home/alice/.venv/bin/python\0-m\0vllm.entrypoints.openai.api_server\0"
    "--api-key\0hunter2\0--hf-token=hf_abcdefghijklm\0--model\0/data/alice/m\0--port\x008000\0",
    "/proc/10/environ": "HF_TOKEN=hf_abcdefghijklm\0DB_PASSWORD=hunter2\0CUDA_HOME=/usr\0",
    "/proc/11/cmdline": "hidden-tool\0--password\0hunter2\0",
}
PARTS: dict[str, Any] = {
    "paths": {"/usr/bin/dockerd": {}, "/usr/bin/unattended-upgrade": {}},
    "commands": [
        {"argv": ["uname", "-m"], "stdout": "x86_64\n"},
        {"argv": ["dmesg"], "stdout": "wonderland 3c:ec:ef:00:11:22\nNVRM: x\n"},
    ],
    "sockets": {
        "/var/run/docker.sock": {
            "/info": {"ServerVersion": "28.0.1", "Name": "wonderland", "Runtimes": {"runc": {}}}
        }
    },
    "env": {
        "HOME": "/home/alice",
        "PWD": "/home/alice",
        "HF_HOME": "/data/alice/hf",
        "VLLM_API_KEY": "hunter2",
        "OLLAMA_HOST": "http://10.1.2.3:11434",
        "CUDA_VISIBLE_DEVICES": UUID,
    },
}


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    record(write_host(tmp_path / "private", PRIVATE, **PARTS), str(tmp_path / "out"))
    return tmp_path / "out"


def test_names_nobody_and_holds_no_secret(recorded: Path) -> None:
    for path in recorded.rglob("*"):
        said = str(path.relative_to(recorded)) + (path.read_text() if path.is_file() else "")
        for secret in SECRETS:
            assert secret not in said, f"{secret} in {path}"


def test_keeps_what_matters(recorded: Path) -> None:
    facts = collect(RecordedHost(str(recorded)), Options())
    assert facts.notes == ()
    work = facts.workloads[0]
    assert (work.engine, work.scope, str(work.version.value)) == (
        "vllm",
        "venv:/home/user/.venv",
        "0.20.0",
    )
    assert (work.args.value or {})["model"] == "/data/user/m"
    assert facts.host.held_packages.value is not None
    assert facts.host.held_packages.value.holds == ("nvidia-driver",)
    engine = facts.container_engine.value
    assert engine is not None
    assert str(engine.version.value) == "28.0.1"
    assert (recorded / "facts.json").read_text().startswith('{\n "schema": "doctor/facts/v1"')


def test_what_was_not_asked_is_unknown(recorded: Path) -> None:
    host = RecordedHost(str(recorded))
    assert not host.read_text("/etc/never-asked").is_absent
    assert host.read_text("/etc/nv_tegra_release").is_absent


def test_is_the_same_twice(tmp_path: Path, recorded: Path) -> None:
    record(RecordedHost(str(recorded)), str(tmp_path / "again"))
    for path in sorted(recorded.rglob("*")):
        if path.is_file() and path.name != "paths.json":
            assert (tmp_path / "again" / path.relative_to(recorded)).read_text() == path.read_text()


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    host = write_host(tmp_path / "host")
    with pytest.raises(UsageError, match="not empty"):
        record(host, str(tmp_path))
    with pytest.raises(UsageError, match="mine"):
        record(host, str(tmp_path / "mine" / "below"))


@pytest.mark.parametrize("existed", [True, False])
def test_what_is_interrupted_leaves_nothing(tmp_path: Path, existed: bool) -> None:
    folder = tmp_path / "out"
    if existed:
        folder.mkdir()

    class Stopped(RecordedHost):
        def environ(self) -> dict[str, str]:
            if (folder / "disks.json").exists():
                raise KeyboardInterrupt
            return super().environ()

    write_host(tmp_path / "host")
    with pytest.raises(KeyboardInterrupt):
        record(Stopped(str(tmp_path / "host")), str(folder))
    assert folder.exists() is existed
    assert not existed or not list(folder.iterdir())


def test_an_engine_of_another_user_in_a_container_is_replayed(tmp_path: Path) -> None:
    """The names of its folders are changed, and that of /proc/PID/root is not."""
    root = "/proc/12/root"
    site = f"{root}/home/alice/v/lib/python3.12/site-packages"
    host = write_host(
        tmp_path / "host",
        {
            "/proc/12/cmdline": "/home/alice/v/bin/python3\0-m\0vllm.entrypoints.api_server\0"
            "--model\0/home/alice/m\0",
            "/proc/12/environ": "HOME=/home/alice\0PATH=/bin\0HF_HOME=/x\0",
            "/proc/12/cgroup": "0::/docker/" + "ab12" * 16,
            f"{root}/proc/version": "Linux",
            f"{root}/home/alice/v/pyvenv.cfg": "version = 3.12.3\n",
            f"{site}/vllm-0.20.0.dist-info/METADATA": "Name: vllm\nVersion: 0.20.0\n\n",
            f"{root}/home/alice/m/model.safetensors": "x" * 2000,
        },
        env={"HOME": "/root"},
    )
    record(host, str(tmp_path / "out"))
    again = collect(RecordedHost(str(tmp_path / "out")), Options())
    (work,) = again.workloads
    box = again.scope(work.scope)
    assert box is not None
    assert box.root == "/home/user1/v"
    assert (work.env.value or {})["PATH"] == "/bin"
    assert str(work.version.value) == "0.20.0"
    assert work.model.known("model")["missing_files"] == []


def test_versions_are_no_addresses() -> None:
    assert Scrubber("/root", "box").text("/home/al/x /root/y") == "/home/user1/x /root/y"
    scrub = Scrubber("/home/al", "box")
    for text in ("libcublas.so.12.4.5.8", "535.261.03", "http://127.0.0.1:8000", "0000:3b:00.0"):
        assert scrub.text(text) == text
    assert scrub.text("tcp://10.0.0.1:2375") == "tcp://192.0.2.1:2375"
    assert scrub.text("/home/al/x /home/bob/y /home/al") == "/home/user/x /home/user2/y /home/user"
    assert scrub.text("a box") == "a box"


@pytest.mark.real
def test_a_path_that_no_system_takes_is_an_error_of_the_system(tmp_path: Path) -> None:
    assert run(["record", str(tmp_path / ("a/" * 3000))]) == ExitCode.USAGE
