"""Steps for machines whose drivers doctor does not change by itself: dnf. Pure.

They are made from sourced data and recorded facts, and shown; nothing of them was ever run on such
a machine, so each says that it is unverified and that a person must carry it out.
"""

from __future__ import annotations

from doctor.facts import Facts
from doctor.matrix import Matrix
from doctor.matrix.packaging import Companion, Repository, Scheme, packaging, repository_for
from doctor.provision.driver.choose import Wish
from doctor.provision.driver.names import asked_for, filled
from doctor.provision.driver.sets import OPEN
from doctor.provision.step import NEEDS_REBOOT, PERSON, Step

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
