"""Parsers of the host's own files, on texts as systems write them."""

from __future__ import annotations

import pytest

from doctor.facts import Missing, OsRelease
from doctor.facts.host import SystemPackage
from doctor.probes.apt_conf import parse_apt_conf
from doctor.probes.cpu import parse_cpuinfo
from doctor.probes.dnf import applies_updates, parse_excludes, parse_locks
from doctor.probes.limits import parse_limits
from doctor.probes.memory import parse_meminfo
from doctor.probes.packages import parse_dpkg_status, parse_preferences, parse_rpm_list
from doctor.probes.platform import parse_l4t
from doctor.probes.settings_text import flatten_toml
from doctor.probes.system import parse_os_release, parse_start_time


def test_os_release() -> None:
    text = '# x\nID=rocky\nVERSION_ID=\'9.4\'\nID_LIKE="rhel centos"\nPRETTY_NAME="Rocky \\"9\\""\n'
    expected = OsRelease("rocky", "9.4", ("rhel", "centos"), 'Rocky "9"')
    assert parse_os_release(text).value == expected
    assert parse_os_release("NAME=x\n").missing is Missing.NOT_READABLE


def test_start_time_of_a_process_with_an_odd_name() -> None:
    fields = " ".join(str(n) for n in range(3, 30))
    assert parse_start_time(f"1 (a) (b c) {fields}") == "22"
    assert parse_start_time("1 (a") == ""


X86 = """processor\t: 0
model name\t: AMD EPYC 9654 96-Core Processor
flags\t\t: fpu avx avx2 hypervisor

processor\t: 1
model name\t: AMD EPYC 9654 96-Core Processor
flags\t\t: fpu
"""
GRACE = """processor\t: 0
Features\t: fp asimd sve
CPU implementer\t: 0x41
CPU part\t: 0xd4f

"""
BOARD = GRACE + "Hardware\t: BCM2835\nModel\t\t: Raspberry Pi 5 Model B\n"


def test_processors() -> None:
    amd = parse_cpuinfo(X86)
    assert (amd.model.value, amd.count.value) == ("AMD EPYC 9654 96-Core Processor", 2)
    assert amd.flags.value == ("fpu", "avx", "avx2", "hypervisor")
    grace = parse_cpuinfo(GRACE)
    assert grace.model.value == "implementer 0x41 part 0xd4f"
    assert grace.flags.value == ("fp", "asimd", "sve")
    assert parse_cpuinfo(BOARD).model.value == "Raspberry Pi 5 Model B"
    assert parse_cpuinfo("").flags.missing is Missing.NOT_READABLE


def test_memory_and_limits() -> None:
    assert parse_meminfo("MemTotal:   2097152 kB\nHugePages_Total: 0\n") == {"MemTotal": 2048}
    text = (
        "Limit            Soft Limit  Hard Limit  Units\n"
        "Max open files            1024                 524288               files\n"
        "Max locked memory         unlimited            unlimited            bytes\n"
    )
    limits = parse_limits(text)
    assert (limits.open_files.value, limits.locked_memory_kib.value) == (1024, -1)
    locked = parse_limits("Max locked memory         8388608     8388608     bytes\n")
    assert locked.locked_memory_kib.value == 8192
    assert locked.open_files.missing is Missing.NOT_READABLE


DPKG = """Package: nvidia-driver-580
Status: hold ok installed
Source: nvidia-graphics-drivers-580
Version: 580.95.05-0ubuntu1
Description: driver
 more text

Package: nvidia-utils-550
Status: deinstall ok config-files
Version: 550.1

Package: bash
Status: install ok installed
Version: 5

Package: g++
Status: install ok installed
Version: 4:12
"""


def test_dpkg_status() -> None:
    driver = SystemPackage("nvidia-driver-580", "580.95.05-0ubuntu1", "nvidia-graphics-drivers-580")
    assert parse_dpkg_status(DPKG) == ((driver, True), (SystemPackage("g++", "4:12", "g++"), False))


def test_rpm_list() -> None:
    text = "nvidia-driver\t3:580.95.05-1.el9\tnvidia-driver.src.rpm\nnoise\n"
    expected = SystemPackage("nvidia-driver", "3:580.95.05-1.el9", "nvidia-driver.src.rpm")
    assert parse_rpm_list(text) == (expected,)


def test_preferences_pin_versions_only() -> None:
    text = (
        "# held by hand\nPackage: nvidia-* libnvidia-*\nPin: version 580.*\nPin-Priority: 1001\n\n"
        "Package: *\nPin: release o=NVIDIA\nPin-Priority: 600\n"
    )
    assert parse_preferences(text) == ("nvidia-*", "libnvidia-*")


APT = """// unattended
APT::Periodic::Unattended-Upgrade "1"; # on
Unattended-Upgrade::Package-Blacklist {
    "nvidia-";  /* drivers */
    // "linux-";
    "lib\\nvidia";
};
Unattended-Upgrade { Mail "root;x"; };
Unattended-Upgrade::Package-Blacklist:: "cuda";
#clear APT::Keep;
"""


def test_apt_conf() -> None:
    settings = parse_apt_conf(APT)
    blacklist = "unattended-upgrade::package-blacklist::"
    assert ("apt::periodic::unattended-upgrade", "1") in settings
    assert [v for k, v in settings if k == blacklist] == ["nvidia-", "lib\\nvidia", "cuda"]
    assert ("unattended-upgrade::mail", "root;x") in settings
    assert ("#clear", "APT::Keep") in settings


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("nvidia-driver-3:580.95.05-1.el9.*\n!bad-0:1-1.*\n", ("nvidia-driver",)),
        ('[[packages]]\nname = "kmod-nvidia-open-dkms"\n', ("kmod-nvidia-open-dkms",)),
        ("type: package\nsolvable_name: nvidia-open\n", ("nvidia-open",)),
        ("# nothing\n\n", ()),
    ],
)
def test_locks_of_dnf_and_zypper(text: str, names: tuple[str, ...]) -> None:
    assert parse_locks(text) == names


def test_dnf_settings() -> None:
    assert parse_excludes("[main]\nexcludepkgs=nvidia-*, cuda*\n  kernel\n") == (
        "nvidia-*",
        "cuda*",
        "kernel",
    )
    assert parse_excludes("[main]\ngpgcheck=1\n") == ()
    assert applies_updates("[commands]\napply_updates = yes\n")
    assert not applies_updates("[commands]\napply_updates = no\n")


def test_l4t() -> None:
    text = "# R36 (release), REVISION: 4.3, GCID: 38968081, BOARD: generic\n"
    assert str(parse_l4t(text).value) == "36.4.3"
    assert parse_l4t("x").missing is Missing.NOT_READABLE


def test_toml_settings() -> None:
    text = (
        "disable-require = false\n[nvidia-container-cli] # comment\nno-cgroups = true # yes\n"
        "ldconfig = \"@/sbin/ldconfig\"\n[plugins.'io.x'.runtimes.nvidia]\nroot = 'a#b'\n"
    )
    assert flatten_toml(text) == {
        "disable-require": "false",
        "nvidia-container-cli.no-cgroups": "true",
        "nvidia-container-cli.ldconfig": "@/sbin/ldconfig",
        "plugins.io.x.runtimes.nvidia.root": "a#b",
    }
