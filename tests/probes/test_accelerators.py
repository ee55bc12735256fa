"""Ascend and AMD devices: what is asked, in which order, and what silence means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from doctor.facts import Facts, HostFacts, Missing, Version, seen
from doctor.probes import access, ascend, ascend_files, rocm
from doctor.probes.ascend_info import cann_version
from doctor.probes.collect import Options, collect
from tests.probes.written import write_host

SAMPLES = Path(__file__).parent.parent / "intake/samples/ascend"
NODES: dict[str, Any] = {"/dev/davinci_manager": {"mode": 0o020660, "uid": 0, "gid": 0}}
STATUS = "Uid:\t{0}\t{0}\nGid:\t{0}\t{0}\nGroups:\t{0}\nCapEff:\t{1}\n"


def command(*argv: str, out: str = "", err: str = "", code: int = 0) -> dict[str, Any]:
    return {"argv": list(argv), "returncode": code, "stdout": out, "stderr": err}


def sample(name: str) -> str:
    return (SAMPLES / name).read_text()


def test_nothing_is_asked_where_no_driver_is(tmp_path: Path) -> None:
    host = write_host(tmp_path, commands=[command("npu-smi", "info", out="x")])
    facts = ascend.read(host, Facts())
    assert facts.ascend.smi_error.missing is Missing.NOT_STATED
    assert facts.ascend.driver.is_absent
    assert facts.ascend.nodes.missing is Missing.NOT_THERE


def test_two_dies_of_one_npu_get_their_soc_from_the_board(tmp_path: Path) -> None:
    board = ("npu-smi", "info", "-t", "board", "-i", "0")
    commands = [
        command("npu-smi", "info", out=sample("info_2xA3_dualdie.txt")),
        command("npu-smi", "info", "-l", out=sample("info_l_8xA2.txt")),
        command(*board, out=sample("board_910B3.txt")),
        command(*board, "-c", "0", out=sample("board_A3_chip0.txt")),
    ]
    facts = ascend.read(write_host(tmp_path, paths=NODES, commands=commands), Facts())
    devices = facts.devices.value or ()
    assert [device.id for device in devices] == ["npu0", "npu1", "npu2", "npu3"]
    assert {device.soc.value for device in devices} == {"Ascend910_9391"}
    assert facts.ascend.firmware.value == Version("7.7.0.6.236")
    assert facts.ascend.smi_error.is_absent


def test_a_tool_that_hangs_is_asked_once(tmp_path: Path) -> None:
    late = {"argv": ["npu-smi", "info"], "missing": "timed-out"}
    listed = command("npu-smi", "info", "-l", out=sample("info_l_8xA2.txt"))
    facts = ascend.read(write_host(tmp_path, paths=NODES, commands=[late, listed]), Facts())
    assert facts.ascend.smi_error.missing is Missing.TIMED_OUT
    assert not facts.devices.is_known


def test_a_loader_without_a_path_is_given_one(tmp_path: Path) -> None:
    failed = command("npu-smi", "info", err=sample("fail_libdcmi_missing.txt"), code=127)
    driver = [f"/usr/local/Ascend/driver/lib64{p}" for p in ("", "/common", "/driver")]
    libraries = ":".join((*driver, "/usr/local/dcmi"))
    again = ("env", f"LD_LIBRARY_PATH={libraries}", "npu-smi", "info")
    commands = [failed, command(*again, out=sample("info_1x910B4.txt"))]
    facts = ascend.read(write_host(tmp_path, paths=NODES, commands=commands), Facts())
    assert [device.name.value for device in facts.devices.value or ()] == ["910B4"]


@pytest.mark.parametrize(
    ("user", "capabilities", "denied"),
    [(0, "0000000000000002", False), (0, "0", True), (7, "0", True), (7, "2", False)],
)
def test_root_without_its_capability_is_bound_by_modes(
    tmp_path: Path, user: int, capabilities: str, denied: bool
) -> None:
    nodes: dict[str, Any] = {"/dev/kfd": {"mode": 0o020660, "uid": 5, "gid": 5}}
    host = write_host(
        tmp_path, {"/proc/self/status": STATUS.format(user, capabilities)}, paths=nodes
    )
    found = access.open_nodes(host, seen(("/dev/kfd",), "/dev"))
    assert (found.missing is Missing.NOT_PERMITTED) is denied


def test_a_loaded_driver_without_its_file_is_not_absent(tmp_path: Path) -> None:
    loaded = HostFacts(modules=seen(("drv_pcie_host",), "/proc/modules"))
    bare = ascend_files.read(write_host(tmp_path), {}, loaded)
    assert bare.driver.missing is Missing.NOT_READABLE
    contained = HostFacts(modules=loaded.modules, platform=seen("container", "/.dockerenv"))
    assert ascend_files.read(write_host(tmp_path), {}, contained).driver.is_absent


def test_driver_in_a_folder_of_its_own(tmp_path: Path) -> None:
    files = {
        "/etc/ascend_install.info": "Driver_Install_Path_Param=/opt/npu\n",
        "/opt/npu/driver/version.info": sample("driver_version.info"),
        "/opt/cann/x86_64-linux/ascend_toolkit_install.info": sample("ascend_toolkit_install.info"),
        "/opt/nnal/atb/8.5.0/lib": "",
    }
    environ = {
        "ASCEND_HOME_PATH": "/opt/cann",
        "ATB_HOME_PATH": "/opt/nnal/atb/latest/atb/cxx_abi_1",
    }
    host = write_host(tmp_path, files, links={"/opt/nnal/atb/latest": "8.5.0"})
    found = ascend_files.read(host, environ, HostFacts())
    assert (str(found.driver.value), str(found.cann.value)) == ("25.2.0", "8.5.0")
    assert str(found.nnal.value) == "8.5.0"


def test_the_release_in_each_kind_of_version_file() -> None:
    assert str(cann_version("Version=8.5.0.2.220\nversion_dir=8.5.0\n")) == "8.5.0"
    assert str(cann_version(sample("version.cfg"))) == "8.0.0"
    assert cann_version("") is None


@pytest.mark.parametrize(
    ("target", "gfx"),
    [(90402, "gfx942"), (90010, "gfx90a"), (110000, "gfx1100"), (120001, "gfx1201"), (0, None)],
)
def test_targets_of_the_kernel(target: int, gfx: str | None) -> None:
    node = rocm.parse_properties(f"gfx_target_version {target}\nlocation_id 33538\ndomain 1\n")
    assert (node.gfx if node else None) == gfx
    assert node is None or node.address == "0001:83:00.2"


def test_a_tool_fills_what_the_kernel_does_not_say(tmp_path: Path) -> None:
    static = (SAMPLES.parent / "amd_smi_json.txt").read_text()
    host = write_host(
        tmp_path,
        {"/sys/module/amdgpu/version": "6.16.6\n"},
        commands=[command("amd-smi", "static", "--json", out=static)],
    )
    devices = rocm.read(host, Facts()).devices.value or ()
    assert devices
    assert all(device.gfx.is_known and device.id.startswith("amd") for device in devices)


def test_probes_of_makers_that_are_not_here_are_not_loaded(tmp_path: Path) -> None:
    facts = collect(write_host(tmp_path), Options())
    assert facts.ascend == Facts().ascend
    assert facts.rocm == Facts().rocm
