"""Reads packages of a machine and asks apt what it would do. Runs there, by itself.

`probe(question)` answers: what is installed (state), what is offered (offers), what a change
would do (simulate). apt works in a private folder with lists of its own and a copy of dpkg's
status; nothing of the system is written. `fetch` lays packages into doctor's store.
Needs Python 3.9 and nothing else.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import lzma
import os
import re
import shutil
import subprocess
import sys
import time
from typing import Any

STORE = "/var/cache/doctor/packages"
_FIELDS = ("Package", "Version", "Architecture", "Source", "SHA256", "Size", "Filename")
_LIMIT_S, _FETCH_S = 240.0, 1800.0


def run(
    argv: list[str], limit_s: float = _LIMIT_S, **more: Any
) -> subprocess.CompletedProcess[str]:
    """Run a command in English, without questions."""
    env = {**os.environ, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
    return subprocess.run(
        argv, capture_output=True, text=True, errors="replace", env=env, check=False,
        timeout=limit_s, stdin=subprocess.DEVNULL, **more,
    )  # fmt: skip


def probe(question: dict[str, Any]) -> dict[str, Any]:
    """Answer one question; `ask` says which."""
    ways = {"state": state, "offers": offers, "simulate": simulate, "settle": settle}
    return ways[question["ask"]](question)


# -- what is there --------------------------------------------------------------------------


def state(question: dict[str, Any]) -> dict[str, Any]:
    """Packages of the family, holds, broken packages, files, modules, users of the GPUs."""
    manager = next((m for m in ("apt-get", "dnf", "zypper") if shutil.which(m)), "")
    kernel = _kernel()
    modules = _modules(kernel)
    found = {
        "manager": manager.partition("-")[0],
        "uid": os.getuid(),
        "arch": os.uname().machine,
        "kernel": kernel,
        "boot": _text("/proc/sys/kernel/random/boot_id").strip(),
        "files": {path: _file(path) for path in question.get("files", [])},
        "modules": {path: module_version(path) for path in modules},
        "signers": {path: module_signer(path) for path in modules},
        "headers": os.path.exists(f"/lib/modules/{kernel}/build"),
        "loaded": _text("/sys/module/nvidia/version").strip(),
        "nouveau": os.path.isdir("/sys/module/nouveau"),
        "runfile": _runfile(),
        "users": _users(),
        "free_mib": _free(STORE),
        "units": {name: _unit(name) for name in question.get("units", [])},
        "key_enrolled": _key_enrolled(),
        "applied": _maybe(question.get("applied", "")),
    }
    if manager == "apt-get":
        found.update(_dpkg(question))
    return found


def _dpkg(question: dict[str, Any]) -> dict[str, Any]:
    family, apart = re.compile(question["family"]), re.compile(question["apart"])
    also = set(question.get("also", []))
    form = (
        "${Package}\t${Version}\t${Architecture}\t${source:Package}\t${db:Status-Want}\t"
        "${db:Status-Eflag}\t${db:Status-Status}\n"
    )
    packages, holds, broken, leaving = [], [], [], []
    for line in run(["dpkg-query", "-W", "-f", form]).stdout.splitlines():
        name, version, arch, source, want, flag, status = line.split("\t")
        if status not in ("installed", "not-installed", "config-files") or flag != "ok":
            broken.append(name)
        if want == "hold" and status == "installed":
            holds.append(name)
        in_family = family.fullmatch(name) or family.fullmatch(source)
        mine = name in also or (in_family is not None and not apart.fullmatch(name))
        mine = mine or any(fnmatch.fnmatchcase(name, glob) for glob in question.get("globs", []))
        if mine and status in ("installed", "config-files"):
            packages.append([name, version, arch, source, status])
            # apt marks what it is about to remove; broken off, its next run removes that too.
            if want in ("deinstall", "purge") and status == "installed":
                leaving.append(name)
    auto = set(run(["apt-mark", "showauto"]).stdout.split())
    return {
        "packages": packages,
        "holds": holds,
        "broken": broken,
        "leaving": leaving,
        "auto": sorted(auto & {row[0] for row in packages}),
        "foreign": run(["dpkg", "--print-architecture"]).stdout.strip(),
    }


def _kernel() -> str:
    """The kernel that runs, from the file from which doctor's probes have it too."""
    return _text("/proc/sys/kernel/osrelease").strip() or os.uname().release


def _modules(kernel: str) -> list[str]:
    """Files of nvidia modules that the kernel would load."""
    return [
        os.path.join(folder, name)
        for folder, _, names in os.walk(f"/lib/modules/{kernel}")
        for name in names
        if re.fullmatch(r"nvidia(-current(-open)?)?\.ko(\.\w+)?", name)
    ]


def module_version(path: str) -> str:
    """The version that a module's file states, by modinfo or by reading it; "" if unknown."""
    if shutil.which("modinfo"):
        said = run(["modinfo", "-F", "version", path]).stdout.strip()
        if said:
            return said
    try:
        with open(path, "rb") as file:
            data = file.read(256 << 20)
        data = lzma.decompress(data) if path.endswith(".xz") else data
    except (OSError, lzma.LZMAError, MemoryError):
        return ""
    match = re.search(rb"\0version=([0-9.]{3,20})\0", data)
    return match[1].decode() if match else ""


def module_signer(path: str) -> str:
    """Who signed a module's file, by modinfo; "" if nobody did or nothing here can tell."""
    if shutil.which("modinfo") is None:
        return ""
    return run(["modinfo", "-F", "signer", path]).stdout.strip()


def _key_enrolled() -> bool:
    """Whether the firmware trusts the key by which this machine signs modules that it builds."""
    keys = ("/var/lib/shim-signed/mok/MOK.der", "/var/lib/dkms/mok.pub")
    key = next((path for path in keys if os.path.isfile(path)), "")
    if not key or shutil.which("mokutil") is None:
        return False
    return "already enrolled" in run(["mokutil", "--test-key", key]).stdout


def _runfile() -> str:
    """A program that only NVIDIA's own installer leaves behind, and no package owns."""
    for path in ("/usr/bin/nvidia-uninstall", "/usr/bin/nvidia-installer"):
        owned = shutil.which("dpkg-query") and run(["dpkg-query", "-S", path]).returncode == 0
        if os.path.exists(path) and not owned:
            return path
    return ""


def _users() -> list[str]:
    """Programs that have a GPU open, but for NVIDIA's own daemons."""
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            opened = [os.readlink(f"/proc/{pid}/fd/{n}") for n in os.listdir(f"/proc/{pid}/fd")]
        except OSError:
            continue
        if any(re.match(r"/dev/nvidia(\d|-uvm)", path) for path in opened):
            found.add(f"{_text(f'/proc/{pid}/comm').strip()} ({pid})")
    return sorted(u for u in found if not u.startswith(("nvidia-persiste", "nv-fabric", "nv-host")))


def _unit(name: str) -> dict[str, str]:
    if shutil.which("systemctl") is None:
        return {}
    said = run(["systemctl", "show", "-p", "LoadState,ActiveState,UnitFileState", name]).stdout
    return dict(line.split("=", 1) for line in said.splitlines() if "=" in line)


def _file(path: str) -> dict[str, Any] | None:
    try:
        info = os.lstat(path)
    except OSError:
        return None
    regular = (info.st_mode & 0o170000) == 0o100000
    return {"mode": info.st_mode & 0o7777, "text": _maybe(path) if regular else None}


def _maybe(path: str) -> str | None:
    return _text(path) if path and os.path.isfile(path) else None


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read(4 << 20)
    except OSError:
        return ""


def _free(path: str) -> int:
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return shutil.disk_usage(path).free >> 20


# -- apt in a private folder ----------------------------------------------------------------


def _folder() -> str:
    """A folder of our own, kept between questions so that lists are fetched once."""
    base = "/var/cache" if os.getuid() == 0 else os.path.expanduser("~/.cache")
    path = os.path.join(base, "doctor", "apt")
    for name in ("lists/partial", "archives/partial", "etc/parts", "state"):
        os.makedirs(os.path.join(path, name), mode=0o700, exist_ok=True)
    return path


def _private(question: dict[str, Any]) -> list[str]:
    """Options that keep apt within the private folder; its status is a copy of the system's.

    Without `keep_holds` nothing is held in it: apt does not resolve around a held package, even
    where it is allowed to move it.
    """
    folder = _folder()
    with open("/var/lib/dpkg/status", encoding="utf-8", errors="surrogateescape") as file:
        status = file.read()
    if not question.get("keep_holds"):
        status = re.sub(r"(?m)^Status: hold ", "Status: install ", status)
    with open(f"{folder}/state/status", "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(status)
    preferences = question.get("preferences", "")
    with open(f"{folder}/etc/preferences", "w", encoding="utf-8") as file:
        file.write(preferences)
    shutil.rmtree(f"{folder}/etc/parts")
    os.makedirs(f"{folder}/etc/parts")
    taken = {os.path.basename(source["path"]) for source in question.get("sources", [])}
    for name in os.listdir("/etc/apt/sources.list.d") if _has_parts() else []:
        if name not in taken:
            shutil.copyfile(f"/etc/apt/sources.list.d/{name}", f"{folder}/etc/parts/{name}")
    for source in question.get("sources", []):
        with open(f"{folder}/etc/parts/{os.path.basename(source['path'])}", "w") as file:
            file.write(source["text"])
    settings = {
        "Dir::State": f"{folder}/state",
        "Dir::State::Lists": f"{folder}/lists",
        "Dir::State::status": f"{folder}/state/status",
        "Dir::State::extended_states": "/var/lib/apt/extended_states",
        "Dir::Cache": folder,
        "Dir::Cache::archives": f"{folder}/archives",
        "Dir::Etc::sourceparts": f"{folder}/etc/parts",
        "Dir::Etc::preferences": f"{folder}/etc/preferences",
        "Debug::NoLocking": "1",
        "APT::Sandbox::User": "root",
    }
    if not question.get("own_pins"):
        settings["Dir::Etc::preferencesparts"] = f"{folder}/etc/none"
    return [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]


def _has_parts() -> bool:
    return os.path.isdir("/etc/apt/sources.list.d")


def offers(question: dict[str, Any]) -> dict[str, Any]:
    """All versions of packages whose name or source is of the family, with their hashes."""
    options = _private(question)
    failed = _update(options) if question.get("fresh", True) else []
    names = run(["apt-cache", *options, "pkgnames"]).stdout.split()
    family, apart = re.compile(question["family"]), re.compile(question["apart"])
    wanted = [n for n in names if family.fullmatch(n) and not apart.fullmatch(n)]
    wanted += [name for name in question.get("names", []) if name in set(names)]
    return {"offers": _shown(options, sorted(set(wanted))), "failed": failed[:5]}


def _update(options: list[str]) -> list[str]:
    """Fetch lists, beginning with those of the system, so that little is to be fetched.

    Sources of other software may fail; what is needed and not offered is refused later.
    """
    folder = f"{_folder()}/lists"
    for name in os.listdir("/var/lib/apt/lists"):
        path, copy = f"/var/lib/apt/lists/{name}", f"{folder}/{name}"
        if os.path.isfile(path) and name != "lock" and not os.path.exists(copy):
            shutil.copy2(path, copy)
    said = run(["apt-get", *options, "update"])
    return [line for line in said.stderr.splitlines() if line.startswith(("E:", "W:"))]


def _shown(options: list[str], names: list[str]) -> list[dict[str, str]]:
    """Rows of apt-cache show, which has one stanza for each version of each package."""
    found, seen = [], set()
    for start in range(0, len(names), 400):
        text = run(["apt-cache", *options, "show", *names[start : start + 400]]).stdout
        for stanza in text.split("\n\n"):
            pairs = (line.split(": ", 1) for line in stanza.splitlines() if ": " in line)
            row = {pair[0]: pair[1] for pair in pairs if pair[0] in _FIELDS}
            key = (row.get("Package"), row.get("Version"), row.get("Architecture"))
            if "SHA256" in row and key not in seen:
                seen.add(key)
                found.append(row)
    return found


def simulate(question: dict[str, Any]) -> dict[str, Any]:
    """What apt would do: installs, removals, what it keeps back, what it says.

    `words` are packages to install; none asks for a full upgrade. `keep_holds` leaves holds as
    they are; otherwise the change may move them.
    """
    options = _private(question)
    said = run([
        "apt-get", *options, "-s", "-y", "--no-install-recommends", "--allow-downgrades",
        "install" if question["words"] else "dist-upgrade", *question["words"],
    ])  # fmt: skip
    return {**parse_simulation(said.stdout), "status": said.returncode, "said": _errors(said)}


def parse_simulation(text: str) -> dict[str, Any]:
    """Lines of apt-get -s: `Inst name [old] (new ...)`, `Remv name [old]`, what is kept back."""
    changes = []
    form = re.compile(r"^(Inst|Remv|Purg) ([^ :]+)(?::\w+)?(?: \[([^]]+)\])?(?: \((\S+))?")
    for line in text.splitlines():
        match = form.match(line)
        if match:
            action = "install" if match[1] == "Inst" else "remove"
            changes.append([action, match[2], match[3] or "", match[4] or ""])
    block = re.search(r"kept back:\n((?:  .*\n)*)", text)
    return {"changes": changes, "kept": block[1].split() if block else []}


def _errors(said: subprocess.CompletedProcess[str]) -> str:
    """What went wrong: the errors, and apt's account of what depends on what."""
    lines = [line for line in said.stdout.splitlines() if re.match(r" \S.* : |  +\S+:? ", line)]
    errors = [line for line in said.stderr.splitlines() if line.startswith("E:")]
    return "\n".join((lines + errors) if said.returncode else [])[-2000:]


# -- the store ------------------------------------------------------------------------------


def fetch(question: dict[str, Any]) -> dict[str, Any]:
    """Lay packages into the store, each by its sha256: from caches, else from its origin.

    Answers which were fetched and which cannot be had.
    """
    os.makedirs(STORE, mode=0o755, exist_ok=True)
    wanted = [row for row in question["packages"] if sha256(stored(row)) != row["sha256"]]
    lacking = [row for row in wanted if not _from_cache(row)]
    # One call for all costs little more than for one; if it fails, each is asked for by itself.
    if len(lacking) > 1:
        _download(lacking, question)
    missing = []
    for row in lacking:
        if not _from_cache(row):
            _download([row], question)
            if not _from_cache(row):
                missing.append(row)
    fetched = [row["name"] for row in wanted if row not in missing]
    return {"fetched": fetched, "missing": [f"{row['name']} {row['version']}" for row in missing]}


def stored(row: dict[str, Any]) -> str:
    """Where a package lies in the store; apt wants names that end in .deb."""
    return f"{STORE}/{row['sha256'][:16]}_{row['name']}_{row['arch']}.deb"


def _from_cache(row: dict[str, Any]) -> bool:
    version, path = row["version"].replace(":", "%3a"), stored(row)
    for folder in ("/var/cache/apt/archives", f"{_folder()}/archives"):
        cached = f"{folder}/{row['name']}_{version}_{row['arch']}.deb"
        if os.path.isfile(cached) and sha256(cached) == row["sha256"]:
            shutil.copyfile(cached, path + ".part")
            os.replace(path + ".part", path)
            return True
    return False


def _download(rows: list[dict[str, Any]], question: dict[str, Any]) -> None:
    """Let apt bring them from where they come from; what it could not is seen afterwards."""
    words = [f"{row['name']}:{row['arch']}={row['version']}" for row in rows]
    words = [word.replace(":all=", "=") for word in words]
    argv = ["apt-get", *_private(question), "download", *words]
    run(argv, cwd=f"{_folder()}/archives", limit_s=_FETCH_S)


def sha256(path: str) -> str:
    """The hash of a file; "" if there is none."""
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            for block in iter(lambda: file.read(1 << 20), b""):
                digest.update(block)
    except OSError:
        return ""
    return digest.hexdigest()


def settle(question: dict[str, Any]) -> dict[str, Any]:
    """Wait for a package manager that an interrupted run has left at work: to end it would harm.

    Answers what still runs after `limit_s` seconds.
    """
    until = time.monotonic() + question["limit_s"]
    while True:
        busy = [p for p in filter(str.isdigit, os.listdir("/proc")) if _is_manager(p)]
        if not busy or time.monotonic() > until:
            return {"running": busy}
        time.sleep(0.2)


def _is_manager(pid: str) -> bool:
    # A process that has ended and that nobody has waited for keeps its name.
    if _text(f"/proc/{pid}/stat").rpartition(")")[2].split()[:1] == ["Z"]:
        return False
    name = _text(f"/proc/{pid}/comm").strip()
    return name in ("apt-get", "dpkg", "dkms", "unattended-upgr", "dnf", "rpm", "update-initramf")


def main() -> int:
    """A question in JSON as the one argument; the answer goes to standard output."""
    question = json.loads(sys.argv[1] if len(sys.argv) > 1 else sys.stdin.read())
    answer = fetch(question) if question["ask"] == "fetch" else probe(question)
    json.dump(answer, sys.stdout)
    if answer.get("missing"):
        sys.stderr.write("cannot be had any more: " + ", ".join(answer["missing"]) + "\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
