"""Signed apt repositories of small packages that bear the names of NVIDIA's.

Each package ships a file with its version; one that builds a module lays what a build would lay
into the folder of the running kernel.
"""

from __future__ import annotations

import gzip
import hashlib
import subprocess
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

EPOCH = 1_700_000_000
_BUILD = """\
#!/bin/sh
set -e
if [ "$1" = configure ]; then
  folder=/lib/modules/$(uname -r)/updates/dkms
  mkdir -p "$folder"
  printf 'made up\\0version={version}\\0' > "$folder/nvidia.ko"
fi
"""
_CLEAN = """\
#!/bin/sh
if [ "$1" = remove ]; then rm -f /lib/modules/$(uname -r)/updates/dkms/nvidia.ko; fi
"""
_UNIT = """\
[Unit]
Description=made up
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/true
[Install]
WantedBy=multi-user.target
"""


@dataclass(frozen=True)
class Deb:
    """A package to be made; `builds` is the version of a kernel module that it builds."""

    name: str
    version: str
    depends: str = ""
    source: str = ""
    provides: str = ""
    conflicts: str = ""
    builds: str = ""
    unit: str = ""
    files: dict[str, str] = field(default_factory=dict)
    programs: dict[str, str] = field(default_factory=dict)
    slow_s: int = 0

    @property
    def control(self) -> str:
        """The control file."""
        rows = {
            "Package": self.name,
            "Version": self.version,
            "Architecture": "amd64",
            "Source": self.source,
            "Maintainer": "doctor tests <tests@example.invalid>",
            "Depends": self.depends,
            "Provides": self.provides,
            "Conflicts": self.conflicts,
            "Replaces": self.conflicts,
            "Section": "non-free/kernel",
            "Description": "made up for tests",
        }
        return "".join(f"{key}: {value}\n" for key, value in rows.items() if value)


def _tar(files: dict[str, tuple[str, int]]) -> bytes:
    buffer = BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        folders: set[str] = set()
        for path in files:
            parts = path.split("/")[:-1]
            folders |= {"/".join(parts[: n + 1]) for n in range(len(parts))}
        for folder in sorted(folders):
            entry = tarfile.TarInfo(f"./{folder}/")
            entry.type, entry.mode, entry.mtime = tarfile.DIRTYPE, 0o755, EPOCH
            archive.addfile(entry)
        for path, (text, mode) in files.items():
            data = text.encode()
            entry = tarfile.TarInfo(f"./{path}")
            entry.size, entry.mode, entry.mtime = len(data), mode, EPOCH
            archive.addfile(entry, BytesIO(data))
    # The same content gives the same bytes, whenever it is packed.
    return gzip.compress(buffer.getvalue(), mtime=EPOCH)


def deb_bytes(deb: Deb) -> bytes:
    """The package as an ar archive, without help of dpkg."""
    scripts: dict[str, tuple[str, int]] = {"control": (deb.control, 0o644)}
    wait = f"sleep {deb.slow_s}\n" if deb.slow_s else ""
    if deb.builds:
        scripts["postinst"] = (_BUILD.format(version=deb.builds) + wait, 0o755)
        scripts["prerm"] = (_CLEAN, 0o755)
    elif wait:
        scripts["postinst"] = (f"#!/bin/sh\n{wait}", 0o755)
    files = {f"usr/share/doctor-tests/{deb.name}": (deb.version + "\n", 0o644)}
    files |= {path: (text, 0o644) for path, text in deb.files.items()}
    files |= {path: (text, 0o755) for path, text in deb.programs.items()}
    if deb.unit:
        files[f"lib/systemd/system/{deb.unit}"] = (_UNIT, 0o644)
    parts = {
        "debian-binary": b"2.0\n",
        "control.tar.gz": _tar(scripts),
        "data.tar.gz": _tar(files),
    }
    found = b"!<arch>\n"
    for name, data in parts.items():
        head = f"{name:<16}{EPOCH:<12}{0:<6}{0:<6}{0o100644:<8o}{len(data):<10}`\n"
        found += head.encode() + data + (b"\n" if len(data) % 2 else b"")
    return found


def build_repository(folder: Path, debs: Iterable[Deb], key: Path | None = None) -> Path:
    """Packages, index, Release and its signature in a flat repository; the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    stanzas = []
    for deb in debs:
        data = deb_bytes(deb)
        name = f"{deb.name}_{deb.version.replace(':', '%3a')}_amd64.deb"
        (folder / name).write_bytes(data)
        digest = hashlib.sha256(data).hexdigest()
        stanzas.append(f"{deb.control}Filename: ./{name}\nSize: {len(data)}\nSHA256: {digest}\n")
    index = "\n".join(stanzas).encode()
    (folder / "Packages").write_bytes(index)
    _release(folder, index, key)
    return folder


def _release(folder: Path, index: bytes, key: Path | None) -> None:
    text = (
        "Origin: made up\nLabel: made up\nSuite: stable\nArchitectures: amd64\n"
        "Date: Tue, 14 Nov 2023 22:13:20 UTC\nSHA256:\n"
        f" {hashlib.sha256(index).hexdigest()} {len(index)} Packages\n"
    )
    (folder / "Release").write_text(text)
    if key is not None:
        gpg(key, "--yes", "--clearsign", "-o", str(folder / "InRelease"), str(folder / "Release"))


def make_key(home: Path) -> str:
    """A signing key in a folder of its own; its public part in ASCII armour."""
    home.mkdir(mode=0o700)
    gpg(home, "--passphrase", "", "--quick-gen-key", "doctor tests", "ed25519", "sign", "1d")
    return gpg(home, "--armor", "--export")


def gpg(home: Path, *words: str) -> str:
    """Run gpg with a home of its own; its agent ends with the test's folder."""
    command = ["gpg", "--homedir", str(home), "--batch", "--quiet", *words]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def suffixed(version: str, slow_s: int = 0) -> list[Deb]:
    """A driver in the naming of NVIDIA's repository up to 580: names carry the branch."""
    branch = version.partition(".")[0]
    full = f"{version}-0ubuntu1"
    common = f"nvidia-kernel-common-{branch} (= {full})"
    library = f"libnvidia-compute-{branch}"
    source = f"nvidia-graphics-drivers-{branch}"

    def deb(name: str, one_of: str = "", depends: str = "", unit: str = "") -> Deb:
        builds = version if "dkms" in name else ""
        return Deb(name, full, depends, source, one_of, one_of, builds, unit, slow_s=slow_s)

    return [
        deb(library, "libcuda1-any"),
        deb(f"nvidia-dkms-{branch}-open", "nvidia-dkms-kernel", common),
        deb(f"nvidia-dkms-{branch}", "nvidia-dkms-kernel", common),
        deb(f"nvidia-kernel-common-{branch}", "nvidia-kernel-common"),
        deb(f"nvidia-utils-{branch}", "nvidia-utils", library),
        deb(f"nvidia-compute-utils-{branch}", "nvidia-persistenced", library,
            "nvidia-persistenced.service"),
        Deb(f"nvidia-fabricmanager-{branch}", f"{version}-1", unit="nvidia-fabricmanager.service",
            provides="nvidia-fabricmanager-any", conflicts="nvidia-fabricmanager-any"),
        Deb(f"nvidia-driver-pinning-{branch}", f"{branch}-5", provides="nvidia-driver-pinning",
            conflicts="nvidia-driver-pinning"),
    ]  # fmt: skip


def unsuffixed(version: str) -> list[Deb]:
    """A driver in the naming from 590 on: names without the branch, which a package pins."""
    full = f"{version}-1ubuntu1"
    branch = version.partition(".")[0]
    source = "nvidia-graphics-drivers"
    return [
        Deb("nvidia-open", full, f"nvidia-driver-open (= {full})", source),
        Deb(
            "nvidia-driver-open",
            full,
            f"nvidia-dkms-open (= {full}), libnvidia-compute (= {full}), nvidia-utils (= {full}), "
            "nvidia-persistenced",
            source,
        ),
        Deb("nvidia-dkms-open", full, f"nvidia-kernel-common (= {full})", source,
            "nvidia-dkms-kernel", "nvidia-dkms-kernel", version),
        Deb("nvidia-kernel-common", full, "", source, conflicts="nvidia-kernel-common-570"),
        Deb("libnvidia-compute", full, "", source, "libcuda1-any", "libcuda1-any"),
        Deb("nvidia-utils", full, "", source),
        Deb("nvidia-persistenced", full, "", source, unit="nvidia-persistenced.service"),
        Deb("nvidia-fabricmanager", f"{version}-1", unit="nvidia-fabricmanager.service",
            provides="nvidia-fabricmanager-any", conflicts="nvidia-fabricmanager-any"),
        Deb(f"nvidia-driver-pinning-{branch}", f"{branch}-2ubuntu1",
            provides="nvidia-driver-pinning", conflicts="nvidia-driver-pinning"),
    ]  # fmt: skip


def toolkit(version: str) -> list[Deb]:
    """The toolkit for containers: four packages, each of which wants the others' version."""
    base, tools, library = ("nvidia-container-toolkit-base", "libnvidia-container-tools",
                            "libnvidia-container1")  # fmt: skip
    return [
        Deb("nvidia-container-toolkit", version, f"{base} (= {version}), {tools} (= {version})"),
        Deb(base, version),
        Deb(tools, version, f"{library} (= {version})"),
        Deb(library, version),
    ]


def monitor_before(version: str) -> Deb:
    """DCGM up to 3, which does not go with that of 4."""
    return Deb("datacenter-gpu-manager", f"1:{version}", unit="nvidia-dcgm.service")


def monitor(version: str, cuda: str, gpus: int) -> list[Deb]:
    """DCGM from 4 on, whose tool finds that many GPUs."""
    full, core = f"1:{version}-1", "datacenter-gpu-manager-4-core"
    says = f"#!/bin/sh\necho '{gpus} GPUs found.'\n"
    return [
        Deb(core, full, conflicts="datacenter-gpu-manager", unit="nvidia-dcgm.service",
            programs={"usr/bin/dcgmi": says}),
        Deb(f"datacenter-gpu-manager-4-cuda{cuda}", full, f"{core} (= {full})"),
    ]  # fmt: skip


def kernel_headers(kernel: str) -> Deb:
    """Headers of a kernel: what makes its folder look as if modules could be built."""
    name = f"linux-headers-{kernel}"
    return Deb(name, "6.8.0-31.31", files={f"lib/modules/{kernel}/build/Makefile": "# made up\n"})
