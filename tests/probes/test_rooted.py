"""A mounted tree: no link leads out of it, and what it cannot know is not absent."""

from __future__ import annotations

from pathlib import Path

from doctor.facts import Missing
from doctor.probes.collect import collect
from doctor.probes.rooted import RootedHost


def _tree(tmp_path: Path) -> tuple[Path, RootedHost]:
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    (root / "etc/passwd").write_text("inside")
    (tmp_path / "secret").write_text("outside")
    return root, RootedHost(str(root))


def test_links_stay_inside(tmp_path: Path) -> None:
    root, host = _tree(tmp_path)
    (root / "absolute").symlink_to("/etc/passwd")
    (root / "up").symlink_to("../../../../../../etc/passwd")
    (root / "folder").symlink_to("/etc")
    (root / "out").symlink_to(str(tmp_path / "secret"))
    for path in ("/absolute", "/up", "/folder/passwd", "/../../etc/passwd", "/folder/../absolute"):
        assert host.read_text(path).value == "inside", path
    assert host.read_text("/out").is_absent
    assert host.read_text(f"/../{tmp_path.name}/secret").is_absent
    assert host.real_path("/folder/passwd").value == "/etc/passwd"
    assert host.local_path("/absolute") == f"{root}/etc/passwd"


def test_loops_end(tmp_path: Path) -> None:
    root, host = _tree(tmp_path)
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    (root / "etc/again").symlink_to("/etc/again/again")
    assert host.read_text("/a").missing is Missing.NOT_READABLE
    assert host.list_dir("/etc/again").missing is Missing.NOT_READABLE


def test_lists_and_stats(tmp_path: Path) -> None:
    _, host = _tree(tmp_path)
    assert host.list_dir("/etc").value == ("passwd",)
    assert host.list_dir("/").value == ("etc",)
    stat = host.stat("/etc/passwd").value
    assert stat is not None
    assert stat.size == 6
    assert host.real_path("/").value == "/"


def test_what_a_tree_cannot_know_is_not_stated(tmp_path: Path) -> None:
    _, host = _tree(tmp_path)
    unknown = Missing.NOT_STATED
    assert host.read_text("/proc/driver/nvidia/version").missing is unknown
    assert host.list_dir("/sys/bus/pci/devices").missing is unknown
    assert host.stat("/dev/nvidia0").missing is unknown
    assert host.run(("nvidia-smi",)).missing is unknown
    assert host.nvml(1.0).missing is unknown
    assert host.get("/run/docker.sock", "/info").missing is unknown
    assert host.disk("/").missing is unknown
    assert host.environ() == {}
    assert host.read_text("/etc/nothing").is_absent


def test_empty_mount_points_say_nothing(tmp_path: Path) -> None:
    root, host = _tree(tmp_path)
    for name in ("proc", "sys", "dev", "run"):
        (root / name).mkdir()
        assert host.list_dir(f"/{name}").missing is Missing.NOT_STATED


def test_a_whole_host_that_is_mounted_speaks_for_itself(tmp_path: Path) -> None:
    root, _ = _tree(tmp_path)
    (root / "proc").mkdir()
    (root / "proc/version").write_text("Linux version 6.8\n")
    host = RootedHost(str(root))
    assert host.read_text("/proc/version").is_known
    assert host.read_text("/proc/driver/nvidia/version").is_absent


def test_without_sysfs_no_bus_was_looked_at(tmp_path: Path) -> None:
    root, host = _tree(tmp_path)
    (root / "proc").mkdir()
    (root / "proc/version").write_text("Linux")
    assert collect(RootedHost(str(root))).devices.missing is Missing.NOT_READABLE
    (root / "sys/bus").mkdir(parents=True)
    assert collect(RootedHost(str(root))).devices.value == ()
    assert not host.list_dir("/sys/bus").is_known
