"""An image as facts: one scope, with what its engine's environment holds and would load."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace

from doctor.facts import (
    AscendFacts,
    Binary,
    DriverLibrary,
    Facts,
    HostFacts,
    ImageRef,
    Missing,
    Reading,
    Scope,
    Version,
    missing,
    seen,
)
from doctor.images.config import ImageConfig
from doctor.images.host import ImageHost, ImageLibraries
from doctor.images.reading import Opened
from doctor.images.tree import ImageTree
from doctor.probes import ascend_files, nvidia_libraries, scopes, system
from doctor.probes.engine_names import distributions_of, engine_of
from doctor.probes.environment import allowed
from doctor.probes.libraries_survey import Survey

_BACK_END = re.compile(r"libggml-(?:cuda|hip)[^/]*\.so(?:\.\d+)*")
_SHEBANG = re.compile(r"#!\s*(/\S+)")
_MOST_ENVIRONMENTS = 64
_AT = "image configuration"


@dataclass(frozen=True)
class ImageFacts:
    """What was read of an image: its scope, the engine that it starts, its copies of libcuda.

    `engine` is "" if none is recognised; of `ascend` CANN and what is installed beside it.
    """

    scope: Scope
    engine: str = ""
    libcuda: tuple[DriverLibrary, ...] = ()
    ascend: AscendFacts = AscendFacts()
    notes: tuple[str, ...] = ()

    @property
    def holds_engine(self) -> bool:
        """True if the environment has a distribution of the engine that the image starts."""
        return self.scope.package(*distributions_of(self.engine)) is not None


def read_facts(opened: Opened) -> ImageFacts:
    """Read everything that rules ask of an image; `opened` is not needed afterwards."""
    host, config = opened.host, opened.config
    engine = engine_of(_command(config))
    scope = _scope(opened, host, engine)
    libcuda = nvidia_libraries.read(host, nvidia_libraries.CUDA, config.env)
    refused = opened.tree.refused
    notes = (f"{refused} files of the image have no place in it and were left out",)
    ascend = ascend_files.read(host, config.env, HostFacts())
    return ImageFacts(scope, engine, libcuda.value or (), ascend, notes if refused else ())


def with_image(facts: Facts, image: ImageFacts) -> Facts:
    """The facts of a host as a container of the image would meet them.

    The driver's libraries come from the host, at the end of the search order; a copy in the
    image that the loader finds before them is what counts.
    """
    others = tuple(scope for scope in facts.scopes if scope.id != image.scope.id)
    nvidia = replace(facts.nvidia, libcuda=_libcuda(facts, image))
    if any(library.compat for library in image.libcuda):
        # The container toolkit may put the image's copy first: the host's answer is not final.
        nvidia = replace(nvidia, cuda_driver_api=missing(Missing.NOT_STATED, _AT))
    ascend = facts.ascend
    if ascend != AscendFacts() or image.ascend.cann.is_known:
        # Driver and firmware are the host's; the rest a container brings.
        own = image.ascend
        ascend = replace(ascend, cann=own.cann, kernels=own.kernels, nnal=own.nnal)
    return replace(
        facts,
        nvidia=nvidia,
        ascend=ascend,
        scopes=(*others, image.scope),
        workloads=(),
        notes=(*facts.notes, *image.notes),
    )


def _libcuda(facts: Facts, image: ImageFacts) -> Reading[tuple[DriverLibrary, ...]]:
    if facts.nvidia.driver.value is None:
        return missing(Missing.NOT_STATED, _AT)
    if any(library.compat and library.searched is None for library in image.libcuda):
        return seen(image.libcuda, image.scope.id)
    last = max((library.searched or 0 for library in image.libcuda), default=0) + 1
    mounted = DriverLibrary("libcuda.so.1 of the host", searched=last)
    return seen((*image.libcuda, mounted), image.scope.id)


def _scope(opened: Opened, host: ImageHost, engine: str) -> Scope:
    """The image as a scope: the environment that its engine lives in, its C library."""
    config = opened.config
    libc = system.read_libc(host)
    version = libc.value.version if libc.value else None
    box = Scope(
        id=f"image:{opened.ref}",
        kind="image",
        parent="host",
        image=_image(config),
        env=seen(allowed(config.env), _AT),
        libc=seen(version, libc.at) if version else missing(Missing.NOT_READABLE, libc.at),
    )
    found = _environment(opened.tree, host, config, engine)
    if found is None:
        # There may be an engine of a kind that is not looked for.
        nothing = missing(Missing.NOT_STATED, "search in the image")
        box = replace(box, packages=nothing, torch=nothing)
        return replace(box, binaries=seen(tuple(_back_ends(opened, host)), opened.ref))
    libraries = Survey(ImageLibraries(host), replace(found, kind="container"), config.env, False)
    binaries = (*libraries.binaries(), *_back_ends(opened, host))
    return replace(
        box,
        root=found.root,
        python=found.python,
        packages=found.packages,
        torch=found.torch,
        absent=found.absent,
        binaries=seen(binaries, found.root),
        libcuda=missing(Missing.NOT_STATED, _AT),
    )


def _environment(
    tree: ImageTree, host: ImageHost, config: ImageConfig, engine: str
) -> Scope | None:
    """The Python environment of the engine, else one with anything of interest, else the first."""
    named = [*_interpreters(host, config), *_environments(tree)]
    found = scopes.read(host, named)
    names = distributions_of(engine) if engine else ()
    mine = next((scope for scope in found if names and scope.package(*names)), None)
    return mine or next((s for s in found if s.torch.is_known), None) or next(iter(found), None)


def _environments(tree: ImageTree) -> list[str]:
    """Folders of virtual and conda environments anywhere in the image."""
    signs = ("/pyvenv.cfg", "/conda-meta")
    found = (path for path, _ in tree.walk() if path.endswith(signs))
    return [path.rpartition("/")[0] for path in found][:_MOST_ENVIRONMENTS]


def _interpreters(host: ImageHost, config: ImageConfig) -> Iterator[str]:
    """The Python that the image's command runs under: itself, or what its script names."""
    command = _command(config)
    if not command:
        return
    program = _which(host, command[0], config)
    match = _SHEBANG.match(host.read_text(program, 4096).value or "") if program else None
    for path in (match[1] if match else "", program):
        if path and "python" in path.rpartition("/")[2]:
            yield path


def _command(config: ImageConfig) -> tuple[str, ...]:
    """What the image starts, a shell around it taken off."""
    argv = config.argv
    if argv[1:2] == ("-c",) and len(argv) > 2:
        try:
            words = tuple(shlex.split(argv[2]))
        except ValueError:
            return argv
        return words[1:] if words[:1] == ("exec",) else words
    return argv


def _which(host: ImageHost, program: str, config: ImageConfig) -> str:
    if "/" in program:
        return program if program.startswith("/") else ""
    folders = config.env.get("PATH", "/usr/local/bin:/usr/bin:/bin").split(":")
    paths = (f"{folder}/{program}" for folder in folders if folder.startswith("/"))
    return next((path for path in paths if host.real_path(path).is_known), "")


def _back_ends(opened: Opened, host: ImageHost) -> Iterator[Binary]:
    """GPU back ends of engines that come without Python, wherever they lie."""
    for path, entry in opened.tree.walk():
        if _BACK_END.fullmatch(path.rpartition("/")[2]) and not entry.target:
            yield host.contents(path).binary(path, "llama.cpp")


def _image(config: ImageConfig) -> ImageRef:
    """Reference, digest, and what NVIDIA's images state of themselves."""
    require, cuda = config.env.get("NVIDIA_REQUIRE_CUDA"), config.env.get("CUDA_VERSION")
    version, absent = Version.maybe(cuda), missing(Missing.NOT_THERE, _AT)
    return ImageRef(
        ref=config.ref,
        digest=config.digest or config.id,
        require_cuda=seen(require, _AT) if require else absent,
        cuda=seen(version, _AT) if version else absent,
    )
