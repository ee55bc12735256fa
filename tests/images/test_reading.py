"""Images read from archives: layers, whiteouts, and everything that a hostile one may hold."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import os
import random
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from doctor.errors import UsageError
from doctor.facts import Missing
from doctor.images.engine import find_image
from doctor.images.host import ImageHost
from doctor.images.reading import read_image
from tests.images.written import Layer, save, system

EXAMPLE = "etc/os-release"


def listed(path: Path) -> list[str]:
    """Everything that is in an image, folders left out."""
    with read_image(str(path)) as opened:
        return sorted(p for p, entry in opened.tree.walk() if entry.children is None)


def test_later_layers_replace_and_hide(tmp_path: Path) -> None:
    low = Layer().file("a/one", "1").file("a/two", "2").file("b/three", "3").file("c/four", "4")
    high = Layer().file("a/.wh.one").file("b/.wh..wh..opq").file("b/five", "5").file("c", "file")
    assert listed(save(tmp_path / "i.tar", low, high)) == ["/a/two", "/b/five", "/c"]


def test_an_opaque_folder_keeps_what_its_own_layer_put_there(tmp_path: Path) -> None:
    high = Layer().file("b/new", "5").file("b/.wh..wh..opq")
    assert listed(save(tmp_path / "i.tar", Layer().file("b/old", "3"), high)) == ["/b/new"]


def test_probes_read_texts_links_and_folders(tmp_path: Path) -> None:
    layer = system().link("etc/link", "/etc/os-release").file("etc/unread.bin", "x")
    with read_image(str(save(tmp_path / "i.tar", layer))) as opened:
        host = opened.host
        assert "ID=debian" in (host.read_text("/etc/link").value or "")
        assert host.real_path("/opt/venv/bin/python3").value == "/usr/bin/python3.12"
        assert host.link("/usr/bin/python3").value == "python3.12"
        assert "lib64" in (host.list_dir("/").value or ())
        assert host.read_text("/etc/nothing").is_absent
        assert host.read_text("/etc/unread.bin").missing is Missing.NOT_STATED
        assert host.read_text("/etc").missing is Missing.NOT_READABLE
        assert host.run(("python3", "-V")).missing is Missing.NOT_STATED


@pytest.mark.parametrize("path", ["../../escape", "/../escape", "a/../../escape", "a/b/../../../x"])
def test_names_that_lead_out_have_no_place(tmp_path: Path, path: str) -> None:
    layer = Layer().file("etc/keep", "x").file(path, "evil")
    assert listed(save(tmp_path / "i.tar", layer)) == ["/etc/keep"]
    assert not (tmp_path.parent / "escape").exists()


def test_links_lead_nowhere_but_inside(tmp_path: Path) -> None:
    layer = Layer().link("loop/a", "b").link("loop/b", "a").link("self", "self")
    layer.link("etc/os-release", "../../../../../../etc/passwd").link("deep", "deep/deep")
    layer.special("hard", tarfile.LNKTYPE, "hard").special("out", tarfile.LNKTYPE, "../etc/shadow")
    layer.special("dir", tarfile.DIRTYPE).special("dirlink", tarfile.LNKTYPE, "dir")
    with read_image(str(save(tmp_path / "i.tar", layer))) as opened:
        host = opened.host
        for path in ("/loop/a", "/self", "/deep/x", "/etc/os-release", "/hard", "/out", "/dirlink"):
            assert not host.read_text(path).is_known, path
        assert host.real_path("/loop/a").missing is Missing.NOT_READABLE
        assert opened.tree.refused == 3


def test_files_below_a_link_do_not_follow_it(tmp_path: Path) -> None:
    layer = Layer().link("etc", "/somewhere").file("etc/os-release", "ID=evil")
    with read_image(str(save(tmp_path / "i.tar", layer))) as opened:
        assert opened.host.read_text("/etc/os-release").is_absent


def test_devices_and_pipes_are_only_names(tmp_path: Path) -> None:
    layer = Layer().special("etc/os-release", tarfile.CHRTYPE).special("p.so", tarfile.FIFOTYPE)
    with read_image(str(save(tmp_path / "i.tar", layer))) as opened:
        assert opened.host.read_text("/etc/os-release").missing is Missing.NOT_READABLE
        assert opened.host.contents("/p.so").unreadable


def test_hard_links_share_what_was_kept(tmp_path: Path) -> None:
    layer = Layer().file("etc/os-release", "ID=x")
    layer.special("etc/other", tarfile.LNKTYPE, "etc/os-release")
    with read_image(str(save(tmp_path / "i.tar", layer))) as opened:
        assert opened.host.read_text("/etc/other").value == "ID=x"


def _oci(folder: Path, layer: bytes) -> Path:
    def blob(data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        (folder / "blobs/sha256").mkdir(parents=True, exist_ok=True)
        (folder / "blobs/sha256" / digest).write_bytes(data)
        return f"sha256:{digest}"

    config = blob(json.dumps({"architecture": "amd64", "config": {"User": "1000"}}).encode())
    layers = [{"digest": blob(layer)}]
    manifest = blob(json.dumps({"config": {"digest": config}, "layers": layers}).encode())
    rows = [{"digest": manifest, "platform": {"architecture": "amd64"}}]
    inner = blob(json.dumps({"manifests": rows}).encode())
    (folder / "index.json").write_text(json.dumps({"manifests": [{"digest": inner}]}))
    return folder


def _zstd(data: bytes) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor().compress(data)


@pytest.mark.parametrize("pack", [bytes, gzip.compress, _zstd])
def test_oci_layouts_with_packed_layers(tmp_path: Path, pack: object) -> None:
    assert callable(pack)
    data = Layer().file(EXAMPLE, "ID=x").file("big", os.urandom(3 << 20)).tar()
    with read_image(str(_oci(tmp_path, pack(data)))) as opened:
        assert opened.host.read_text(f"/{EXAMPLE}").value == "ID=x"
        assert opened.config.user == "1000"
        assert opened.config.digest.startswith("sha256:")


def test_the_plain_tar_of_a_file_system(tmp_path: Path) -> None:
    (tmp_path / "root.tar").write_bytes(system().tar())
    with read_image(str(tmp_path / "root.tar")) as opened:
        assert opened.host.read_text("/etc/os-release").is_known


@pytest.mark.parametrize("seed", range(60))
def test_damaged_archives_give_one_clear_error_or_an_image(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - damage, not a secret
    data = bytearray(save(tmp_path / "i.tar", system(), Layer().file("a", "b")).read_bytes())
    for _ in range(chance.randint(1, 30)):
        data[chance.randrange(len(data))] = chance.randrange(256)
    if seed % 3 == 0:
        del data[chance.randrange(len(data)) :]
    (tmp_path / "i.tar").write_bytes(data)
    with contextlib.suppress(UsageError):
        listed(tmp_path / "i.tar")


@pytest.mark.parametrize("kind", [b"x", b"L", b"K", b"g"])
def test_a_header_of_gigabytes_is_refused(tmp_path: Path, kind: bytes) -> None:
    info = tarfile.TarInfo("bomb")
    info.type, info.size = kind, 8 << 30
    (tmp_path / "i.tar").write_bytes(info.tobuf(tarfile.GNU_FORMAT) + bytes(4096))
    with pytest.raises(UsageError, match="larger than any real one"):
        listed(tmp_path / "i.tar")


def test_time_is_limited_and_progress_told(tmp_path: Path) -> None:
    path, told = save(tmp_path / "i.tar", system()), list[tuple[int, str]]()
    with read_image(str(path), lambda done, _, name: told.append((done, name))):
        pass
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert any("python" in name for _, name in told)
    with pytest.raises(UsageError, match="not read within"), read_image(str(path), limit_s=-1):
        pass


def sparse_image(folder: Path, gigabytes: int) -> Path:
    """A tar whose one member is a hole of that size, and behind it a file that is read."""
    info = tarfile.TarInfo("srv/model.bin")
    info.size = gigabytes << 30
    library = tarfile.TarInfo("srv/model.so")
    library.size = gigabytes << 30
    image = folder / "big.tar"
    with image.open("wb") as file:
        for big in (info, library):
            file.write(big.tobuf(tarfile.GNU_FORMAT))
            file.seek(big.size, os.SEEK_CUR)
        file.write(Layer().file(EXAMPLE, "ID=x").tar())
    return image


# The high water mark of this program alone: that of getrusage may be its parent's.
PEAK = """
def peak_mib():
    with open("/proc/self/status") as file:
        return int(next(line for line in file if line.startswith("VmHWM")).split()[1]) // 1024
"""
READ = f"""{PEAK}
import sys
from doctor.images.reading import read_image
from doctor.images.facts import read_facts
with read_image(sys.argv[1]) as opened:
    read_facts(opened)
    assert opened.host.read_text("/etc/os-release").value == "ID=x"
print(peak_mib())
"""


def packed_image(folder: Path, gigabytes: int) -> Path:
    """An OCI layout whose layer unpacks to that size, through which nobody can seek."""
    info = tarfile.TarInfo("srv/model.bin")
    info.size = gigabytes << 30
    zeros = gzip.compress(bytes(64 << 20), 1) * (gigabytes << 4)
    ends = [info.tobuf(tarfile.GNU_FORMAT), Layer().file(EXAMPLE, "ID=x").tar()]
    return _oci(folder, gzip.compress(ends[0]) + zeros + gzip.compress(ends[1]))


@pytest.mark.parametrize(
    ("make", "gigabytes"),
    [
        pytest.param(sparse_image, 10, marks=pytest.mark.real),
        pytest.param(packed_image, 2, marks=pytest.mark.slow),
        pytest.param(packed_image, 10, marks=pytest.mark.heavy),
    ],
)
def test_gigabytes_take_little_memory(
    tmp_path: Path, make: Callable[[Path, int], Path], gigabytes: int
) -> None:
    image = make(tmp_path, gigabytes)
    answer = subprocess.run(
        [sys.executable, "-c", READ, str(image)], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    assert int(answer.stdout) <= 256


MANY = f"""{PEAK}
import sys
from doctor.errors import UsageError
from doctor.images.tar import Kind, Member
from doctor.images.tree import ImageTree
tree = ImageTree()
try:
    for number in range(10_000_000):
        name = "usr/%d/%d" % (number % 997, number) + "x" * int(sys.argv[1])
        tree.add(Member(name, Kind.FILE, 0, 0))
except UsageError:
    print(peak_mib())
"""


@pytest.mark.slow
@pytest.mark.parametrize("longer", [0, 200])
def test_an_image_of_endless_files_is_refused_in_little_memory(longer: int) -> None:
    answer = subprocess.run(
        [sys.executable, "-c", MANY, str(longer)], capture_output=True, text=True, check=True
    )
    assert int(answer.stdout) <= 256


def test_host_never_raises_for_odd_paths(tmp_path: Path) -> None:
    with read_image(str(save(tmp_path / "i.tar", system()))) as opened:
        host: ImageHost = opened.host
        for path in ("", "/", "//", "/a\0b", "..", "/../..", "/etc/os-release/x", "x" * 9000):
            host.read_text(path)
            host.list_dir(path)
            host.stat(path)
            host.local_path(path)
            host.link(path)


ODD_NAMES = ("\udcff", "🦙", "vllm:\u202ev1", "/", "", "..", "vllm:", "a//b", "http://x/y", "-x")


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_name_that_no_image_can_have_is_asked_of_nobody(name: str) -> None:
    with pytest.raises(UsageError, match="is no image"):
        find_image(cast(Any, None), name)
