"""The system: distribution, kernel, architecture, C library, init."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Optional

from doctor.facts import (
    HostFacts,
    Libc,
    Missing,
    OsRelease,
    Reading,
    Version,
    missing,
    seen,
)
from doctor.probes.files import relay
from doctor.probes.host import Host

LIBRARY_FOLDERS = (
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
)
# The loader that programs name as their interpreter, and the machine that it is for.
_LOADERS = {
    "/lib64/ld-linux-x86-64.so.2": "x86_64",
    "/lib/ld-linux-aarch64.so.1": "aarch64",
    "/lib64/ld64.so.2": "ppc64le",
    "/lib/ld-musl-x86_64.so.1": "x86_64",
    "/lib/ld-musl-aarch64.so.1": "aarch64",
}
_MUSL = tuple(loader for loader in _LOADERS if "musl" in loader)
_ASSIGNMENT = re.compile(r"([A-Z_]+)=(.*)")
_GLIBC = re.compile(r"glibc (\d[\d.]*)")
_GLIBC_FILE = re.compile(r"/libc-(\d[\d.]*)\.so$")
_GLIBC_TEXT = re.compile(r"GNU C Library[^\n\0]{0,200}version (\d+\.\d+)")
_LIBC_LIMIT = 8 << 20
_STDCXX = re.compile(r"/libstdc\+\+\.so\.6\.0\.([0-9]{1,6})$")
_APK_MUSL = re.compile(r"^P:musl\nV:(\d[\d.]*)", re.MULTILINE)


def read(host: Host, facts: HostFacts) -> HostFacts:
    """Fill what names the system."""
    return replace(
        facts,
        os=read_os(host),
        kernel=_line(host, "/proc/sys/kernel/osrelease"),
        arch=read_arch(host),
        libc=read_libc(host),
        libstdcxx=read_libstdcxx(host),
        init=_line(host, "/proc/1/comm"),
        boot=read_boot(host),
    )


def _line(host: Host, path: str) -> Reading[str]:
    text = host.read_text(path, 1 << 12)
    return seen(text.value.strip(), path) if text.value is not None else text


def read_os(host: Host) -> Reading[OsRelease]:
    """The distribution as os-release names it."""
    text = host.read_text("/etc/os-release")
    if text.is_absent:
        text = host.read_text("/usr/lib/os-release")
    return parse_os_release(text.value, text.at) if text.value is not None else relay(text)


def parse_os_release(text: str, at: str = "") -> Reading[OsRelease]:
    """Read os-release; it is `not-readable` without an ID."""
    stated = {}
    for line in text.splitlines():
        match = _ASSIGNMENT.fullmatch(line.strip())
        if match:
            stated[match[1]] = _unquoted(match[2])
    if not stated.get("ID"):
        return missing(Missing.NOT_READABLE, at)
    like = tuple(stated.get("ID_LIKE", "").split())
    pretty = stated.get("PRETTY_NAME", "")
    return seen(OsRelease(stated["ID"], stated.get("VERSION_ID", ""), like, pretty), at)


def _unquoted(text: str) -> str:
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        text = text[1:-1]
    return re.sub(r"\\(.)", r"\1", text)


def read_arch(host: Host) -> Reading[str]:
    """The machine as the kernel calls it; of a tree, the machine that its loader is for."""
    stated = _line(host, "/proc/sys/kernel/arch")
    if stated.value:
        return stated
    answer = host.run(("uname", "-m"))
    if answer.value is not None and answer.value.returncode == 0:
        return seen(answer.value.stdout.strip(), answer.at)
    found = {name: path for path, name in _LOADERS.items() if host.real_path(path).is_known}
    if len(found) == 1:
        name, path = found.popitem()
        return seen(name, path)
    return relay(answer)


def read_libc(host: Host) -> Reading[Libc]:
    """The C library: asked from getconf, else read from the library itself."""
    answer = host.run(("getconf", "GNU_LIBC_VERSION"))
    if answer.value is not None:
        match = _GLIBC.search(answer.value.stdout)
        if match:
            return seen(Libc("glibc", Version.maybe(match[1])), answer.at)
    for folder in LIBRARY_FOLDERS:
        real = host.real_path(f"{folder}/libc.so.6")
        if real.value is not None:
            return seen(Libc("glibc", _glibc_version(host, real.value)), real.value)
    for loader in _MUSL:
        if host.real_path(loader).is_known:
            return seen(Libc("musl", _musl_version(host)), loader)
    return missing(Missing.NOT_READABLE, answer.at)


def _glibc_version(host: Host, path: str) -> Optional[Version]:
    named = _GLIBC_FILE.search(path)
    if named is None:
        # The file is no longer named after its version; it carries its banner as text.
        named = _GLIBC_TEXT.search(host.read_text(path, _LIBC_LIMIT).value or "")
    return Version.maybe(named[1]) if named else None


def _musl_version(host: Host) -> Optional[Version]:
    match = _APK_MUSL.search(host.read_text("/lib/apk/db/installed").value or "")
    return Version.maybe(match[1]) if match else None


def read_libstdcxx(host: Host) -> Reading[Version]:
    """The newest GLIBCXX symbol version, which the name of the real file tells.

    libstdc++.so.6.0.N defines symbols up to GLIBCXX_3.4.N.
    Source: GCC libstdc++ manual, "ABI Policy and Guidelines", Versioning.
    """
    answer: Reading[str] = missing(Missing.NOT_THERE, "libstdc++.so.6")
    for folder in LIBRARY_FOLDERS:
        real = host.real_path(f"{folder}/libstdc++.so.6")
        match = _STDCXX.search(real.value or "")
        if match:
            return seen(Version(f"3.4.{match[1]}"), real.value or "")
        answer = answer if real.is_absent else real
    return relay(answer)


def read_boot(host: Host) -> Reading[str]:
    """What tells one boot from the next: the boot's id and the start of the first process.

    A container keeps the id of its host's boot when it is started again.
    """
    boot, first = _line(host, "/proc/sys/kernel/random/boot_id"), _line(host, "/proc/1/stat")
    if boot.value is None:
        return relay(boot)
    return seen(f"{boot.value} {parse_start_time(first.value or '')}".strip(), boot.at)


def parse_start_time(stat: str) -> str:
    """Field 22 of /proc/PID/stat; the name in field 2 may hold anything, also brackets."""
    after = stat.rpartition(") ")[2].split()
    return after[19] if len(after) > 19 else ""
