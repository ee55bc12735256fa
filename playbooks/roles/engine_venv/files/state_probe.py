"""What is there of a service on a machine: releases, files, processes.

Reads only, but for two verbs: `write-manifest`, and `end-marked`, which ends what an
interrupted run has left running.

Stands alone: standard library, Python 3.9. It is imported here, and sent as source to the
python3 of another machine, where it reads its question from the last argument and prints
its answer as JSON.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any

FILE_LIMIT = 1 << 20
PACKAGES_S = 600.0
MANIFEST, APPLIED = "manifest.json", "applied.json"


def probe(question: dict[str, Any]) -> dict[str, Any]:
    """Answer {home, files, unit, user, deep, programs, container, groups, hashes}."""
    home = os.path.expanduser(question["home"])
    found: dict[str, Any] = {
        "home": home,
        "account": os.environ.get("USER") or str(os.getuid()),
        "uid": os.getuid(),
        "boot": boot_identity(),
        "free_mib": _free_mib(home),
        "systemd": os.path.isdir("/run/systemd/system"),
        "systemd_user": _has_user_manager(),
        "releases": _releases(home),
        "pythons": _whole(os.path.join(home, "pythons"), ".complete"),
        "current": _link(os.path.join(home, "current")),
        "files": {},
        "applied": _text(os.path.join(home, APPLIED)),
        "lock": _text(os.path.join(home, "current", "stack.lock"), 8 << 20),
        "processes": _processes(home),
        "programs": {name: _program(name) for name in question.get("programs", [])},
        "groups": _groups(question.get("groups", [])),
        "hashes": {path: sha256_of(path) for path in question.get("hashes", [])},
        "unsettled": unsettled_packages() if os.getuid() == 0 else [],
    }
    paths = [*question["files"], *_files_of(found["applied"]), os.path.join(home, APPLIED)]
    found["files"] = {path: _file(path) for path in paths}
    user = bool(question.get("user"))
    found["timers"] = {name: _unit(name, user) for name in question.get("timers", [])}
    if question.get("unit"):
        found["unit"] = _unit(question["unit"], user)
    if found["current"]:
        folder = os.path.join(home, "releases", found["current"])
        found["damage"] = check_manifest(folder, bool(question.get("deep")))
    if question.get("record_model"):
        found["recorded"] = record_model(question["record_model"])
    if question.get("container"):
        found["image"], found["container"] = check_container(question["container"])
    found["models"] = {
        path: check_model(path, files, bool(question.get("deep")))
        for path, files in question.get("models", {}).items()
    }
    return found


def _files_of(applied: str | None) -> list[str]:
    """The files that the last apply has written."""
    try:
        goal = json.loads(applied or "{}")
        parts = [goal, *goal.get("extras", [])]
        return [str(file["path"]) for part in parts for file in part.get("files", [])]
    except (ValueError, TypeError, KeyError, AttributeError):
        return []


def boot_identity() -> str:
    """The kernel's boot id and the start of process 1: a container keeps the first."""
    boot = (_text("/proc/sys/kernel/random/boot_id") or "").strip()
    return boot + ":" + (_start_time(1) or "")


def unsettled_packages(folder: str = "/var/lib/dpkg/updates") -> list[str]:
    """Packages that an interrupted dpkg has left half done; none where there is no dpkg."""
    try:
        answer = subprocess.run(
            ["dpkg", "--audit"], capture_output=True, text=True, timeout=60, check=False
        )
        noted = bool(os.listdir(folder))
    except (OSError, subprocess.TimeoutExpired):
        return []
    # Names stand in rows that are set in; the rows between say what is wrong with them.
    rows = [line.split() for line in answer.stdout.splitlines() if line.startswith(" ")]
    found = [row[0] for row in rows if row]
    return found or (["dpkg's own notes"] if noted else [])


def write_manifest(folder: str) -> None:
    """Note size and sha256 of every file below a folder; written last, whole or not at all."""
    files = {name: _record(os.path.join(folder, name)) for name in _names(folder)}
    scratch = os.path.join(folder, MANIFEST + ".part")
    with open(scratch, "w", encoding="utf-8") as file:
        json.dump({"files": files}, file, indent=0, sort_keys=True)
        file.flush()
        os.fsync(file.fileno())
    os.replace(scratch, os.path.join(folder, MANIFEST))


def check_manifest(folder: str, deep: bool) -> list[str]:
    """What differs from the manifest, in words; without `deep` by size and time only."""
    text = _text(os.path.join(folder, MANIFEST), 64 << 20)
    try:
        noted = json.loads(text or "")["files"]
    except (ValueError, KeyError, TypeError):
        return ["no manifest"]
    found = []
    for name, record in sorted(noted.items()):
        fault = _differs(os.path.join(folder, name), record, deep)
        if fault:
            found.append(name + ": " + fault)
    extra = set(_names(folder)) - set(noted)
    return found + [name + ": not in the manifest" for name in sorted(extra)]


def check_model(path: str, files: dict[str, Any], deep: bool) -> list[str]:
    """What differs from the files a model shall have ({name: {size, sha256}}), in words."""
    found = []
    for name, record in sorted(files.items()):
        place = os.path.join(path, name) if name else path
        fault = _differs(place, record, deep)
        if fault:
            found.append((name or os.path.basename(path)) + ": " + fault)
    return found


def check_container(wanted: dict[str, Any]) -> tuple[list[str], list[str]]:
    """What is amiss with a container's image, and with the container, in words.

    `wanted` has client, name, image and inspected: what `inspect` shall say.
    """
    image = _inspect(wanted["client"], "image", wanted["image"])
    if image is None:
        return [wanted["image"] + ": not there"], []
    box = _inspect(wanted["client"], "container", wanted["name"])
    if box is None:
        return [], ["not there"]
    found = [] if box["State"].get("Running") else ["does not run"]
    if box.get("Image") != image.get("Id"):
        found.append("runs another image")
    says = described(box)
    for key, value in sorted(wanted["inspected"].items()):
        if says.get(key) != value:
            found.append(key + " is " + _short(says.get(key)) + ", not " + _short(value))
    return [], found


def described(box: dict[str, Any]) -> dict[str, Any]:
    """What `inspect` says of a container, as far as it decides what the engine can do."""
    config, host = box["Config"], box["HostConfig"]
    network = host.get("NetworkMode") or ""
    mounts = host.get("Mounts") or []
    return {
        "image": config.get("Image"),
        "command": config.get("Cmd") or [],
        "user": config.get("User"),
        "groups": host.get("GroupAdd") or [],
        "read_only": bool(host.get("ReadonlyRootfs")),
        "privileged": bool(host.get("Privileged")),
        "dropped": host.get("CapDrop") or [],
        "network": "bridge" if network == "default" else network,
        "ports": host.get("PortBindings") or {},
        "mounts": sorted([m["Source"], m["Target"], bool(m.get("ReadOnly"))] for m in mounts),
        "shm": host.get("ShmSize"),
        "restart": (host.get("RestartPolicy") or {}).get("Name") or "no",
        "memory": host.get("Memory") or 0,
        "cpus": host.get("NanoCpus") or 0,
    }


def _short(value: Any) -> str:
    return json.dumps(value)[:200]


def _inspect(client: list[str], kind: str, name: str) -> dict[str, Any] | None:
    """What a container engine says of an image or container; None if it knows none."""
    command = [*client, "inspect", "--type", kind, name]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        found = json.loads(answer.stdout)[0]
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError, KeyError):
        return None
    return found if isinstance(found, dict) else None


def _program(name: str) -> str:
    """The path of a program, "" if there is none; services see no more of PATH than this."""
    return shutil.which(name, path="/usr/local/bin:/usr/bin:/bin") or ""


def _groups(paths: list[str]) -> dict[str, int]:
    """Numbers of the groups that files belong to, of those that are there."""
    found = {}
    for path in paths:
        with suppress(OSError):
            found[path] = os.stat(path).st_gid
    return found


def record_model(path: str) -> dict[str, Any]:
    """What the files of a model are now; a model that is one file has one, named ""."""
    if os.path.isfile(path):
        return {"": _record(path)}
    return {name: _record(os.path.join(path, name)) for name in _names(path)}


def _differs(path: str, record: dict[str, Any], deep: bool) -> str:
    try:
        status = os.stat(path)
    except OSError:
        return "missing"
    if status.st_size != record["size"]:
        return "another size"
    touched = "time" not in record or int(status.st_mtime) != record["time"]
    if (deep or touched) and sha256_of(path) != record["sha256"]:
        return "another content"
    return ""


def _record(path: str) -> dict[str, Any]:
    status = os.stat(path)
    return {"size": status.st_size, "time": int(status.st_mtime), "sha256": sha256_of(path)}


def sha256_of(path: str) -> str:
    """The sha256 of a file, "" if it cannot be read."""
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            for block in iter(lambda: file.read(1 << 20), b""):
                digest.update(block)
    except OSError:
        return ""
    return digest.hexdigest()


def _names(folder: str) -> list[str]:
    """Regular files below a folder, save the manifest and what Python compiles on its own."""
    found = []
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in names:
            path = os.path.join(place, name)
            if name.startswith(MANIFEST) or not stat.S_ISREG(os.lstat(path).st_mode):
                continue
            found.append(os.path.relpath(path, folder))
    return sorted(found)


def _releases(home: str) -> list[str]:
    """Names of whole releases: those with a manifest."""
    return _whole(os.path.join(home, "releases"), MANIFEST)


def _whole(folder: str, mark: str) -> list[str]:
    """Names of folders that hold a file which is written last."""
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return sorted(n for n in names if os.path.isfile(os.path.join(folder, n, mark)))


def _link(path: str) -> str:
    try:
        return os.path.basename(os.readlink(path))
    except OSError:
        return ""


def _file(path: str) -> dict[str, Any] | None:
    """Content and mode of a regular file; None if there is none."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return {"mode": stat.S_IMODE(status.st_mode), "text": None}
    return {"mode": stat.S_IMODE(status.st_mode), "text": _text(path)}


def _text(path: str, limit: int = FILE_LIMIT) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read(limit)
    except OSError:
        return None


def _processes(home: str) -> list[dict[str, Any]]:
    """Processes that were started for this service: its folder is in their environment.

    The engine is also written down by its runner: in a container root may not read the
    environment of another account.
    """
    found = _with_environment("DOCTOR_SERVICE=" + home)
    try:
        noted = json.loads(_text(os.path.join(home, "run", "engine.json")) or "")
        pid, start, config = int(noted["pid"]), noted["start"], str(noted["config"])
    except (ValueError, KeyError, TypeError):
        return found
    argv = _argv(pid)
    if argv and _start_time(pid) == start and pid not in [p["pid"] for p in found]:
        found.append({"pid": pid, "argv": argv, "config": config})
    return found


def _argv(pid: int) -> list[str]:
    return _bytes(f"/proc/{pid}/cmdline").decode("utf-8", "replace").split("\0")[:-1]


def end_marked(run: str) -> int:
    """End the processes of a run: asked first, then made to. The number that there were.

    A package manager is waited for: to end it would leave packages half done.
    """
    until = time.monotonic() + PACKAGES_S
    while any(_is_packager(p) for p in _marked(run)) and time.monotonic() < until:
        time.sleep(0.1)
    found = _marked(run)
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in _marked(run):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process["pid"], number)
        until = time.monotonic() + 5
        while _marked(run) and time.monotonic() < until:
            time.sleep(0.05)
    return len(found)


def _is_packager(process: dict[str, Any]) -> bool:
    return os.path.basename(process["argv"][0]) in ("apt-get", "dpkg", "dkms", "dnf", "rpm")


def _marked(run: str) -> list[dict[str, Any]]:
    """Processes that an interrupted run has left behind, this one and its parents excepted."""
    own = set(_ancestors(os.getpid()))
    return [p for p in _with_environment("DOCTOR_RUN=" + run) if p["pid"] not in own]


def _with_environment(entry: str) -> list[dict[str, Any]]:
    wanted = entry.encode("utf-8", "surrogateescape")
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        environ = _bytes("/proc/" + name + "/environ").split(b"\0")
        if wanted not in environ:
            continue
        argv = _argv(int(name))
        if argv:
            config = next((e[14:] for e in environ if e.startswith(b"DOCTOR_CONFIG=")), b"")
            found.append({"pid": int(name), "argv": argv, "config": config.decode()})
    return found


def _ancestors(pid: int) -> list[int]:
    found = []
    while pid > 0 and pid not in found:
        found.append(pid)
        fields = _bytes(f"/proc/{pid}/stat").rpartition(b")")[2].split()
        pid = int(fields[1]) if len(fields) > 1 else 0
    return found


def _start_time(pid: int) -> str | None:
    fields = _bytes(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return fields[19].decode() if len(fields) > 19 else None


def _bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(FILE_LIMIT)
    except OSError:
        return b""


def _free_mib(path: str) -> int:
    while path and not os.path.isdir(path):
        path = os.path.dirname(path)
    try:
        return shutil.disk_usage(path or "/").free >> 20
    except OSError:
        return 0


UNIT_PROPERTIES = "LoadState,ActiveState,SubState,MainPID,UnitFileState,NeedDaemonReload"


def _unit(name: str, user: bool) -> dict[str, str]:
    """What systemd says of a unit; nothing where there is no systemd."""
    command = ["systemctl"] + (["--user"] if user else []) + ["show", "-p", UNIT_PROPERTIES, name]
    # A session that is no login has no such variable, and the user's systemd is not found.
    env = {"XDG_RUNTIME_DIR": f"/run/user/{os.getuid()}", **os.environ}
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, timeout=20, check=False, env=env
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    return dict(line.split("=", 1) for line in answer.stdout.splitlines() if "=" in line)


def _has_user_manager() -> bool:
    folder = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    return os.path.exists(os.path.join(folder, "systemd", "private"))


def main(arguments: list[str]) -> int:
    """Do what the first argument names, or answer a question that is given as JSON."""
    if arguments[0] == "write-manifest":
        write_manifest(arguments[1])
    elif arguments[0] == "end-marked":
        print(end_marked(arguments[1]))
    elif arguments[0] == "boot":
        print(boot_identity())
    elif arguments[0] == "check-container":
        with open(arguments[1], encoding="utf-8") as file:
            image, box = check_container(json.load(file)["container"])
        print("\n".join([*image, *box]))
        return 1 if image or box else 0
    elif arguments[0] == "check-manifest":
        found = check_manifest(arguments[1], True)
        print("\n".join(found))
        return 1 if found else 0
    else:
        print(json.dumps(probe(json.loads(arguments[0]))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
