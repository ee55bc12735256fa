"""Worlds inside a host that have libraries of their own, and the work done in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Optional

from doctor.facts.codes import Kernels
from doctor.facts.host import Limits
from doctor.facts.reading import UNSTATED, Reading
from doctor.facts.record import Record
from doctor.facts.version import Version

# The one scope that a report speaks of, whatever it was pasted from.
REPORTED = "reported"


@dataclass(frozen=True, repr=False, eq=False)
class PythonInfo(Record):
    """A Python: version, ABI suffix ("t" for free-threaded), implementation, executable."""

    version: Version
    implementation: str = "cpython"
    abi: str = ""
    executable: str = ""


@dataclass(frozen=True, repr=False, eq=False)
class Package(Record):
    """One installed distribution; `name` is normalised (PEP 503), `requires` are raw lines.

    `broken` says why its metadata could not be read; then `version` is None.
    """

    name: str
    version: Optional[Version] = None
    requires: tuple[str, ...] = ()
    requires_python: str = ""
    tags: tuple[str, ...] = ()
    location: str = ""
    broken: str = ""


@dataclass(frozen=True, repr=False, eq=False)
class TorchBuild(Record):
    """torch/version.py, read as text: which CUDA or HIP the build was made for.

    `cuda` and `hip` are absent readings for builds without them (a CPU build).
    """

    version: Version
    cuda: Reading[Version] = UNSTATED
    hip: Reading[Version] = UNSTATED
    git: str = ""


@dataclass(frozen=True, repr=False, eq=False)
class Binary(Record):
    """What one shared library holds and needs.

    `kernels` are its groups of alternative GPU code; `needs` its NEEDED names,
    `unresolved` those that no searched folder has, `undefined` C++/CUDA symbols that no
    library which would load defines; `glibc`, `glibcxx` the symbol versions it asks for;
    `declared` marks code targets taken from a statement and not from machine code;
    `unreadable` says why nothing could be read. `shadowed` are copies that the
    environment puts first ("libcudart.so.12: /a hides /b"), `other_majors` libraries of
    another major number in place of an unresolved one ("libcudart.so.12: libcudart.so.13"),
    `versions_missing` symbol versions that the library which would load does not define
    ("libstdc++.so.6: GLIBCXX_3.4.32"). `compiler` is the CUDA version of a PTX compiler.
    """

    path: str
    package: str = ""
    machine: str = ""
    kernels: tuple[Kernels, ...] = ()
    gfx: tuple[str, ...] = ()
    soc: tuple[str, ...] = ()
    isa: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    unresolved: Optional[tuple[str, ...]] = None
    shadowed: tuple[str, ...] = ()
    undefined: tuple[str, ...] = ()
    glibc: Optional[Version] = None
    glibcxx: Optional[Version] = None
    cuda: Optional[Version] = None
    toolkit: Optional[Version] = None
    build_id: str = ""
    declared: bool = False
    unreadable: str = ""
    other_majors: tuple[str, ...] = ()
    versions_missing: tuple[str, ...] = ()
    compiler: Optional[Version] = None


@dataclass(frozen=True, repr=False, eq=False)
class ImageRef(Record):
    """A container image: reference, digest, its NVIDIA_REQUIRE_CUDA and CUDA_VERSION."""

    ref: str = ""
    digest: str = ""
    require_cuda: Reading[str] = UNSTATED
    cuda: Reading[Version] = UNSTATED


@dataclass(frozen=True, repr=False, eq=False)
class Scope(Record):
    """One world of libraries: `kind` host, container, image, venv, conda or system.

    `parent` is the id of the scope it lives in, `root` its path. `variants` are build
    variants as stated ("torch" → "cu126"), `built_for` what a package was built against.
    `absent` are things that were looked for in this scope and are not there. `libcuda` is
    the real path of the libcuda.so.1 that the loader would take here. `closed` are the words by
    which somebody says that the devices may not be opened here, `lost` that they were there
    at first and are no longer.
    """

    id: str
    kind: str
    parent: str = ""
    root: str = ""
    image: ImageRef = ImageRef()
    python: Reading[PythonInfo] = UNSTATED
    packages: Reading[tuple[Package, ...]] = UNSTATED
    torch: Reading[TorchBuild] = UNSTATED
    binaries: Reading[tuple[Binary, ...]] = UNSTATED
    env: Reading[dict[str, str]] = UNSTATED
    shm_mib: Reading[int] = UNSTATED
    devices_visible: Reading[tuple[str, ...]] = UNSTATED
    runtime: Reading[str] = UNSTATED
    mounts: Reading[tuple[str, ...]] = UNSTATED
    variants: dict[str, str] = field(default_factory=dict)
    built_for: dict[str, str] = field(default_factory=dict)
    absent: Reading[tuple[str, ...]] = UNSTATED
    libc: Reading[Version] = UNSTATED
    libcuda: Reading[str] = UNSTATED
    closed: Reading[str] = UNSTATED
    lost: Reading[str] = UNSTATED

    def package(self, *names: str) -> Optional[Package]:
        """First installed distribution of these (normalised) names, or None."""
        for name in names:
            for package in self.packages.value or ():
                if package.name == name:
                    return package
        return None

    def lacks(self, *names: str) -> Optional[bool]:
        """Tell whether none of these distributions is installed; None if that is not known."""
        if self.package(*names) is not None:
            return False
        stated = set(self.absent.value or ())
        if stated.issuperset(names):
            return True
        known = self.packages.is_known and not self.packages.partial
        return True if known or self.packages.is_absent else None


@dataclass(frozen=True, repr=False, eq=False)
class ContainerEngine(Record):
    """Docker, podman or containerd on the host, as far as its files and socket tell."""

    name: str
    version: Reading[Version] = UNSTATED
    runtimes: Reading[tuple[str, ...]] = UNSTATED
    default_runtime: Reading[str] = UNSTATED
    context: Reading[str] = UNSTATED
    rootless: Reading[bool] = UNSTATED
    cgroup_driver: Reading[str] = UNSTATED
    cdi: Reading[tuple[str, ...]] = UNSTATED
    cdi_driver: Reading[Version] = UNSTATED
    config: Reading[dict[str, str]] = UNSTATED


@dataclass(frozen=True, repr=False, eq=False)
class Workload(Record):
    """An engine with its arguments in a scope, running (`pid`) or wanted.

    `args` use the engine-neutral names of the field report (model, quantization,
    dtype, tensor_parallel_size, max_model_len, kv_cache_dtype ...); values are JSON.
    `model` holds keys of the model's config.json that were read (architectures,
    num_attention_heads, quantization_config ...); `measured` figures that the engine
    itself printed, in GiB or tokens; `plan` facts of a serialized TensorRT engine.
    `limits` are those of its process; `libraries` the drivers and runtimes that its processes
    have mapped: a path that ends in " (deleted)" was replaced on disk since. `building` are
    the words by which somebody says that it is compiled here, `plainly` those by which it was
    installed from the default index, `symptoms` those that tell how it runs ("device_idle").
    """

    id: str
    engine: str
    scope: str = "host"
    devices: tuple[str, ...] = ()
    pid: Optional[int] = None
    version: Reading[Version] = UNSTATED
    args: Reading[dict[str, Any]] = UNSTATED
    env: Reading[dict[str, str]] = UNSTATED
    model: Reading[dict[str, Any]] = UNSTATED
    measured: Reading[dict[str, float]] = UNSTATED
    plan: Reading[dict[str, str]] = UNSTATED
    limits: Limits = Limits()
    libraries: Reading[tuple[str, ...]] = UNSTATED
    building: Reading[str] = UNSTATED
    plainly: Reading[str] = UNSTATED
    symptoms: Reading[dict[str, str]] = UNSTATED
