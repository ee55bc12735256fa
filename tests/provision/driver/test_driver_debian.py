"""NVIDIA's packages of the Debian archive, as they are, with two versions on offer.

Their metadata is real and comes from the archive; dpkg is told that they are installed, so that
apt simulates with the real graph and nothing has to be fetched or built.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from doctor.matrix.packaging import schemes_for
from doctor.provision.driver.ask import read_offers, read_survey, simulate
from doctor.provision.driver.choose import Choice, order_key
from doctor.provision.driver.refuse import of_simulation
from doctor.provision.target import DOCKER, Target
from tests.provision.driver.driven import Driven
from tests.provision.driver.made import FAMILY, MATRIX
from tests.provision.machine import fresh_machine

pytestmark = [pytest.mark.slow, pytest.mark.docker]

WANTED = (
    "nvidia-kernel-dkms",
    "libcuda1",
    "libnvidia-ml1",
    "libnvidia-ptxjitcompiler1",
    "nvidia-smi",
    "nvidia-persistenced",
)
OFFLINE = 'Acquire::http::Proxy "http://127.0.0.1:9";\nAcquire::Retries "0";\n'
COMPONENTS = "main contrib non-free non-free-firmware"


@pytest.fixture(scope="module")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driven]:
    """A Debian with a driver from its release, and a newer one in its security archive."""
    folder = tmp_path_factory.mktemp("debian")
    with fresh_machine(folder) as found:
        home = folder / "home"
        home.mkdir()
        driven = Driven(found, home)
        _install_by_name(driven)
        yield driven


def _install_by_name(debian: Driven) -> None:
    run = debian.machine.run
    archive = run("cat", "/etc/apt/sources.list").split()[1].rstrip("/")
    lines = [f"deb {archive} bookworm {COMPONENTS}"]
    run("tee", "/etc/apt/sources.list", text=f"{lines[0]}\n")
    run("apt-get", "-q", "update")
    run("apt-get", "-qy", "--no-install-recommends", "install", "unattended-upgrades")
    said = run("apt-get", "-s", "--no-install-recommends", "install", *WANTED)
    rows = re.findall(r"^Inst (\S+) \((\S+)", said, re.MULTILINE)
    assert {name for name, _ in rows} >= set(WANTED)
    stanzas = run("apt-cache", "show", *(f"{name}={version}" for name, version in rows))
    known = [_installed(text) for text in stanzas.split("\n\n") if text.strip()]
    run("tee", "-a", "/var/lib/dpkg/status", text="\n\n".join(["", *known]) + "\n")
    names = [f"/var/lib/dpkg/info/{_listed(text)}.{end}" for text in known
             for end in ("list", "md5sums")]  # fmt: skip
    run("touch", *names)
    lines.append(f"deb {archive}-security bookworm-security {COMPONENTS}")
    run("tee", "/etc/apt/sources.list", text="\n".join(lines) + "\n")
    run("apt-get", "-q", "update")


def _installed(stanza: str) -> str:
    """A stanza of the index as dpkg has it of an installed package."""
    kept = re.sub(r"(?m)^(Filename|Size|MD5sum|SHA256|Description-md5): .*\n?", "", stanza)
    return re.sub(r"(?m)^(Package: .*)$", r"\1\nStatus: install ok installed", kept.strip("\n"))


def _listed(stanza: str) -> str:
    """How dpkg names the files about a package: with the architecture where several may be."""
    name = re.search(r"(?m)^Package: (.*)$", stanza)
    arch = re.search(r"(?m)^Architecture: (.*)$", stanza)
    several = "\nMulti-Arch: same" in stanza
    assert name
    assert arch
    return f"{name[1]}:{arch[1]}" if several else name[1]


def moved(debian: Driven) -> set[str]:
    """Packages of the driver that a full upgrade would move or remove."""
    family = re.compile("|".join((*FAMILY.names, *FAMILY.sources)))
    return {line.split()[1] for line in debian.moved_by_upgrade() if family.match(line.split()[1])}


def by_night(debian: Driven) -> set[str]:
    """Packages of the driver that unattended-upgrades would move."""
    # Even a dry run fetches what it would install; it says what before that.
    debian.machine.run("tee", "/root/offline.conf", text=OFFLINE)
    command = "APT_CONFIG=/root/offline.conf unattended-upgrade --dry-run -d 2>&1; true"
    said = debian.machine.run("sh", "-c", command)
    _, found, listed = said.partition("pkgs that look like they should be upgraded: ")
    assert found, said[-400:]
    names = re.match(r"(?:[a-z0-9+.-]*\n)*", listed)
    return {name for name in (names[0].split() if names else []) if "nvidia" in name}


def test_two_versions_are_offered_and_nothing_holds_them(debian: Driven) -> None:
    assert {"libcuda1", "nvidia-smi", "nvidia-kernel-dkms"} <= moved(debian)
    assert by_night(debian)


def test_the_set_that_is_there_is_held_as_a_whole(debian: Driven) -> None:
    profile = debian.profile(535, policy="leave")
    answer = debian.apply(profile)
    assert "libcuda1" in debian.holds, answer.err
    assert {"nvidia-kernel-support", "nvidia-alternative", "firmware-nvidia-gsp"} <= debian.holds
    assert moved(debian) == set()
    assert by_night(debian) == set()


def test_holding_some_is_a_trap_that_is_found(debian: Driven) -> None:
    """The set does not move as one: what is not held moves away from what is."""
    held = debian.holds
    debian.machine.run("apt-mark", "unhold", "libcuda1", "libnvidia-ml1")
    debian.machine.run("rm", "/etc/apt/preferences.d/doctor-driver")
    drift = debian.drift()
    assert drift.status == 1
    codes = {f["code"] for f in drift.json["findings"]}
    assert {"DFT101", "DFT102"} <= codes
    debian.machine.run("apt-mark", "hold", *held)


def test_going_back_with_the_libraries_alone_would_remove_the_module(debian: Driven) -> None:
    """With -y it happens without a question; doctor says what would be lost, and refuses."""
    run = debian.machine.run
    run("apt-mark", "unhold", *debian.holds)
    policy = run("apt-cache", "policy", "libcuda1")
    older = policy.split("Installed: ")[1].split()[0]
    newer = max(re.findall(r"535[.][0-9]+[.][0-9]+-\S+", policy), key=order_key)
    assert newer != older
    run("sed", "-i", f"s/{older}/{newer}/g", "/var/lib/dpkg/status")
    names = ("libcuda1", "libnvidia-ml1", "libnvidia-ptxjitcompiler1", "nvidia-alternative",
             "libnvidia-pkcs11-openssl3", "nvidia-smi")  # fmt: skip
    target = Target(DOCKER, debian.machine.name)
    read_offers(target, FAMILY, ())  # fetches the lists that are asked from
    answer = simulate(target, [f"{name}={older}" for name in names], ())
    assert "nvidia-kernel-dkms" in answer.removed
    there = read_survey(target, FAMILY, "").driver
    scheme = schemes_for(MATRIX, "debian 12", 535)[1]
    choice = Choice(scheme=scheme, version=older, words=())
    texts = list(of_simulation(answer, choice, there, FAMILY))
    assert any("the driver's package nvidia-kernel-dkms" in text for text in texts)
