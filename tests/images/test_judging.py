"""Images judged on hosts: what they hold is right or wrong for a driver; nothing of them runs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from doctor.binaries.contents import read_file
from doctor.checkup import check
from doctor.diagnose import Request, diagnose
from doctor.errors import UsageError
from doctor.examine import Sources
from doctor.facts import AscendFacts, ContainerEngine, Facts, Version, seen
from doctor.findings import TargetDiagnosis, Verdict
from doctor.images.facts import read_facts, with_image
from doctor.images.reading import read_image
from doctor.matrix import load_matrix
from doctor.report import Report
from tests.binaries.written import Library, note
from tests.images.conftest import Load
from tests.images.written import CANARY, SITE, Layer, save, system, torch

NEW = "L40Sx1,driver=580.95.05,ubuntu=24.04"
OLD = "L40Sx1,driver=535.183.01,ubuntu=22.04"
GEFORCE = "RTX 4090x1,driver=550.54.14,ubuntu=22.04"


def judged(image: str | Path, host: str, engine: str = "") -> TargetDiagnosis:
    """The one target of a check of an image on a host in words."""
    return report(image, host, engine).diagnosis.targets[0]


def report(image: str | Path, host: str, engine: str = "") -> Report:
    found = check(Sources(host=host, image=str(image)), engine)
    assert len(found.diagnosis.targets) == 1
    return found


def causes(target: TargetDiagnosis) -> set[str]:
    """Causes of errors."""
    return {f.cause for f in target.findings if f.severity.value == "error"}


def vllm(layer: Layer, version: str = "0.33.0", pin: str = "torch==2.14.0") -> Layer:
    return layer.distribution("vllm", version, pin)


def test_a_cpu_torch_on_a_host_with_gpus(tmp_path: Path) -> None:
    layer = vllm(torch(system(), "2.13.0+cpu", ""))
    target = judged(save(tmp_path / "i.tar", layer), NEW)
    assert target.primary is not None
    assert target.primary.cause == "cpu-only-build"


def test_cuda_13_on_an_old_driver(tmp_path: Path) -> None:
    layer = torch(system(), "2.13.0+cu130", "13.0")
    image = save(tmp_path / "i.tar", layer)
    assert "driver-too-old" in causes(judged(image, GEFORCE))
    assert "driver-too-old" not in causes(judged(image, NEW))


def test_a_c_library_that_is_too_old(tmp_path: Path) -> None:
    libc = Library("libtorch.so", needed=("libc.so.6",), requires={"libc.so.6": ("GLIBC_2.34",)})
    layer = torch(system("2.31"), "2.13.0+cu130", "13.0")
    layer.shared_object(f"{SITE}/torch/lib/libtorch.so", libc, tmp_path)
    layer.file(f"{SITE}/torch-2.13.0+cu130.dist-info/RECORD", "torch/lib/libtorch.so,sha256=x,1\n")
    assert "glibc-too-old" in causes(judged(save(tmp_path / "i.tar", layer), NEW))


def test_an_engine_with_another_torch_than_it_pins(tmp_path: Path) -> None:
    layer = vllm(torch(system(), "2.9.0+cu128", "12.8"), pin="torch==2.14.0")
    target = judged(save(tmp_path / "i.tar", layer), NEW)
    assert {f.cause for f in target.findings} >= {"torch-pin-mismatch"}


def compat(layer: Layer, scratch: Path, version: str, conf: bool, branches: list[int]) -> Layer:
    """Put a forward-compatibility libcuda into the image, in the loader's path or beside it."""
    text = {"CUDA Version": "13.1", "Driver": branches, "Device": [2, 12, 13, 14]}
    data = note(b"NVIDIA Corporation", 1, json.dumps(text).encode())
    library = Library("libcuda.so.1", sections={".note.cuda.fwd_compatibility": (7, data)})
    folder = "usr/local/cuda-13.1/compat"
    layer.shared_object(f"{folder}/libcuda.so.{version}", library, scratch)
    layer.link(f"{folder}/libcuda.so.1", f"libcuda.so.{version}")
    if conf:
        layer.file("etc/ld.so.conf", "include /etc/ld.so.conf.d/*.conf\n")
        layer.file("etc/ld.so.conf.d/00-cuda-compat.conf", f"/{folder}\n")
    return layer


@pytest.mark.parametrize(
    ("version", "host", "expected"),
    [
        ("590.44.01", "H100x1,driver=595.10.01,ubuntu=24.04", "driver-library-mismatch"),
        ("590.44.01", "RTX 4090x1,driver=580.95.05,ubuntu=24.04", "forward-compat-unsupported-hw"),
        ("590.44.01", "H100x1,driver=565.57.01,ubuntu=24.04", "forward-compat-unsupported-hw"),
        ("590.44.01", "H100x1,driver=580.95.05,ubuntu=24.04", ""),
    ],
)
def test_a_compat_libcuda_that_the_loader_finds_first(
    tmp_path: Path, version: str, host: str, expected: str
) -> None:
    layer = compat(torch(system(), "2.13.0+cu130", "13.0"), tmp_path, version, True, [535, 580])
    found = causes(judged(save(tmp_path / "i.tar", layer), host))
    traps = {"driver-library-mismatch", "forward-compat-unsupported-hw"}
    assert found & traps == ({expected} if expected else set())


def test_a_compat_libcuda_beside_the_path_may_be_used_by_the_toolkit(tmp_path: Path) -> None:
    plain = torch(system(), "2.13.0+cu130", "13.0")
    old = "H100x1,driver=535.183.01,ubuntu=22.04"
    assert "driver-too-old" in causes(judged(save(tmp_path / "a.tar", plain), old))
    layer = compat(plain, tmp_path, "590.44.01", False, [535])
    assert "driver-too-old" not in causes(judged(save(tmp_path / "b.tar", layer), old))


def test_the_requirement_of_the_image(tmp_path: Path) -> None:
    config = {"Env": ["NVIDIA_REQUIRE_CUDA=cuda>=13.0", "CUDA_VERSION=13.0.2"]}
    image = save(tmp_path / "i.tar", torch(system(), "2.13.0+cu130", "13.0"), config=config)
    assert "container-requirement-unsatisfied" in causes(judged(image, GEFORCE))


def test_an_engine_without_python_is_known_by_what_it_starts(tmp_path: Path) -> None:
    layer = Layer().file("app/llama-server", b"\x7fELF", 0o755)
    config = {"Entrypoint": ["/app/llama-server"]}
    found = report(save(tmp_path / "i.tar", layer, config=config), NEW)
    assert found.facts.workloads == ()
    assert found.diagnosis.targets[0].subject == "llama.cpp"


def test_what_an_image_holds_shows_in_the_facts(tmp_path: Path) -> None:
    config = {"Entrypoint": ["/opt/venv/bin/python3", "-m", "vllm.entrypoints.openai.api_server"],
              "Env": ["HF_TOKEN=hf_abcdefghijk", "VLLM_USE_V1=1"]}  # fmt: skip
    image = save(tmp_path / "i.tar", vllm(torch(system(), "2.13.0+cu130", "13.0")),
                 config=config, tag="vllm/vllm-openai:v0.33.0")  # fmt: skip
    scope = next(s for s in report(image, NEW).facts.scopes if s.kind == "image")
    assert scope.root == "/opt/venv"
    assert scope.image.ref == "vllm/vllm-openai:v0.33.0"
    assert str(scope.libc.value) == "2.36"
    assert scope.python.value is not None
    assert str(scope.python.value.version) == "3.12.7"
    assert (scope.env.value or {}).get("HF_TOKEN") == "[cut]"


def test_running_engines_of_the_host_are_not_the_question(tmp_path: Path) -> None:
    case = tmp_path / "case.yaml"
    case.write_text("gpus: [{name: L40S}]\ndriver: 580.95.05\nengine: sglang 0.5.0\n")
    image = save(tmp_path / "i.tar", vllm(torch(system(), "2.13.0+cu130", "13.0")))
    found = check(Sources(facts=(str(case),), image=str(image)))
    assert [t.subject for t in found.diagnosis.targets] == [f"image:{image}"]


def test_an_image_beside_another_target_is_refused() -> None:
    with pytest.raises(UsageError, match="two targets"):
        check(Sources(image="x", pythons=("/usr",)))


SCENES: dict[str, tuple[Any, str, str]] = {
    "cpu": (lambda layer: vllm(torch(layer, "2.13.0+cpu", "")), NEW, "cpu-only-build"),
    "cu130": (lambda layer: torch(layer, "2.13.0+cu130", "13.0"), GEFORCE, "driver-too-old"),
}


@pytest.mark.docker
@pytest.mark.parametrize("scene", SCENES)
def test_images_of_the_engine_are_judged_and_never_started(
    load: Load, tmp_path: Path, scene: str
) -> None:
    import docker

    make, host, expected = SCENES[scene]
    layer = make(system()).file("entry.sh", f"#!/bin/sh\ntouch {tmp_path}/canary\n", 0o755)
    layer.file("usr/bin/python3.12", f"#!/bin/sh\ntouch {tmp_path}/canary\n" + CANARY, 0o755)
    layer.special("dev/zero-device", b"3").link("etc/loop", "loop")
    ref = load(layer, f"{scene}:1", entrypoint='["/entry.sh"]', env={"VLLM_USE_V1": "1"})
    assert expected in causes(judged(ref, host))
    assert not (tmp_path / "canary").exists()
    client = docker.from_env()
    left = client.containers.list(all=True, sparse=True, filters={"ancestor": ref})
    client.close()
    assert left == []


@pytest.mark.docker
def test_an_image_that_is_not_there_gives_one_clear_error(engine: None) -> None:
    with pytest.raises(UsageError, match="has no image"):
        check(Sources(host=NEW, image="doctor-test/never:made"))


def test_verdicts_of_an_image_without_anything(tmp_path: Path) -> None:
    for layer in (Layer().file("hello", "x"), system()):
        found = report(save(tmp_path / "i.tar", layer), NEW)
        assert found.diagnosis.verdict is Verdict.CANNOT_TELL
        assert found.notes


SAMPLES = Path(__file__).parents[1] / "binaries" / "samples"


def _torch_with(layer: Layer, *files: tuple[str, bytes]) -> Layer:
    """A torch with these libraries, which its RECORD lists."""
    layer = torch(layer, "2.14.0+cu130", "13.0")
    lines = "".join(f"{name},sha256=x,1\n" for name, _ in files)
    layer.file(f"{SITE}/torch-2.14.0+cu130.dist-info/RECORD", lines)
    for name, data in files:
        layer.file(f"{SITE}/{name}", data, 0o755)
    return layer


@pytest.mark.parametrize("sample", sorted(p.name for p in SAMPLES.glob("*.so")))
def test_gpu_code_is_read_as_it_passes(tmp_path: Path, sample: str) -> None:
    name, data = "torch/lib/libtorch_cuda.so", (SAMPLES / sample).read_bytes()
    image = save(tmp_path / "i.tar", _torch_with(system(), (name, data)))
    found = report(image, NEW).facts.scope(f"image:{image}")
    assert found is not None
    (binary,) = found.binaries.value or ()
    expected = read_file(str(SAMPLES / sample), thorough=True)
    assert binary.kernels == expected.kernels
    assert binary.needs == expected.linkage.needed
    assert binary.package == "torch"


def test_an_image_without_code_for_the_card(tmp_path: Path) -> None:
    data = (SAMPLES / "plain.so").read_bytes()
    image = save(tmp_path / "i.tar", _torch_with(system(), ("torch/lib/libtorch_cuda.so", data)))
    old_card = "P100x1,driver=580.95.05,ubuntu=24.04"
    assert "cc-not-in-binary" in causes(judged(image, old_card))


CHECK = "_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_ib"
OTHER = "_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_jb"


@pytest.mark.parametrize(("defined", "is_right"), [(CHECK, True), (OTHER, False)])
def test_an_extension_of_another_torch(tmp_path: Path, defined: str, is_right: bool) -> None:
    own = Library("libc10.so", defines=(defined,)).write(tmp_path / "c10.so").read_bytes()
    layer = _torch_with(system(), ("torch/lib/libc10.so", own))
    layer.distribution("vllm", "0.33.0", files="vllm/_C.abi3.so,sha256=x,1\n")
    extension = Library(needed=("libc10.so",), undefined=(CHECK,))
    layer.shared_object(f"{SITE}/vllm/_C.abi3.so", extension, tmp_path)
    image = save(tmp_path / "i.tar", layer)
    scope = report(image, NEW).facts.scope(f"image:{image}")
    assert scope is not None
    by_package = {binary.package: binary for binary in scope.binaries.value or ()}
    assert by_package["vllm"].undefined == (() if is_right else (CHECK,))
    assert by_package["vllm"].unresolved == ()


def test_cann_is_the_one_in_the_image_and_the_driver_the_hosts(tmp_path: Path) -> None:
    layer = system().link("usr/local/Ascend/ascend-toolkit/latest", "./8.2.RC1")
    root = "usr/local/Ascend/ascend-toolkit/8.2.RC1"
    layer.file(
        f"{root}/aarch64-linux/ascend_toolkit_install.info",
        "package_name=Ascend-cann-toolkit\nversion=8.2.RC1\n",
    )
    layer.file(f"{root}/opp/built-in/op_impl/ai_core/tbe/kernel/ascend910b/x.o", "x")
    host = AscendFacts(driver=seen(Version("24.1.rc3")), cann=seen(Version("8.0.0")))
    with read_image(str(save(tmp_path / "i.tar", layer))) as opened:
        found = with_image(Facts(ascend=host), read_facts(opened)).ascend
    assert found.driver == host.driver
    assert found.cann.value is not None
    assert found.cann.value.same_as(Version("8.2.RC1"))
    assert found.kernels.value == "ascend910b"


def test_a_host_without_cards_needs_no_gpu_runtime(tmp_path: Path) -> None:
    engine = ContainerEngine("docker", runtimes=seen(("runc",), "/info"))
    layer = vllm(torch(system(), "2.14.0+cpu", ""))
    with read_image(str(save(tmp_path / "i.tar", layer))) as opened:
        image = read_facts(opened)
    bare = Facts(devices=seen((), "/sys"), container_engine=seen(engine, "docker"))
    facts = with_image(bare, image)
    found = diagnose(facts, load_matrix(), Request(scopes=(image.scope.id,)))
    assert "container-runtime" not in causes(found.targets[0])


def test_where_no_copy_fits_on_the_disk_all_but_symbols_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, data = "torch/lib/libtorch_cuda.so", (SAMPLES / "plain.so").read_bytes()
    image = save(tmp_path / "i.tar", _torch_with(system(), (name, data)))
    monkeypatch.setattr("doctor.images.kept._MOST_ON_DISK", 4096)
    with read_image(str(image)) as opened:
        found = opened.host.contents(f"/{SITE}/{name}")
        assert opened.host.local_path(f"/{SITE}/{name}") is None
    assert found == read_file(str(SAMPLES / "plain.so"), thorough=True)


def test_copies_of_libraries_are_small(tmp_path: Path) -> None:
    code = {".nv_fatbin": (1, bytes(80 << 20))}
    big = Library(defines=("f",), sections=code).write(tmp_path / "big.so").read_bytes()
    image = save(tmp_path / "i.tar", Layer().file("usr/lib/big.so", big))
    with read_image(str(image)) as opened:
        copy = opened.host.local_path("/usr/lib/big.so")
        assert copy is not None
        assert os.stat(copy).st_blocks * 512 < 60 << 20
        assert os.stat(copy).st_size == len(big)
