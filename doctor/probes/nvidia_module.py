"""The file of the NVIDIA kernel module: what the next boot would load.

After an upgrade it differs from what runs; after a failed start it is all there is.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Optional

from doctor.facts import Missing, Reading, Version, missing, seen
from doctor.probes import files
from doctor.probes.host import Host

_DEPENDENCIES_LIMIT = 16 << 20
_MODINFO_LIMIT = 1 << 20
_MODINFO_S = 10.0
_SIGNED = b"~Module signature appended~\n"

# Debian names its modules nvidia-current, nvidia-current-open, nvidia-tesla-<branch>.
_KO = re.compile(
    r"\S*/nvidia(?:-(?:current|tesla|legacy)(?:-(?!modeset|drm|uvm|peermem)\w+)*)?\.ko(?:\.\w+)?"
)
_FIELD = re.compile(r"^(version|license|signer|sig_id)[=:] *(\S[^\n]{0,200})$", re.MULTILINE)


class ModuleFile(NamedTuple):
    """What the file says: the driver's version, its flavour, whether it is signed."""

    version: Reading[Version]
    flavour: Reading[str]
    signed: Reading[bool]


def read(host: Host) -> ModuleFile:
    """The module for the running kernel; absent if the kernel's list of modules has none."""
    path = find(host)
    if path.value is None:
        gone = files.relay(path)
        return ModuleFile(gone, gone, gone)
    info = _from_elf(host, path.value) if path.value.endswith(".ko") else None
    text: Reading[str] = seen(info, path.value) if info else _from_modinfo(host, path.value)
    return parse(text)


def find(host: Host) -> Reading[str]:
    """The module's path, as the list of modules of the running kernel has it."""
    kernel = host.read_text("/proc/sys/kernel/osrelease", 256)
    if kernel.value is None:
        return files.relay(kernel)
    folder = f"/lib/modules/{kernel.value.strip()}"
    listed = host.read_text(f"{folder}/modules.dep", _DEPENDENCIES_LIMIT)
    if listed.is_absent:
        # Containers have their host's kernel without its modules.
        return missing(Missing.NOT_READABLE, folder)
    if listed.value is None:
        return files.relay(listed)
    lines = (line for line in listed.value.splitlines() if "/nvidia" in line)
    paths = [p for p in (line.partition(":")[0] for line in lines) if _KO.fullmatch(p)]
    if not paths:
        return missing(Missing.NOT_THERE, listed.at)
    return seen(paths[0] if paths[0].startswith("/") else f"{folder}/{paths[0]}", listed.at)


def parse(text: Reading[str]) -> ModuleFile:
    """Read lines of "version: ..." and the like, as modinfo prints them."""
    if text.value is None:
        gone = files.relay(text)
        return ModuleFile(gone, gone, gone)
    stated = dict(reversed(_FIELD.findall(text.value)))
    unread: Reading[str] = missing(Missing.NOT_READABLE, text.at)
    version = Version.maybe(stated.get("version", "").strip())
    kind = "open" if "GPL" in stated.get("license", "") else "proprietary"
    return ModuleFile(
        missing(Missing.NOT_READABLE, text.at) if version is None else seen(version, text.at),
        seen(kind, text.at) if "license" in stated else unread,
        seen("signer" in stated or "sig_id" in stated, text.at),
    )


def _from_elf(host: Host, path: str) -> Optional[str]:
    """The fields inside an uncompressed module, read without a program."""
    from doctor.binaries.elf import Elf
    from doctor.binaries.sources import BinaryUnreadable, open_file

    local = host.local_path(path)
    if local is None:
        return None
    try:
        with open_file(local) as source:
            section = Elf(source).section(".modinfo")
            if section is None or section.size > _MODINFO_LIMIT:
                return None
            fields = source.read(section.offset, section.size)
            tail = source.read(source.size - len(_SIGNED), len(_SIGNED))
    except BinaryUnreadable:
        return None
    text = fields.replace(b"\0", b"\n").decode("utf-8", "replace")
    return f"{text}\nsig_id=appended" if tail == _SIGNED else text


def _from_modinfo(host: Host, path: str) -> Reading[str]:
    """The same from modinfo, which unpacks compressed modules."""
    answer = host.run(("modinfo", path), _MODINFO_S)
    if answer.value is not None and answer.value.returncode == 0:
        return seen(answer.value.stdout, path)
    # A host without modinfo still has the module: it is unread, not absent.
    hung = answer.missing is Missing.TIMED_OUT
    return missing(Missing.TIMED_OUT if hung else Missing.NOT_READABLE, f"modinfo {path}")
