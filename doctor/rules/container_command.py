"""What the command that starts a container asks for, where its engine cannot give that."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.facts import Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules.container_runtime import GUIDE, TOOLKIT_DOMAIN
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.framework import wants_cpu

_ASKED = re.compile(
    r"--gpus\b|--runtime[ =]nvidia\b|\bdriver(?: is)?:? ?[\"']?nvidia\b|\bruntime: nvidia\b|"
    r"--device[ =]nvidia\.com/gpu\b",
    re.IGNORECASE,
)
_GPUS = re.compile(r"--gpus[ =]?[\"']?(?:all|device|\d)?", re.IGNORECASE)
_CDI = re.compile(r"--device[ =]nvidia\.com/gpu", re.IGNORECASE)
_PODMAN = re.compile(r"\bpodman\b(?:\s?(?:version|v)?\s?(\d{1,2}\.\d{1,2}(?:\.\d{1,2})?))?", re.I)
_NODES = re.compile(r"--device[ =]/dev/(?:kfd|dri)\b")
_KEEPS_GROUPS = re.compile(r"--group-add[ =]keep-groups|run\.oci\.keep_original_groups", re.I)
_DEFAULT_MIB = 64
_IS_ROOT = re.compile(r"\bsudo podman\b|\brootful\b|--privileged\b", re.I)


def _text(case: Case) -> str:
    """What is told of the container; raises where nothing is."""
    text = case.scope.runtime.value or ""
    if not text:
        raise NotApplicable("nothing is told of a container")
    return text


@rule("CTR106", cause="container-runtime", severity=Severity.ERROR)
def gpu_asked_of_macos(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A container on macOS is to get an NVIDIA GPU, which engines there cannot hand over.

    What: the operating system against what the command or the compose file asks for.
    Why: on macOS containers run in a virtual machine without NVIDIA's driver or runtime:
        "could not select device driver nvidia with capabilities: [[gpu]]".
    How to fix: leave the request out and run on the CPU, run the engine on macOS itself, where
        it uses Metal, or use a Linux host.
    Silent when: the system is another one, or no GPU is asked for.
    Sources: Docker documentation, GPU support in Docker Desktop.
    """
    asked = _ASKED.search(_text(case))
    system = case.facts.host.os.known("host.os")
    if asked is not None and system.id == "macos":
        yield Fault(
            "a container on macOS is asked to have an NVIDIA GPU, and none can be handed over",
            evidence=(Evidence(asked[0], case.scope.runtime.at), Evidence("macOS", "os")),
            remedies=(
                Remedy("leave the request for a GPU out: the container then runs on the CPU"),
                Remedy("or run the engine on macOS itself, where it can use Metal"),
            ),
            sources=("https://docs.docker.com/desktop/features/gpu/",),
        )


@rule("CTR107", cause="container-runtime", severity=Severity.WARNING)
def podman_ignores_gpus(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Podman is told --gpus, which it took for years without doing anything.

    What: the options of the command, and the version of Podman, where they are told.
    Why: the option was there for the sake of Docker's command line only; the container starts
        and has no device.
    How to fix: hand the GPUs over through CDI.
    Silent when: the devices are asked for through CDI as well, or that version of Podman
        knows the option.
    Sources: nvidia-container-toolkit issue 126, Podman issue 21156 (claims in the matrix).
    """
    text = _text(case)
    podman, asked = _PODMAN.search(text), _GPUS.search(text)
    box = case.facts.container_engine.value
    if podman is None or asked is None or _CDI.search(text) or wants_cpu(case):
        raise NotApplicable("not Podman, or it is not asked by --gpus alone")
    known = Version.maybe(podman[1] or "") or (box.version.value if box is not None else None)
    for match in matrix.claims(TOOLKIT_DOMAIN, "podman-option"):
        since = Version(match.claim.value)
        if known is None or known.older_than(since) is True:
            yield Fault(
                f"Podman {f'{known} ' if known else ''}before {since} ignores --gpus",
                evidence=(Evidence(asked[0], case.scope.runtime.at),),
                remedies=(
                    Remedy(
                        "hand the GPUs over through CDI",
                        (
                            "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",
                            "podman run --device nvidia.com/gpu=all ...",
                        ),
                        role="container_toolkit",
                    ),
                ),
                sources=(*match.claim.source, GUIDE),
            )


@rule("DEV143", cause="device-permission", severity=Severity.WARNING)
def rootless_drops_groups(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A rootless engine gets AMD's nodes, and its container loses the groups that open them.

    What: the options of the command that starts it, where Podman or Docker runs without root.
    Why: in a rootless container the process has lost the user's supplementary groups, and the
        group that is added by name is the container's own: "Unable to open /dev/kfd
        read-write: Permission denied".
    How to fix: put the user outside into the groups of the nodes, and keep them inside.
    Silent when: the groups are kept, or the engine runs as root.
    Sources: Podman's troubleshooting guide, devices in rootless containers; ROCm issue 1549.
    """
    text = _text(case)
    box = case.facts.container_engine.known("container_engine")
    nodes = _NODES.search(text)
    if nodes is None or box.rootless.known("rootless") is False:
        raise NotApplicable("not a rootless engine with AMD's device nodes")
    if box.name != "podman" and not box.rootless.value:
        raise NotApplicable("Docker runs as root by itself")
    if _KEEPS_GROUPS.search(text) is None and _IS_ROOT.search(text) is None:
        yield Fault(
            "a rootless engine drops the groups that may open /dev/kfd and /dev/dri",
            evidence=(Evidence(nodes[0], case.scope.runtime.at), Evidence("rootless", "container")),
            remedies=(
                Remedy(
                    "put the user into the groups of the nodes and keep them in the container",
                    (
                        "sudo usermod -aG render,video $USER",
                        "podman run --group-add keep-groups --device /dev/kfd ...",
                    ),
                ),
            ),
            sources=("https://github.com/containers/podman/blob/main/troubleshooting.md",),
        )


@rule("HST172", cause="shm-too-small", severity=Severity.WARNING)
def loader_workers_in_container(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Data is loaded by worker processes in a container that was given no shared memory.

    What: notes that tell of a DataLoader with workers, in a container of which no option for
        shared memory is told, or no more than the default.
    Why: the workers hand batches over through /dev/shm, of which a container has 64 MB unless
        it asks for more: "DataLoader worker is killed by signal: Bus error".
    How to fix: start the container with the host's IPC or a larger --shm-size; in a pod mount
        an emptyDir of medium Memory at /dev/shm.
    Silent when: the size or an option for it is told, or no container.
    Sources: PyTorch documentation, Docker images; Docker run reference, --shm-size.
    """
    if case.scope.kind != "container":
        raise NotApplicable("no container")
    size = case.scope.shm_mib.value
    words = _NOTHING.sub("", case.scope.runtime.value or "")
    is_told = size is None and _SHARED.search(words)
    if is_told or (size is not None and size > _DEFAULT_MIB):
        raise NotApplicable("shared memory is told of")
    told = next((note for note in case.facts.notes if _LOADERS.search(note)), None)
    if told is not None:
        yield Fault(
            "workers of a DataLoader share /dev/shm, of which a container has 64 MB by default",
            evidence=(Evidence(told, "notes"),),
            remedies=(
                Remedy("use the host's shared memory", ("docker run --ipc=host ...",)),
                Remedy("or ask for more", ("docker run --shm-size=16g ...",)),
                Remedy("in a pod mount an emptyDir of medium Memory at /dev/shm"),
            ),
            sources=("https://docs.docker.com/reference/cli/docker/container/run/",),
        )


@rule("DRV125", cause="driver-library-mismatch", severity=Severity.WARNING)
def driver_installed_in_container(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Somebody installed an NVIDIA driver inside the container.

    What: what is told of the container, against where a driver belongs.
    Why: the kernel module is the host's, and NVIDIA's runtime brings the libraries of that
        version; those of another driver inside are found first: "Failed to initialize NVML:
        Driver/library version mismatch".
    How to fix: remove the driver's packages from the container, or make it anew; a toolkit of
        CUDA without its driver is enough.
    Silent when: nothing is told of a driver that was installed inside.
    Sources: NVIDIA Container Toolkit documentation; NVIDIA CUDA installation guide, meta
        packages.
    """
    if case.scope.kind != "container":
        raise NotApplicable("no container")
    told = (case.scope.runtime.value or "", *case.facts.notes)
    said = next(filter(None, map(_DRIVER_INSIDE.search, told)), None)
    if said is not None:
        yield Fault(
            "a driver is installed inside the container, beside that of the host",
            evidence=(Evidence(said[0], "stated"),),
            remedies=(
                Remedy("remove the driver's packages from the container, or make it anew"),
                Remedy("install a toolkit of CUDA without its driver (cuda-toolkit)"),
            ),
            sources=(GUIDE, "https://docs.nvidia.com/cuda/cuda-installation-guide-linux/"),
        )


_DRIVER_INSIDE = re.compile(
    r"\b(?:inside|in|within) (?:the|a|its|this) container\b[^.;\n]{0,40}"
    r"\b(?:install(?:s|ed|ing)?|updat\w{1,3}|upgrad\w{1,3})\b[^.;\n]{0,25}\bdrivers?\b|"
    r"\b(?:install(?:s|ed|ing)?|updat\w{1,3}|upgrad\w{1,3})\b[^.;\n]{0,30}\bdrivers?\b[^.;\n]{0,15}"
    r"\b(?:inside|in|within) (?:the|a|its|this) container\b|"
    r"\bdriver\b[^.;\n]{0,15}\b(?:is |was )?(?:run|started|executed)\b[^.;\n]{0,10}"
    r"\b(?:inside|in|within) (?:the|a|its|this) (?:lxc |lxd )?container\b(?![^;\n]{0,12}"
    r"\bwith --no-kernel-modules?\b)",
    re.IGNORECASE,
)
_NOTHING = re.compile(r"\bnothing (?:is )?(?:mounted )?(?:on|at) /dev/shm", re.IGNORECASE)
_SHARED = re.compile(r"--shm-size|--ipc|/dev/shm|\bshm_size\b|\bipc: ?host", re.IGNORECASE)
_LOADERS = re.compile(
    r"\bdata[- ]?loaders?\b[^.;\n]{0,40}\bworkers?\b|\bworkers? of (?:the |a )?data[- ]?loader|"
    r"\bnum_workers\b",
    re.IGNORECASE,
)

RULES: tuple[Rule, ...] = (
    gpu_asked_of_macos,
    podman_ignores_gpus,
    rootless_drops_groups,
    loader_workers_in_container,
    driver_installed_in_container,
)
