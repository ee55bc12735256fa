"""Steps for machines whose drivers doctor does not change by itself: dnf, Ascend. Pure.

They are made from sourced data and recorded facts, and shown; nothing of them was ever run on such
a machine, so each says that it is unverified and that a person must carry it out.
"""

from __future__ import annotations

from msgspec import Struct

from doctor.facts import Facts
from doctor.matrix import Matrix
from doctor.matrix.packaging import Companion, Repository, Scheme, packaging, repository_for
from doctor.provision.driver.choose import Wish
from doctor.provision.driver.names import asked_for, filled
from doctor.provision.driver.sets import OPEN
from doctor.provision.step import NEEDS_REBOOT, NONE, PERSON, Step

UNVERIFIED = "unverified: made from documents, never run on such a machine by doctor's tests"
_LIST = "/etc/yum.repos.d/doctor-cuda.repo"


def dnf_steps(scheme: Scheme, wish: Wish, facts: Facts, matrix: Matrix) -> tuple[Step, ...]:
    """A branch by dnf: repository, driver in its stream, versionlock."""
    system = facts.host.os.value
    name = f"{system.id} {system.version}" if system else ""
    repository = repository_for(matrix, _as_rhel(name))
    kernel = facts.host.kernel.value or ""
    packages = asked_for(scheme, wish.branch, wish.modules, kernel, False)
    stream = scheme.stream_open if wish.modules == OPEN else scheme.stream_proprietary
    fabric = [n for names in scheme.fabric.values() for n in filled(names, wish.branch).split("|")]
    if wish.fabric:
        packages = [*packages, fabric[0]]
    # A glob on nvidia misses parts of the fabric, so names are locked.
    held = [*packages, *(n for n in fabric if n not in packages)]
    steps = [] if repository is None else [_dnf_repository(repository, facts, matrix)]
    return (
        *steps,
        _by_person(
            "install_driver",
            "nvidia_driver_dnf",
            f"install branch {wish.branch} with {wish.modules} modules",
            {
                "nvidia_driver_dnf_packages": packages,
                "nvidia_driver_dnf_stream": filled(stream, wish.branch) if stream else "",
                "nvidia_driver_dnf_headers": [
                    filled(h, wish.branch, kernel) for h in scheme.headers
                ],
                "nvidia_driver_dnf_version": str(wish.branch),
            },
        ),
        _by_person(
            "hold_driver",
            "driver_hold",
            f"lock {len(held)} packages at their versions",
            {"driver_hold_manager": "dnf", "driver_hold_hold": held},
        ),
        *([_dnf_monitor(wish.monitor)] if wish.monitor else ()),
    )


def _dnf_monitor(row: Companion) -> Step:
    return _by_person(
        "enable_dcgm",
        "dcgm",
        f"install {row.packages[0]} and start {row.units[0]}",
        {
            "dcgm_packages": list(row.packages),
            "dcgm_conflicts": list(row.conflicts),
            "dcgm_unit": row.units[0],
        },
    )


def _as_rhel(system: str) -> str:
    """Rebuilds use the repositories of the system that they rebuild."""
    name, _, version = system.partition(" ")
    return system if name == "amzn" else f"rhel {version.partition('.')[0]}"


def _dnf_repository(repository: Repository, facts: Facts, matrix: Matrix) -> Step:
    url = repository_url(repository, facts, matrix)
    text = (
        f"[doctor-cuda]\nname=NVIDIA CUDA for {repository.system}\nbaseurl={url}\nenabled=1\n"
        f"gpgcheck=1\ngpgkey={url}/{repository.key}.pub\n"
    )
    files = [{"path": _LIST, "text": text, "mode": 0o644}]
    return _by_person(
        "lay_repositories",
        "repositories",
        f"let the machine know NVIDIA's repository for {repository.system}",
        {"repositories_files": files, "repositories_remove": []},
    )


def repository_url(repository: Repository, facts: Facts, matrix: Matrix) -> str:
    """The address of a repository for the machine's architecture."""
    domain = packaging(matrix)
    arch = domain.arches.get(facts.host.arch.value or "x86_64", "x86_64")
    return domain.repository_url.format(folder=repository.folder, arch=arch)


class Installer(Struct, frozen=True):
    """A file of the vendor's that lies on the machine, with its hash."""

    path: str
    sha256: str


class AscendFiles(Struct, frozen=True, kw_only=True):
    """What a person has fetched for NPUs; `creates` is what the toolkit leaves behind."""

    driver: Installer
    firmware: Installer | None = None
    cann: tuple[Installer, ...] = ()
    creates: tuple[str, ...] = ()
    runtime: Installer | None = None


def ascend_steps(facts: Facts, files: AscendFiles) -> tuple[Step, ...]:
    """NPU driver and firmware, CANN, the runtime for containers, for these facts."""
    first = facts.ascend.driver.value is None
    in_vm = facts.host.platform.value == "vm"
    steps = [] if facts.host.platform.value == "container" else [_npu(files, first, in_vm)]
    if files.cann:
        rows = [
            {"path": item.path, "sha256": item.sha256, "creates": creates}
            for item, creates in zip(files.cann, files.creates, strict=True)
        ]
        steps.append(
            _by_person(
                "install_cann",
                "ascend_cann",
                f"install {len(rows)} parts of CANN, the toolkit first",
                {"ascend_cann_installers": rows},
            )
        )
    if files.runtime is not None:
        steps.append(
            _by_person(
                "install_runtime",
                "ascend_container_runtime",
                "let containers see the NPUs",
                {
                    "ascend_container_runtime_installer": files.runtime.path,
                    "ascend_container_runtime_sha256": files.runtime.sha256,
                },
            )
        )
    return tuple(steps)


def _npu(files: AscendFiles, first: bool, in_vm: bool) -> Step:
    """In a virtual machine the firmware is the host's."""
    firmware = None if in_vm else files.firmware
    order = "driver, then firmware" if first else "firmware, then driver"
    return _by_person(
        "install_npu_driver",
        "ascend_driver",
        f"install {'the driver' if firmware is None else order}",
        {
            "ascend_driver_installer": files.driver.path,
            "ascend_driver_sha256": files.driver.sha256,
            "ascend_driver_firmware": firmware.path if firmware else "",
            "ascend_driver_firmware_sha256": firmware.sha256 if firmware else "",
            "ascend_driver_first": first,
        },
        undo=NONE,
    )


def _by_person(
    name: str, role: str, title: str, variables: dict[str, object], undo: str = NEEDS_REBOOT
) -> Step:
    return Step(
        name=name,
        role=role,
        title=title,
        reason=UNVERIFIED,
        risk="a reboot is needed; without a simulation nobody knows what else would move",
        undo=undo,
        actor=PERSON,
        variables=variables,
    )
