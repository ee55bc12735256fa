"""The kernel: modules, headers, DKMS, Secure Boot, IOMMU, and its log."""

from __future__ import annotations

from dataclasses import replace
from typing import Optional

from doctor.facts import HostFacts, Missing, Reading, missing, seen
from doctor.facts.host import DkmsModule
from doctor.probes.files import relay
from doctor.probes.host import Host

_DKMS = "/var/lib/dkms"
_FIRMWARE = "/sys/firmware"
# The GUID is EFI's own global namespace; four bytes of attributes come before the value.
_SECURE_BOOT = f"{_FIRMWARE}/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
_IOMMU_GROUPS = "/sys/kernel/iommu_groups"


def read(host: Host, facts: HostFacts) -> HostFacts:
    """Fill what the kernel says of itself; `facts` already name the running kernel."""
    return replace(
        facts,
        modules=read_modules(host),
        kernel_headers=read_headers(host, facts.kernel),
        dkms=read_dkms(host),
        secure_boot=read_secure_boot(host),
        iommu=read_iommu(host),
    )


def read_modules(host: Host) -> Reading[tuple[str, ...]]:
    """Names of the loaded modules."""
    text = host.read_text("/proc/modules")
    if text.is_absent:
        # A kernel that cannot load any.
        return seen((), text.at)
    if text.value is None:
        return relay(text)
    names = (line.split(" ", 1)[0] for line in text.value.splitlines())
    return seen(tuple(sorted(filter(None, names))), text.at)


def read_headers(host: Host, kernel: Reading[str]) -> Reading[str]:
    """The release whose headers are there: that of the running kernel, or none.

    A container does not have its kernel's modules folder: nothing can be told there.
    """
    if kernel.value is None:
        return relay(kernel)
    folder = f"/lib/modules/{kernel.value}"
    build = host.real_path(f"{folder}/build")
    if build.is_absent and not host.real_path(folder).is_known:
        return missing(Missing.NOT_STATED, folder)
    return seen(kernel.value, build.value) if build.value is not None else build


def read_dkms(host: Host) -> Reading[tuple[DkmsModule, ...]]:
    """What `dkms status` would say, from the tree that it reads."""
    names = host.list_dir(_DKMS)
    if names.is_absent:
        return seen((), _DKMS)
    if names.value is None:
        return relay(names)
    found: list[DkmsModule] = []
    for name in names.value:
        entries = host.list_dir(f"{_DKMS}/{name}").value or ()
        current = {
            host.real_path(f"{_DKMS}/{name}/{entry}").value
            for entry in entries
            if entry.startswith("kernel-")
        }
        for version in entries:
            if not version.startswith(("kernel-", "original_module")):
                found += _dkms_states(host, name, version, current)
    return seen(tuple(found), _DKMS)


def _dkms_states(
    host: Host, name: str, version: str, current: set[Optional[str]]
) -> list[DkmsModule]:
    """One entry per kernel that this version was built for; "added" if there is none."""
    folder = f"{_DKMS}/{name}/{version}"
    if host.real_path(f"{folder}/source").is_absent:
        return [DkmsModule(name, version, "", "broken")]
    found = []
    for kernel in host.list_dir(folder).value or ():
        if kernel in ("source", "build"):
            continue
        for arch in host.list_dir(f"{folder}/{kernel}").value or ():
            state = "installed" if f"{folder}/{kernel}/{arch}" in current else "built"
            found.append(DkmsModule(name, version, kernel, state))
    return found or [DkmsModule(name, version, "", "added")]


def read_secure_boot(host: Host) -> Reading[bool]:
    """Whether the firmware enforces signatures; a machine without EFI does not."""
    firmware = host.list_dir(_FIRMWARE)
    if firmware.value is None:
        return relay(firmware)
    if not firmware.value:
        # Container engines hide this folder behind an empty one.
        return missing(Missing.NOT_STATED, _FIRMWARE)
    if "efi" not in firmware.value:
        return seen(False, _FIRMWARE)
    text = host.read_text(_SECURE_BOOT, 16)
    if text.value is None:
        return relay(text)
    return seen(text.value.endswith("\x01"), text.at)


def read_iommu(host: Host) -> Reading[str]:
    """How devices see memory: "off", "passthrough", or "translated"."""
    groups = host.list_dir(_IOMMU_GROUPS)
    if groups.value is None:
        return relay(groups)
    if not groups.value:
        return seen("off", _IOMMU_GROUPS)
    kind = host.read_text(f"{_IOMMU_GROUPS}/{groups.value[0]}/type", 64)
    if kind.value is None:
        return relay(kind)
    return seen("passthrough" if kind.value.strip() == "identity" else "translated", kind.at)


def read_log(host: Host) -> Reading[str]:
    """The kernel's messages, if this user may read them."""
    answer = host.run(("dmesg",), timeout_s=5.0)
    if answer.value is None:
        return relay(answer)
    if answer.value.returncode == 0:
        return seen(answer.value.stdout, "dmesg")
    journal = host.run(("journalctl", "--dmesg", "--quiet", "--output=cat"), timeout_s=10.0)
    if journal.value is not None and journal.value.returncode == 0 and journal.value.stdout:
        return seen(journal.value.stdout, journal.at)
    return missing(Missing.NOT_PERMITTED, "dmesg")
