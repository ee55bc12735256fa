"""What of a file goes into a recording: only what probes read of it.

Files in which people keep passwords (proxies, registries, mail) are cut down to the
settings that matter, long ones to the lines that do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable

from doctor.probes import apt_conf, dists, docker, model_files, packages, process_maps
from doctor.probes.settings_text import flatten_toml

_HEAD = ("Name", "Version", "Requires-Dist", "Requires-Python")
_INFO = (
    *("ServerVersion", "Runtimes", "DefaultRuntime", "SecurityOptions", "CgroupDriver"),
    *("CDISpecDirs", "DiscoveredDevices", "OSType", "Architecture"),
)
_DAEMON = ("runtimes", "default-runtime", "exec-opts", "features", "cdi-spec-dirs")
_PROCESSOR = re.compile(r"^processor\s*:.*$", re.MULTILINE)
_KERNEL_WORDS = (
    *("NVRM", "nvidia", "nouveau", "Xid", "amdgpu", "ascend", "IOMMU", "ecure boot"),
    *("Key was rejected", "unsigned module", "lockdown", "request_free_mem_region"),
)
_BANNER = re.compile(r"GNU C Library[^\n\0]{0,300}")
_DULL_DEVICE = re.compile(r"tty|vcs|loop|ram|zram|sd|vd|nvme|dm-|hidraw|input|snd|usb")
_BINARY_FROM = 1 << 16


def condense(path: str, text: str) -> str:
    """The part of a file's text that a recording keeps."""
    if "\0" in text and len(text) > _BINARY_FROM:
        return "\n".join(_BANNER.findall(text))
    for pattern, shorten in _RULES:
        if pattern.search(path):
            return shorten(text)
    return text


def condense_names(path: str, names: tuple[str, ...]) -> list[str]:
    """The part of a folder's names that a recording keeps."""
    return [name for name in names if path != "/dev" or not _DULL_DEVICE.match(name)]


def condense_answer(argv: tuple[str, ...], text: str) -> str:
    """The part of a program's output that a recording keeps."""
    if argv[0] in ("dmesg", "journalctl"):
        return _lines_with(text, _KERNEL_WORDS)
    return text


def condense_info(text: str) -> dict[str, object]:
    """The part of what Docker's daemon says of itself that a recording keeps."""
    return _keep(docker.parse_object(text), _INFO)


def _keep(stated: dict[str, object], names: Iterable[str]) -> dict[str, object]:
    return {name: stated[name] for name in names if name in stated}


def _lines_with(text: str, words: Iterable[str]) -> str:
    wanted = tuple(words)
    kept = (line for line in text.splitlines() if any(word in line for word in wanted))
    return "".join(f"{line}\n" for line in kept)


def _settings(text: str, wanted: Callable[[str], bool]) -> str:
    flat = flatten_toml(text)
    return "".join(f'{key} = "{value}"\n' for key, value in flat.items() if wanted(key))


def _head(text: str) -> str:
    lines = []
    for line in text.split("\n"):
        if not line.rstrip("\r"):
            break
        if line.partition(":")[0] in _HEAD:
            lines.append(line)
    return "\n".join([*lines, "", ""])


def _dpkg(text: str) -> str:
    kept = []
    for package, held in packages.parse_dpkg_status(text):
        wish = "hold" if held else "install"
        kept.append(
            f"Package: {package.name}\nStatus: {wish} ok installed\n"
            f"Source: {package.source}\nVersion: {package.version}\n"
        )
    for name in packages.parse_holds(text):
        if not any(f"Package: {name}\n" in stanza for stanza in kept):
            kept.append(f"Package: {name}\nStatus: hold ok installed\n")
    return "\n".join(kept)


def _apt(text: str) -> str:
    wanted = ("apt::periodic::", "unattended-upgrade::package-blacklist", "#clear")
    kept = (item for item in apt_conf.parse_apt_conf(text) if item[0].startswith(wanted))
    return "".join(f'{key} "{value}";\n' for key, value in kept)


def _processors(text: str) -> str:
    first, _, rest = text.partition("\n\n")
    others = "\n\n".join(_PROCESSOR.findall(rest))
    last = rest.rpartition("\n\n")[2]
    board = "" if _PROCESSOR.search(last) else last
    return "\n\n".join(part for part in (first, others, board) if part) + "\n"


def _docker_client(text: str) -> str:
    return json.dumps(_keep(docker.parse_object(text), ("currentContext",)))


def _docker_daemon(text: str) -> str:
    return json.dumps(_keep(docker.parse_object(text), _DAEMON))


def _docker_context(text: str) -> str:
    stated = docker.parse_object(text)
    return json.dumps(
        {"Name": stated.get("Name"), "Endpoints": {"docker": {"Host": docker.endpoint_of(text)}}}
    )


def _direct_url(text: str) -> str:
    source = dists.parse_editable(text)
    if not source:
        return "{}"
    return json.dumps({"url": f"file://{source}", "dir_info": {"editable": True}})


def _containerd(text: str) -> str:
    ends = ("default_runtime_name", "SystemdCgroup", "runtime_type")
    return _settings(text, lambda key: key.endswith(ends))


def _podman(text: str) -> str:
    return _settings(text, lambda key: key in ("engine.runtime", "engine.cgroup_manager"))


def _words(*words: str) -> Callable[[str], str]:
    return lambda text: _lines_with(text, words)


_RULES: tuple[tuple[re.Pattern[str], Callable[[str], str]], ...] = tuple(
    (re.compile(pattern), shorten)
    for pattern, shorten in (
        (r"/dpkg/status$", _dpkg),
        (r"^/proc/cpuinfo$", _processors),
        (r"/apk/db/installed$", lambda text: "\n".join(re.findall(r"^P:musl\nV:.*", text, re.M))),
        (r"/(?:METADATA|PKG-INFO)$|\.egg-info$", _head),
        (r"/direct_url\.json$", _direct_url),
        (r"/RECORD$", _words(".so")),
        (r"/modules\.dep$", _words("nvidia", "nouveau", "amdgpu")),
        (r"/include/cuda\.h$", _words("define CUDA_VERSION")),
        (r"\.index\.json$", model_files.condense_index),
        (r"^/proc/\d+/maps$", process_maps.condense),
        (r"^/proc/\d+/limits$", _words("Max open files", "Max locked memory")),
        (r"^/proc/self/status$", _words("Uid:", "Gid:", "Groups:", "Cap")),
        (r"^/etc/apt/apt\.conf", _apt),
        (r"^/etc/(?:dnf/dnf|yum)\.conf$", _words("exclude")),
        (r"/automatic\.conf$", _words("apply_updates")),
        (r"/\.docker/config\.json$", _docker_client),
        (r"/contexts/meta/[^/]*/meta\.json$", _docker_context),
        (r"/docker/daemon\.json$", _docker_daemon),
        (r"/containerd/(?:config\.toml$|conf\.d/)", _containerd),
        (r"/containers\.conf$", _podman),
    )
)
