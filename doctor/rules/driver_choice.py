"""Which driver branch to move to, and the commands for it on each distribution.

Never a branch that drops one of the host's cards; of the supported ones the lowest that
is enough, since the smallest step breaks least.
"""

from __future__ import annotations

import shlex

from doctor.facts import OsRelease, Version
from doctor.findings import Remedy
from doctor.matrix import Matrix
from doctor.matrix.model import DriverBranch
from doctor.rules import cards
from doctor.rules.engine import Case

_LASTING = ("LTSB", "PB")


def suitable_branch(case: Case, matrix: Matrix, cuda: Version | None = None) -> DriverBranch | None:
    """The lowest supported branch that offers `cuda` and drives every NVIDIA card of the host."""
    devices = [d for d in case.facts.devices.value or () if d.vendor == "nvidia"]
    spans = [cards.branch_span(device, matrix) for device in devices]
    fitting = [
        row
        for row in lasting_branches(matrix)
        if _offers(row, cuda) and all(span.drives(row.branch) for span in spans)
    ]
    return fitting[0] if fitting else None


def lasting_branches(matrix: Matrix) -> list[DriverBranch]:
    """Branches for production that are still supported, lowest first."""
    rows = (r for r in matrix.drivers.branches if r.kind in _LASTING and not _ended(r, matrix))
    return sorted(rows, key=lambda row: row.branch)


def _ended(row: DriverBranch, matrix: Matrix) -> bool:
    """Text dates compare in order: "2026-06" is before "2026-11-29"."""
    return bool(row.eol) and row.eol[:1].isdigit() and row.eol[:7] < matrix.drivers.as_of[:7]


def _offers(row: DriverBranch, cuda: Version | None) -> bool:
    """A branch runs every build of its own CUDA major, and of those before it."""
    if cuda is None:
        return True
    own = Version.maybe(row.cuda)
    return own is not None and (own.major or 0) >= (cuda.major or 0)


def install_branch(case: Case, matrix: Matrix, cuda: Version | None = None) -> tuple[Remedy, ...]:
    """The remedy that moves the host to a suitable branch; none if no branch is suitable."""
    row = suitable_branch(case, matrix, cuda)
    if row is None:
        return ()
    offered = f", which offers CUDA {row.cuda}" if row.cuda else ""
    return (
        Remedy(
            action=f"on the host, install driver branch {row.branch}{offered}, and reboot",
            commands=branch_commands(case.facts.host.os.value, row.branch, _is_open(case, matrix)),
            role="nvidia_driver",
            risk="running GPU work stops; other software may need the present branch",
            reboot=True,
            undo="needs-reboot",
        ),
    )


def _is_open(case: Case, matrix: Matrix) -> bool:
    """Open modules unless a card is older than they support."""
    devices = [d for d in case.facts.devices.value or () if d.vendor == "nvidia"]
    return all(cards.shared(d, matrix, "open_modules") != "no" for d in devices)


def branch_commands(system: OsRelease | None, branch: int, is_open: bool) -> tuple[str, ...]:
    """Commands that install a driver branch; none for a system whose packages are not known.

    Source: NVIDIA Driver Installation Guide and Ubuntu's server driver documentation.
    """
    suffix = "-open" if is_open else ""
    meta = "nvidia-open" if is_open else "cuda-drivers"
    match family(system):
        case "ubuntu":
            return (
                "sudo apt-get update",
                "sudo apt-get install linux-headers-$(uname -r)",
                f"sudo apt-get install nvidia-driver-{branch}-server{suffix}",
                "sudo reboot",
            )
        case "debian":
            return (
                "sudo apt-get update",
                f"sudo apt-get install nvidia-driver-pinning-{branch}",
                f"sudo apt-get install {meta}",
                "sudo reboot",
            )
        case "rhel":
            stream = f"{branch}-open" if is_open else f"{branch}-dkms"
            return (
                f"sudo dnf module switch-to -y nvidia-driver:{stream} --allowerasing",
                f"sudo dnf install -y {meta}",
                "sudo reboot",
            )
        case "suse":
            return (f"sudo zypper install --force-resolution {meta}", "sudo reboot")
    return ()


def family(system: OsRelease | None) -> str:
    """Package family of a distribution: ubuntu, debian, rhel, suse, or "" if not known."""
    if system is None:
        return ""
    names = (system.id.lower(), *(name.lower() for name in system.like))
    for wanted, members in _FAMILIES.items():
        if any(name in members for name in names):
            return wanted
    return ""


_FAMILIES = {
    "ubuntu": ("ubuntu",),
    "debian": ("debian",),
    "rhel": ("rhel", "centos", "rocky", "almalinux", "ol", "amzn", "fedora"),
    "suse": ("sles", "suse", "opensuse", "opensuse-leap"),
}


def package_commands(
    system: OsRelease | None, names: dict[str, tuple[str, ...]]
) -> tuple[str, ...]:
    """Install commands for packages whose names are given by family; "" holds for the rest."""
    kind = family(system)
    packages = names.get(kind) or (names.get("debian", ()) if kind == "ubuntu" else ())
    if not packages:
        return ()
    tool = {"rhel": "dnf install -y", "suse": "zypper install"}.get(kind, "apt-get install")
    return (f"sudo {tool} {shlex.join(packages)}",)
