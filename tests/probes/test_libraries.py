"""Libraries of an environment, on environments that are written for the purpose."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from doctor.facts import (
    Binary,
    Facts,
    Missing,
    NvidiaFacts,
    Package,
    PythonInfo,
    Reading,
    Scope,
    TorchBuild,
    Version,
    Workload,
    missing,
    seen,
)
from doctor.probes.libraries import Reader, read_all
from doctor.probes.local import LocalHost
from doctor.probes.rooted import RootedHost
from tests.binaries.written import Library

CHECK = "_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_ib"
OLD_CHECK = "_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_jb"
LINK_12_4, LINK_12_1 = "__nvJitLinkComplete_12_4", "__nvJitLinkComplete_12_1"


@dataclass
class World:
    """A venv below `top`, whose distributions are written with `install`."""

    top: Path
    packages: tuple[Package, ...] = ()

    @property
    def root(self) -> Path:
        return self.top / "venv"

    @property
    def site(self) -> Path:
        return self.root / "lib/python3.12/site-packages"

    def install(self, name: str, **files: Library) -> None:
        """Install a distribution; keys are paths with "__" for "/" and "_so" for ".so"."""
        rows = []
        for key, library in files.items():
            path = key.replace("__", "/").replace("_so", ".so")
            library.write(self.site / path)
            rows.append(f"{path},sha256=x,1\n")
        info = self.site / f"{name.replace('-', '_')}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "RECORD").write_text("".join(rows) + "x.py,,\n")
        package = Package(name, Version("1.0"), location=str(self.inside(self.site)))
        self.packages = (*self.packages, package)

    def inside(self, path: Path) -> Path:
        return path

    def scope(self, torch: str = "13.0") -> Scope:
        root = str(self.inside(self.root))
        cuda = seen(Version(torch)) if torch else missing(Missing.NOT_THERE)
        return Scope(
            id=f"venv:{root}",
            kind="venv",
            root=root,
            python=seen(PythonInfo(Version("3.12"))),
            packages=seen(self.packages),
            torch=seen(TorchBuild(Version("2.0"), cuda)),
        )


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    Library(soname="").write(made.root / "bin/python3")
    return made


def _torch(world: World, *, cuda: bool = True) -> None:
    files = {
        "torch__lib__libtorch_global_deps_so": Library(),
        "torch__lib__libc10_so": Library(soname="libc10.so", defines=("_ZN3c105ErrorD1Ev",)),
    }
    if cuda:
        files["torch__lib__libc10_cuda_so"] = Library(
            soname="libc10_cuda.so", needed=("libc10.so",), runpath="$ORIGIN", defines=(CHECK,)
        )
    world.install("torch", **files)


def _read(world: World, *, driver: bool = False, **env: str) -> dict[str, Binary]:
    folder = world.top / "cache"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = Reader(LocalHost(), driver, str(folder)).read(world.scope(), env)
    return {b.path.rpartition("/")[2]: b for b in found.binaries.known("binaries")}


def test_an_extension_of_torch_is_resolved_by_what_torch_has_loaded(world: World) -> None:
    extension = Library(needed=("libc10.so", "libc10_cuda.so"), undefined=(CHECK,))
    world.install("vllm", vllm___C_so=extension)
    _torch(world)
    found = _read(world)["_C.so"]
    assert (found.package, found.unresolved, found.undefined) == ("vllm", (), ())


def test_cuda_extension_beside_a_torch_for_cpu(world: World) -> None:
    _torch(world, cuda=False)
    extension = Library(needed=("libc10.so", "libc10_cuda.so"), undefined=(CHECK,))
    world.install("torchvision", torchvision___C_so=extension)
    found = _read(world)["_C.so"]
    assert found.unresolved == ("libc10_cuda.so",)
    assert found.undefined == (), "their home is missing, that says it all"


def test_extension_of_another_torch(world: World) -> None:
    _torch(world)
    extension = Library(
        needed=("libc10_cuda.so",), undefined=(OLD_CHECK,), weak=("_ZN3c107unknownEv",)
    )
    world.install("sgl-kernel", sgl_kernel__ops_so=extension)
    assert _read(world)["ops.so"].undefined == (OLD_CHECK,)


def test_libraries_of_nvidia_that_an_environment_variable_hides(world: World) -> None:
    _torch(world)
    own = Library(soname="libnvJitLink.so.12", defines=(LINK_12_4,), build_id=b"new")
    world.install("nvidia-nvjitlink-cu12", nvidia__nvjitlink__lib__libnvJitLink_so=own)
    lib = world.site / "nvidia/nvjitlink/lib"
    (lib / "libnvJitLink.so").rename(lib / "libnvJitLink.so.12")
    record = world.site / "nvidia_nvjitlink_cu12-1.0.dist-info/RECORD"
    record.write_text("nvidia/nvjitlink/lib/libnvJitLink.so.12,,\n")
    user = Library(
        needed=("libnvJitLink.so.12",),
        runpath="$ORIGIN/../nvidia/nvjitlink/lib",
        undefined=(LINK_12_4,),
    )
    world.install("xformers", xformers__a_so=user)
    toolkit = world.top / "cuda-12.1/lib64"
    Library(
        soname="libnvJitLink.so.12", defines=(LINK_12_1,), build_id=b"old"
    ).write(toolkit / "libnvJitLink.so.12")  # fmt: skip
    assert _read(world)["a.so"].shadowed == ()
    found = _read(world, LD_LIBRARY_PATH=f":{toolkit}/")["a.so"]
    assert found.shadowed == (
        f"libnvJitLink.so.12: {toolkit}/libnvJitLink.so.12 hides {lib}/libnvJitLink.so.12",
    )
    assert found.undefined == (LINK_12_4,)


def test_libraries_of_the_driver_are_missed_only_where_a_driver_is(world: World) -> None:
    _torch(world)
    world.install("vllm", vllm___C_so=Library(needed=("libcuda.so.1",), undefined=("cuInit",)))
    assert _read(world)["_C.so"].unresolved == ()
    assert _read(world, driver=True)["_C.so"].unresolved == ("libcuda.so.1",)
    Library(soname="libcuda.so.1", defines=("cuOld",)).write(world.top / "drv/libcuda.so.1")
    found = _read(world, driver=True, LD_LIBRARY_PATH=str(world.top / "drv"))["_C.so"]
    assert (found.unresolved, found.undefined) == ((), ("cuInit",))


def test_which_libcuda_would_load(world: World) -> None:
    world.install("vllm", vllm___C_so=Library())
    compat = world.top / "compat"
    scope = world.scope()
    reader = Reader(LocalHost(), True, "")
    assert reader.read(scope, {}).libcuda.is_absent
    assert not Reader(LocalHost(), False, "").read(scope, {}).libcuda.is_absent
    Library(soname="libcuda.so.1").write(compat / "libcuda.so.590.44.01")
    (compat / "libcuda.so.1").symlink_to("libcuda.so.590.44.01")
    found = reader.read(scope, {"LD_LIBRARY_PATH": str(compat)})
    assert found.libcuda.value == str(compat / "libcuda.so.590.44.01")


def test_engines_without_python(tmp_path: Path) -> None:
    lib = tmp_path / "usr/lib/ollama"
    Library().write(lib / "libggml-base.so")
    for folder, major in (("cuda_v12", "12"), ("cuda_v13", "13")):
        Library(needed=(f"libcudart.so.{major}",), runpath="$ORIGIN").write(
            lib / folder / "libggml-cuda.so"
        )
        Library(soname=f"libcudart.so.{major}").write(lib / folder / f"libcudart.so.{major}")
    reader = Reader(RootedHost(str(tmp_path)), False, "")
    found = reader.read(Scope("host", "host", root="/"), {}).binaries.known("binaries")
    assert [(b.package, str(b.cuda), b.unresolved) for b in found] == [
        ("ollama", "12.*", ()),
        ("ollama", "13.*", ()),
    ]


def test_only_the_variant_that_torch_asks_for_counts(world: World) -> None:
    world.install(
        "bitsandbytes",
        bitsandbytes__libbitsandbytes_cuda118_so=Library(needed=("libcudart.so.11.0",)),
        bitsandbytes__libbitsandbytes_cuda130_so=Library(),
    )
    assert set(_read(world)) == {"libbitsandbytes_cuda130.so"}


def test_a_back_end_on_demand_may_lack_what_it_needs(world: World) -> None:
    provider = Library(needed=("libnvinfer.so.10",))
    name = "onnxruntime__capi__libonnxruntime_providers_tensorrt_so"
    world.install("onnxruntime-gpu", **{name: provider})
    assert _read(world) == {}


def _rewrite(world: World, change: Callable[[str], str]) -> None:
    """Change what is kept, and seal it as what it says then."""
    for file in (world.top / "cache").iterdir():
        data = change(file.read_text().partition("\n")[2]).encode()
        file.write_bytes(hashlib.sha256(data).hexdigest().encode() + b"\n" + data)


def test_what_was_read_is_kept_until_the_file_changes(world: World) -> None:
    world.install("vllm", vllm___C_so=Library(needed=("liba.so",)))
    assert _read(world)["_C.so"].needs == ("liba.so",)
    _rewrite(world, lambda text: text.replace("liba.so", "libb.so"))
    assert _read(world)["_C.so"].needs == ("libb.so",), "taken from the cache"
    os.utime(world.site / "vllm/_C.so")
    assert _read(world)["_C.so"].needs == ("liba.so",), "read anew"


def _new_library(world: World) -> None:
    Library(soname="liba.so").write(world.top / "lib/liba.so")


def _link_in_place_of_a_file(world: World) -> None:
    path = world.site / "vllm/_C.so"
    path.rename(world.top / "moved.so")
    path.symlink_to(world.top / "other.so")


@pytest.mark.parametrize("change", [_new_library, _link_in_place_of_a_file])
def test_an_answer_is_void_when_a_folder_or_link_has_changed(
    world: World, change: Callable[[World], None]
) -> None:
    world.install("vllm", vllm___C_so=Library(needed=("liba.so",)))
    (world.top / "lib").mkdir()
    Library().write(world.top / "other.so")
    folder = str(world.top / "lib")
    before = _read(world, LD_LIBRARY_PATH=folder).values()
    assert [binary.unresolved for binary in before] == [("liba.so",)]
    change(world)
    after = _read(world, LD_LIBRARY_PATH=folder).values()
    assert [binary.unresolved for binary in after] == [()]


def _unexpected(text: str) -> str:
    kept = json.loads(text)
    for table in kept["kinds"].values():
        for entry in table.values():
            entry[1] = {"unexpected": [1]}
    return json.dumps(kept)


def test_a_damaged_cache_is_as_none(world: World) -> None:
    world.install("vllm", vllm___C_so=Library(needed=("liba.so",)))
    first = _read(world)
    _rewrite(world, _unexpected)
    assert _read(world) == first


def test_an_unreadable_library_says_why(world: World) -> None:
    world.install("vllm", vllm___C_so=Library())
    (world.site / "vllm/_C.so").write_bytes(b"MZ")
    found = _read(world)["_C.so"]
    assert (found.unresolved, found.unreadable) == (None, "a Windows program (PE), not an ELF file")


def test_the_engines_own_variables_come_before_the_scopes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(world.top / "cache"))
    world.install("vllm", vllm___C_so=Library(needed=("liba.so.1",)))
    Library(soname="liba.so.1").write(world.top / "engine/liba.so.1")
    scope = world.scope()
    env = seen({"LD_LIBRARY_PATH": str(world.top / "engine")})
    busy = (Workload("w", "vllm", scope=scope.id, env=env),)
    for workloads, unresolved in (((), ("liba.so.1",)), (busy, ())):
        (found,) = read_all(LocalHost(), Facts(scopes=(scope,), workloads=workloads))
        assert found.binaries.known("binaries")[0].unresolved == unresolved


class Image(World):
    """The same as seen from inside a root folder."""

    def inside(self, path: Path) -> Path:
        return Path("/") / path.relative_to(self.top)


def test_an_environment_below_another_root(tmp_path: Path) -> None:
    image = Image(tmp_path)
    image.install("vllm", vllm___C_so=Library(needed=("liba.so.1", "libb.so.1")))
    Library(soname="liba.so.1").write(tmp_path / "usr/lib/liba.so.1.2.3")
    (tmp_path / "lib64").symlink_to("/usr/lib")
    (tmp_path / "usr/lib/liba.so.1").symlink_to("/usr/lib/liba.so.1.2.3")
    found = Reader(RootedHost(str(tmp_path)), False, "").read(image.scope(), {})
    assert [b.unresolved for b in found.binaries.known("binaries")] == [("libb.so.1",)]


def test_a_container_is_read_through_the_root_of_its_process(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This process stands for one in a container: its root is the root of this machine."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(world.top / "cache"))
    world.install("vllm", vllm___C_so=Library(needed=("liba.so.1",)))
    box = replace(world.scope(), id="container:abc", kind="container")
    engine = Workload("w", "vllm", scope=box.id, pid=os.getpid())
    (found,) = read_all(LocalHost(), Facts(scopes=(box,), workloads=(engine,)))
    assert found.binaries.known("binaries")[0].unresolved == ("liba.so.1",)


def test_other_kinds_of_scopes_keep_what_is_known_of_them() -> None:
    stated: Reading[tuple[Binary, ...]] = seen((Binary("x", declared=True),))
    scopes = (Scope("c", "container", binaries=stated), Scope("i", "image"))
    facts = Facts(scopes=scopes, nvidia=NvidiaFacts())
    assert read_all(LocalHost(), facts) == scopes
