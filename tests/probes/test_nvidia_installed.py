"""What of NVIDIA's software lies on a host: libraries, toolkits, services, device nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from doctor.facts import CudaToolkit, DriverLibrary, HostFacts, Missing, Reading, Version, seen
from doctor.facts.host import SystemPackage
from doctor.probes import access, nvidia_libraries, nvidia_services, nvidia_toolkits
from tests.probes.written import write_host


def test_libraries_in_the_order_of_the_loader(tmp_path: Path) -> None:
    host = write_host(
        tmp_path,
        {
            "/etc/ld.so.conf": "include /etc/ld.so.conf.d/*.conf\n",
            "/etc/ld.so.conf.d/cuda.conf": "/usr/local/cuda/compat  # first\n",
        },
        links={
            "/usr/local/cuda": "cuda-13.1",
            "/usr/local/cuda-13.1/compat/libcuda.so.1": "libcuda.so.590.44.01",
            "/usr/lib/x86_64-linux-gnu/libcuda.so.1": "libcuda.so.580.95.05",
            "/opt/own/libcuda.so.1": "libcuda.so.575.57.08",
            "/usr/lib/wsl/lib/libcuda.so.1": "libcuda.so.1.1",
        },
        paths={
            "/usr/local/cuda-13.1/compat/libcuda.so.590.44.01": {},
            "/usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05": {},
            "/opt/own/libcuda.so.575.57.08": {},
            "/usr/lib/wsl/lib/libcuda.so.1.1": {},
        },
    )
    found = nvidia_libraries.read(host, nvidia_libraries.CUDA, {"LD_LIBRARY_PATH": ":/opt/own/:x"})
    places = [(lib.path.rpartition("/")[2], lib.compat) for lib in found.known("libcuda")]
    assert places == [
        ("libcuda.so.575.57.08", False),
        ("libcuda.so.590.44.01", True),
        ("libcuda.so.580.95.05", False),
        ("libcuda.so.1.1", False),
    ]
    ranks = [lib.searched for lib in found.known("libcuda")]
    assert ranks[:3] == sorted(rank for rank in ranks[:3] if rank is not None)
    assert (ranks[0], ranks[1], ranks[3]) == (0, 1, None)


def test_userspace_is_never_a_compat_copy() -> None:
    compat = DriverLibrary(
        "/usr/local/cuda/compat/libcuda.so.590.44.01", Version("590.44.01"), True
    )
    own = DriverLibrary("/usr/lib64/libnvidia-ml.so.580.95.05", Version("580.95.05"))
    nothing = nvidia_libraries.userspace(seen((compat,)), seen(()))
    assert nothing.missing is Missing.NOT_READABLE
    assert nvidia_libraries.userspace(seen((compat,)), seen((own,))).value == Version("580.95.05")


def test_toolkits(tmp_path: Path) -> None:
    host = write_host(
        tmp_path,
        {
            "/usr/local/cuda-10.2/version.txt": "CUDA Version 10.2.89\n",
            "/usr/local/cuda-12.8/version.json": '{"cuda": {"version": "12.8.1"}}',
            "/opt/conda/include/cuda.h": "#define CUDA_VERSION 12060\n",
            "/usr/local/bin/nvcc": "#!/bin/sh\nexec /usr/local/cuda-12.8/bin/nvcc\n",
        },
        links={"/usr/local/cuda": "cuda-12.8"},
        paths={
            "/usr/local/cuda-12.8/bin/nvcc": {},
            "/opt/conda/bin/nvcc": {},
            "/opt/conda/nvvm/bin/cicc": {},
            "/usr/local/cuda-keyring": [],
        },
    )
    found = nvidia_toolkits.read(host, {"PATH": "/opt/conda/bin:/usr/local/bin"})
    assert found.value == (
        CudaToolkit("/usr/local/cuda-12.8", Version("12.8.1"), nvcc=True),
        CudaToolkit("/usr/local/cuda-10.2", Version("10.2.89")),
        CudaToolkit("/opt/conda", Version("12.6"), nvcc=True),
    )
    wrapped = nvidia_toolkits.read(host, {"PATH": "/usr/local/bin"})
    assert [toolkit.path for toolkit in wrapped.known("toolkits")][-1] == "/usr/local/cuda-10.2"


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("580.95.05-0ubuntu0.22.04.1", "580.95.05"),
        ("1:1.17.8-1", "1.17.8"),
        ("1.18.0~rc.1-1", "1.18.0"),
    ],
)
def test_versions_of_packages(text: str, version: str) -> None:
    assert nvidia_services.parse_upstream(text) == Version(version)


def test_versions_that_tools_state() -> None:
    text = "NVIDIA Container Toolkit CLI version 1.18.0\ncommit: f8daa5e\n"
    assert nvidia_services.parse_stated(text) == Version("1.18.0")
    assert nvidia_services.parse_stated("Fabric Manager version is : 535.129.03\n") == Version(
        "535.129.03"
    )


def test_the_fabric_manager_of_a_host_is_not_seen_from_a_container(tmp_path: Path) -> None:
    host = write_host(tmp_path, {"/sys/fs/cgroup/system.slice/other/cgroup.procs": "1\n"})
    packages: Reading[tuple[SystemPackage, ...]] = seen(
        (SystemPackage("nvidia-fabricmanager-535", "535.129.03-1"),), "dpkg"
    )
    found = nvidia_services.read_fabric_manager(host, HostFacts(packages=packages))
    assert (found.version.value, found.active.value) == (Version("535.129.03"), False)
    inside = HostFacts(packages=packages, platform=seen("container"))
    unseen = nvidia_services.read_fabric_manager(host, inside)
    assert {unseen.version.missing, unseen.active.missing} == {Missing.NOT_READABLE}


def status(user: int, *groups: int) -> dict[str, str]:
    return {
        "/proc/self/status": f"Uid:\t{user}\t{user}\nGid:\t{user}\t{user}\nGroups:\t"
        + " ".join(map(str, groups))
    }


@pytest.mark.parametrize(
    ("user", "groups", "mode", "denied"),
    [
        (0, (), 0o020600, False),
        (1001, (), 0o020666, False),
        (1001, (), 0o020660, True),
        (1001, (44,), 0o020660, False),
        (1001, (44,), 0o020640, True),
    ],
)
def test_nodes_that_a_user_may_not_open(
    tmp_path: Path, user: int, groups: tuple[int, ...], mode: int, denied: bool
) -> None:
    paths: dict[str, Any] = {"/dev/nvidia0": {"mode": mode, "uid": 0, "gid": 44}, "/dev/sda": {}}
    host = write_host(tmp_path, status(user, *groups), paths=paths)
    nodes = nvidia_services.read_nodes(host)
    assert nodes.value == ("/dev/nvidia0",)
    assert access.read_denied(host, nodes).value == (("/dev/nvidia0",) if denied else ())
