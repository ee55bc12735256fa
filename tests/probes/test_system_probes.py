"""Probes of the host on small recorded hosts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from doctor.facts import HostFacts, Libc, Missing, Version, seen
from doctor.facts.host import DiskSpace, DkmsModule, HeldPackages
from doctor.probes import kernel, memory, packages, platform, ports, system, tools
from doctor.probes.rooted import RootedHost
from tests.probes.written import write_host

EMPTY = HostFacts()


def test_the_c_library_without_asking(tmp_path: Path) -> None:
    old = write_host(
        tmp_path / "old",
        links={"/lib64/libc.so.6": "libc-2.28.so"},
        paths={"/lib64/libc-2.28.so": {}},
    )
    assert system.read_libc(old).value == Libc("glibc", Version("2.28"))
    banner = "\x7fELF\x00GNU C Library (Debian GLIBC 2.36-9) stable release version 2.36.\n"
    new = write_host(tmp_path / "new", {"/lib64/libc.so.6": banner})
    assert system.read_libc(new).value == Libc("glibc", Version("2.36"))
    alpine = write_host(
        tmp_path / "alpine",
        {"/lib/apk/db/installed": "P:musl\nV:1.2.5-r0\n"},
        paths={"/lib/ld-musl-x86_64.so.1": {}},
    )
    assert system.read_libc(alpine).value == Libc("musl", Version("1.2.5"))
    assert not system.read_libc(write_host(tmp_path / "none")).is_absent


def test_the_machine_of_a_tree(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/ld-linux-aarch64.so.1").write_text("")
    assert system.read_arch(RootedHost(str(tmp_path))).value == "aarch64"


def test_symbols_of_libstdcxx(tmp_path: Path) -> None:
    host = write_host(
        tmp_path,
        links={"/usr/lib64/libstdc++.so.6": "libstdc++.so.6.0.30"},
        paths={"/usr/lib64/libstdc++.so.6.0.30": {}},
    )
    assert system.read_libstdcxx(host).value == Version("3.4.30")
    assert system.read_libstdcxx(write_host(tmp_path / "none")).is_absent


def test_memory_is_what_the_control_group_leaves(tmp_path: Path) -> None:
    host = write_host(
        tmp_path,
        {
            "/proc/meminfo": "MemTotal: 8388608 kB\nMemAvailable: 4194304 kB\nSwapTotal: 0 kB\n",
            "/sys/fs/cgroup/memory.max": f"{2 << 30}\n",
            "/sys/fs/cgroup/memory.current": f"{1 << 30}\n",
        },
        disks={"/": {"total_mib": 9, "free_mib": 5}, "/dev/shm": {"total_mib": 64, "free_mib": 1}},
    )
    facts = memory.read(host, EMPTY)
    assert (facts.memory_mib.value, facts.memory_available_mib.value) == (2048, 1024)
    assert (facts.swap_mib.value, facts.shm_mib.value) == (0, 64)
    assert facts.disk_free.value == (DiskSpace("/", 5),)


def test_apt_holds_pins_and_upgrades(tmp_path: Path) -> None:
    status = "Package: nvidia-driver\nStatus: hold ok installed\nVersion: 1\n"
    files = {
        "/var/lib/dpkg/status": status,
        "/etc/apt/preferences.d/nvidia": "Package: libnvidia-*\nPin: version 580.*\n",
        "/etc/apt/preferences.d/old.bak": "Package: never\nPin: version 1\n",
        "/etc/apt/apt.conf.d/20auto": 'APT::Periodic::Unattended-Upgrade "1";',
        "/etc/apt/apt.conf.d/50unattended": 'Unattended-Upgrade::Package-Blacklist {"nvidia";};',
    }
    program: dict[str, object] = {"/usr/bin/unattended-upgrade": {}}
    facts = packages.read(write_host(tmp_path / "on", files, paths=program), EMPTY)
    assert facts.held_packages.value == HeldPackages(("nvidia-driver",), ("libnvidia-*",))
    upgrades = facts.automatic_upgrades.value
    assert upgrades is not None
    assert (upgrades.enabled, upgrades.blacklist) == (True, ("nvidia",))
    timer = {"/etc/systemd/system/apt-daily-upgrade.timer": "/dev/null"}
    masked = write_host(tmp_path / "masked", files, paths={**program, "/dev/null": {}}, links=timer)
    off = packages.read(masked, EMPTY).automatic_upgrades.value
    assert off is not None
    assert not off.enabled
    none = packages.read(write_host(tmp_path / "none", files), EMPTY).automatic_upgrades.value
    assert none is not None
    assert not none.enabled


def test_a_preference_that_cannot_be_read_leaves_pins_unknown(tmp_path: Path) -> None:
    files = {"/var/lib/dpkg/status": ""}
    paths = {"/etc/apt/preferences.d/nvidia": "not-permitted", "/etc/apt/preferences.d": ["nvidia"]}
    facts = packages.read(write_host(tmp_path, files, paths=paths), EMPTY)
    assert facts.held_packages.missing is Missing.NOT_PERMITTED


def test_rpm_systems(tmp_path: Path) -> None:
    query = ["rpm", "-qa", "--qf", packages._RPM_FORMAT, *packages._NAMES]
    files = {
        "/etc/dnf/plugins/versionlock.list": "nvidia-driver-3:580.95.05-1.el9.*\n",
        "/etc/dnf/automatic.conf": "[commands]\napply_updates = yes\n",
    }
    timers = "/etc/systemd/system/timers.target.wants"
    host = write_host(
        tmp_path,
        files,
        paths={"/var/lib/rpm": ["rpmdb.sqlite"], f"{timers}/dnf-automatic.timer": {}},
        commands=[{"argv": query, "stdout": ["kernel\t5.14-1\tkernel.src.rpm"]}],
    )
    facts = packages.read(host, EMPTY)
    assert [p.name for p in facts.packages.value or ()] == ["kernel"]
    assert facts.held_packages.value == HeldPackages(("nvidia-driver",))
    assert facts.automatic_upgrades.value is not None
    assert facts.automatic_upgrades.value.enabled


def test_an_unknown_package_manager_is_unknown(tmp_path: Path) -> None:
    facts = packages.read(write_host(tmp_path), EMPTY)
    assert facts.packages.missing is Missing.NOT_STATED
    assert facts.held_packages.missing is Missing.NOT_STATED


def test_dkms_states(tmp_path: Path) -> None:
    built = "/var/lib/dkms/nvidia/580.95.05"
    host = write_host(
        tmp_path,
        {
            f"{built}/6.8.0-45-generic/x86_64/module/nvidia.ko": "",
            f"{built}/6.8.0-49-generic/x86_64/module/nvidia.ko": "",
            "/usr/src/nvidia-580.95.05/dkms.conf": "",
        },
        links={
            f"{built}/source": "/usr/src/nvidia-580.95.05",
            "/var/lib/dkms/nvidia/kernel-6.8.0-45-generic-x86_64": (
                "580.95.05/6.8.0-45-generic/x86_64"
            ),
            "/var/lib/dkms/xpmem/2.7/source": "/usr/src/gone",
        },
        paths={"/usr/src/gone": "not-there"},
    )
    assert kernel.read_dkms(host).value == (
        DkmsModule("nvidia", "580.95.05", "6.8.0-45-generic", "installed"),
        DkmsModule("nvidia", "580.95.05", "6.8.0-49-generic", "built"),
        DkmsModule("xpmem", "2.7", "", "broken"),
    )


VARIABLE = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"


@pytest.mark.parametrize(
    ("files", "paths", "expected"),
    [
        ({VARIABLE: "\x06\0\0\0\x01"}, {}, True),
        ({VARIABLE: "\x06\0\0\0\0"}, {}, False),
        ({"/sys/firmware/dmi": ""}, {}, False),
        ({}, {"/sys/firmware": []}, Missing.NOT_STATED),
        ({}, {VARIABLE: "not-permitted", "/sys/firmware": ["efi"]}, Missing.NOT_PERMITTED),
    ],
)
def test_secure_boot(tmp_path: Path, files: dict[str, str], paths: Any, expected: object) -> None:
    found = kernel.read_secure_boot(write_host(tmp_path, files, paths=paths))
    assert (found.value if found.is_known else found.missing) == expected


def test_kernel_headers(tmp_path: Path) -> None:
    running = seen("6.8.0-45-generic")
    folder = "/lib/modules/6.8.0-45-generic"
    there = write_host(
        tmp_path / "a",
        {"/usr/src/linux-headers-6.8.0-45-generic/Makefile": ""},
        links={f"{folder}/build": "/usr/src/linux-headers-6.8.0-45-generic"},
    )
    assert kernel.read_headers(there, running).value == running.value
    lacking = write_host(tmp_path / "b", {f"{folder}/modules.dep": ""})
    assert kernel.read_headers(lacking, running).is_absent
    container = write_host(tmp_path / "c")
    assert kernel.read_headers(container, running).missing is Missing.NOT_STATED


@pytest.mark.parametrize(
    ("kind", "expected"), [("identity", "passthrough"), ("DMA-FQ", "translated")]
)
def test_iommu(tmp_path: Path, kind: str, expected: str) -> None:
    host = write_host(tmp_path, {"/sys/kernel/iommu_groups/0/type": f"{kind}\n"})
    assert kernel.read_iommu(host).value == expected
    bare = write_host(tmp_path / "off", paths={"/sys/kernel/iommu_groups": []})
    assert kernel.read_iommu(bare).value == "off"


def _facts(flags: tuple[str, ...] = ("avx",), release: str = "6.8.0") -> HostFacts:
    return HostFacts(kernel=seen(release), cpu=system_cpu(flags))


def system_cpu(flags: tuple[str, ...]) -> Any:
    from doctor.facts import Cpu

    return Cpu(flags=seen(flags))


@pytest.mark.parametrize(
    ("files", "facts", "expected"),
    [
        ({}, _facts(), "bare"),
        ({}, _facts(("avx", "hypervisor")), "vm"),
        ({"/sys/class/dmi/id/sys_vendor": "QEMU\n"}, _facts(("asimd",)), "vm"),
        ({"/.dockerenv": ""}, _facts(("hypervisor",)), "container"),
        ({"/proc/1/cgroup": "0::/kubepods.slice/x\n"}, _facts(), "container"),
        ({}, _facts(release="5.15.153.1-microsoft-standard-WSL2"), "wsl2"),
        ({"/etc/nv_tegra_release": "# R36 (release), REVISION: 4.3, "}, _facts(), "jetson"),
        ({"/proc/device-tree/compatible": "nvidia,tegra234\0"}, _facts(), "jetson"),
    ],
)
def test_platform(tmp_path: Path, files: dict[str, str], facts: HostFacts, expected: str) -> None:
    assert platform.read(write_host(tmp_path, files), facts).platform.value == expected


def test_the_platform_of_a_tree_is_unknown(tmp_path: Path) -> None:
    host = RootedHost(str(tmp_path))
    assert platform.read(host, system.read(host, EMPTY)).platform.missing is Missing.NOT_STATED


def test_listening_ports(tmp_path: Path) -> None:
    header = "  sl  local_address rem_address   st tx_queue\n"
    line = "   0: 0100007F:{} 00000000:0000 {} 00000000:00000000 00:00000000\n"
    text = header + line.format("1F40", "0A") + line.format("0016", "01")
    host = write_host(tmp_path, {"/proc/net/tcp": text})
    assert ports.read(host, EMPTY).listening_ports.value == (8000,)
    assert ports.read(write_host(tmp_path / "none"), EMPTY).listening_ports.is_absent


def test_no_folder_of_dkms_means_no_modules(tmp_path: Path) -> None:
    host = write_host(tmp_path)
    assert kernel.read_dkms(host).value == ()
    assert kernel.read_modules(host).value == ()


def test_tools_that_are_not_there(tmp_path: Path) -> None:
    host = write_host(
        tmp_path, paths={"/usr/bin/cc": {}, "/usr/bin/ninja": {}, "/lib64/libnuma.so.1": {}}
    )
    absent = tools.read(host, EMPTY).absent
    assert absent.partial
    assert not {"gcc", "ninja", "libnuma.so.1"} & set(absent.value or ())
    assert {"g++", "cmake", "nvcc", "libGL.so.1", "libtcmalloc"} <= set(absent.value or ())
    toolkit = write_host(
        tmp_path / "b",
        {"/usr/local/cuda-13.0/bin/nvcc": ""},
        env={"LD_LIBRARY_PATH": "/opt/mpi"},
        paths={"/opt/mpi/libmpi.so.40": {}},
    )
    assert not {"nvcc", "libmpi.so.40"} & set(tools.read(toolkit, EMPTY).absent.value or ())
