"""The program that asks apt and dpkg: what it reads of their words."""

from __future__ import annotations

import lzma
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from doctor.provision.driver.ask import probe_module

PROBE = probe_module()
SAID = """\
Reading package lists...
The following packages have been kept back:
  libcuda1 libnvidia-ml1
  nvidia-smi
The following packages will be REMOVED:
  nvidia-kernel-dkms
Remv nvidia-kernel-dkms [535.261.03-1]
Purg nvidia-kernel-support [535.261.03-1]
Inst libcuda1 [535.261.03-1] (535.309.01-0+deb12u1 Debian-Security:12/oldstable [amd64]) []
Inst libcuda1:i386 (535.309.01-0+deb12u1 Debian-Security:12/oldstable [i386])
Conf libcuda1 (535.309.01-0+deb12u1 Debian-Security:12/oldstable [amd64])
"""


def test_what_apt_would_do() -> None:
    found = PROBE.parse_simulation(SAID)
    assert found["kept"] == ["libcuda1", "libnvidia-ml1", "nvidia-smi"]
    assert found["changes"] == [
        ["remove", "nvidia-kernel-dkms", "535.261.03-1", ""],
        ["remove", "nvidia-kernel-support", "535.261.03-1", ""],
        ["install", "libcuda1", "535.261.03-1", "535.309.01-0+deb12u1"],
        ["install", "libcuda1", "", "535.309.01-0+deb12u1"],
    ]


@given(st.text(max_size=400))
def test_any_text_is_read(text: str) -> None:
    PROBE.parse_simulation(text)


def test_a_module_says_its_version(tmp_path: Path) -> None:
    data = b"\x7fELF rest\0license=Dual MIT/GPL\0version=580.95.05\0srcversion=AB\0"
    (tmp_path / "nvidia.ko").write_bytes(data)
    (tmp_path / "nvidia.ko.xz").write_bytes(lzma.compress(data))
    (tmp_path / "broken.ko.xz").write_bytes(b"no archive")
    assert PROBE.module_version(str(tmp_path / "nvidia.ko")) == "580.95.05"
    assert PROBE.module_version(str(tmp_path / "nvidia.ko.xz")) == "580.95.05"
    assert PROBE.module_version(str(tmp_path / "broken.ko.xz")) == ""
    assert PROBE.module_version(str(tmp_path / "absent.ko")) == ""


def test_files_in_the_store_are_told_apart_by_hash() -> None:
    one = {"name": "a", "arch": "amd64", "sha256": "1" * 64}
    other = {**one, "sha256": "2" * 64}
    assert PROBE.stored(one) != PROBE.stored(other)
    assert PROBE.stored(one).endswith(".deb")
