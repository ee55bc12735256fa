"""Runs one engine as its service.json says: in place of itself, or watched as a child.

    run_service.py exec service.json      become the engine (systemd starts it so)
    run_service.py compare service.json   say whether the engine runs just so: same, other, none
    run_service.py tidy service.json      take away the container that a killed client left
    run_service.py start|restart|stop|status service.json
                                          keep it running without systemd, as this user

Standard library, Python 3.9. service.json: argv, env, secrets ({variable: reference}), folder,
log, home, restart, stop_signal, stop_s; for a container tidy, the command that removes it. A key
is read from its file into the engine's environment and is written nowhere.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any, TextIO

KEPT = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TMPDIR", "XDG_RUNTIME_DIR", "TZ")
LOG_LIMIT = 64 << 20
QUICK_S, FIRST_PAUSE_S, LONGEST_PAUSE_S = 10.0, 1.0, 60.0
SECRET_LIMIT = 1 << 16
# How long a watcher waits for those who only ask, and a start for its watcher.
ASKED_S, STARTED_S = 3.0, 30.0


def load(path: str) -> tuple[dict[str, Any], str]:
    """The configuration and its sha256."""
    with open(path, "rb") as file:
        data = file.read()
    return json.loads(data), hashlib.sha256(data).hexdigest()


def environment(config: dict[str, Any], digest: str) -> dict[str, str]:
    """What the engine sees: little of the starter's, its own, its secrets, its marks."""
    found = {name: os.environ[name] for name in KEPT if name in os.environ}
    found.update(config["env"])
    for name, reference in config.get("secrets", {}).items():
        found[name] = secret(reference)
    found["DOCTOR_SERVICE"] = config["home"]
    found["DOCTOR_CONFIG"] = digest
    return found


def secret(reference: str) -> str:
    """What file:PATH holds, or credential:NAME, which systemd has laid out for the unit."""
    kind, _, place = reference.partition(":")
    if kind == "credential":
        place = os.path.join(os.environ["CREDENTIALS_DIRECTORY"], place)
    with open(place, encoding="utf-8") as file:
        return file.read(SECRET_LIMIT).strip()


def note_engine(config: dict[str, Any], digest: str, pid: int) -> None:
    """Write down which process runs the engine, and by which configuration.

    The environment would say so too, but not every root may read that of another account.
    """
    folder = os.path.join(config["home"], "run")
    os.makedirs(folder, exist_ok=True)
    scratch = os.path.join(folder, f"engine.json.{pid}")
    with open(scratch, "w", encoding="utf-8") as file:
        json.dump({"pid": pid, "start": start_time(pid), "config": digest}, file)
    os.replace(scratch, os.path.join(folder, "engine.json"))


def start_time(pid: int) -> str:
    """When a process began, in ticks since boot: tells it from a later one of that number."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[19].decode()
    except OSError:
        return ""


def become(path: str) -> None:
    """Replace this process by the engine."""
    config, digest = load(path)
    env = environment(config, digest)
    tidy(config)
    note_engine(config, digest, os.getpid())
    os.chdir(config["folder"])
    os.execve(config["argv"][0], config["argv"], env)  # noqa: S606 - that is its task


def tidy(config: dict[str, Any]) -> bool:
    """Take away a container that its client has left behind; True if there was one."""
    command = config.get("tidy")
    if not command:
        return False
    env = {name: os.environ[name] for name in KEPT if name in os.environ}
    with suppress(OSError, subprocess.TimeoutExpired):
        answer = subprocess.run(command, capture_output=True, env=env, timeout=60, check=False)
        return bool(answer.stdout.strip())
    return False


class Watch:
    """Keeps the engine running: starts it again when it ends, with growing pauses."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.child: subprocess.Popen[bytes] | None = None
        self.ending = False

    def run(self) -> int:
        """Watch until told to end. The lock makes sure that there is one only."""
        config, _ = load(self.path)
        with open(lock_path(config), "a+") as lock:
            if not lock_alone(lock):
                return 0
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, self._end)
            return self._watch(config)

    def _watch(self, config: dict[str, Any]) -> int:
        pause = FIRST_PAUSE_S
        while not self.ending:
            began = time.monotonic()
            status = self._run_once()
            if config["restart"] == "no" or (config["restart"] == "on-failure" and status == 0):
                return status
            if time.monotonic() - began > QUICK_S:
                pause = FIRST_PAUSE_S
            until = time.monotonic() + pause
            while not self.ending and time.monotonic() < until:
                time.sleep(0.05)
            pause = min(pause * 2, LONGEST_PAUSE_S)
        return 0

    def _run_once(self) -> int:
        config, digest = load(self.path)
        tidy(config)
        with open(log_file(config), "ab") as log:
            self.child = subprocess.Popen(
                config["argv"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment(config, digest),
                cwd=config["folder"],
                start_new_session=True,
            )
        note_engine(config, digest, self.child.pid)
        if self.ending:
            self._ask_child_to_end(config)
        deadline = None
        while self.child.poll() is None:
            time.sleep(0.05)
            if self.ending and deadline is None:
                self._ask_child_to_end(config)
                deadline = time.monotonic() + float(config["stop_s"])
            if deadline is not None and time.monotonic() > deadline:
                kill_group(self.child.pid)
        kill_group(self.child.pid)
        tidy(config)
        return self.child.returncode

    def _ask_child_to_end(self, config: dict[str, Any]) -> None:
        if self.child is not None and self.child.poll() is None:
            self.child.send_signal(signal.Signals[config["stop_signal"]])

    def _end(self, *_: object) -> None:
        self.ending = True


def kill_group(pid: int) -> None:
    """End what is left of the engine's process group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def log_file(config: dict[str, Any]) -> str:
    """The log, set aside once when it has grown large."""
    path: str = config["log"]
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with suppress(OSError):
        if os.path.getsize(path) > LOG_LIMIT:
            os.replace(path, path + ".old")
    return path


def lock_path(config: dict[str, Any]) -> str:
    """The file whose lock the watcher holds."""
    folder = os.path.join(config["home"], "run")
    os.makedirs(folder, exist_ok=True)
    return os.path.join(folder, "watch.lock")


def lock_alone(lock: TextIO) -> bool:
    """Take the lock for good; False if another watcher holds it.

    Whoever asks for the watcher holds the lock, too, for a moment that is longer on a busy machine.
    """
    until = time.monotonic() + ASKED_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() > until:
                return False
            time.sleep(0.01)
        else:
            return True


def watcher(config: dict[str, Any]) -> int:
    """The pid of the living watcher, 0 if there is none."""
    with open(lock_path(config), "a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            for _ in range(100):
                lock.seek(0)
                text = lock.read()
                if text:
                    return int(text)
                time.sleep(0.01)
        return 0


def start(path: str) -> bool:
    """Start a watcher that outlives this process; False if one runs already."""
    config, _ = load(path)
    if watcher(config):
        return False
    end_strays(config)
    env = {name: os.environ[name] for name in KEPT if name in os.environ}
    subprocess.Popen(
        [sys.executable, "-I", os.path.abspath(__file__), "watch", path],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**env, "DOCTOR_SERVICE": config["home"]},
        cwd=config["home"],
        start_new_session=True,
    )
    until = time.monotonic() + STARTED_S
    while time.monotonic() < until:
        if watcher(config):
            return True
        time.sleep(0.02)
    raise SystemExit("the watcher did not start")


def stop(path: str) -> bool:
    """End watcher and engine; False if there was none."""
    config, _ = load(path)
    pid = watcher(config)
    if not pid:
        return end_strays(config)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    until = time.monotonic() + float(config["stop_s"]) + 15
    while watcher(config):
        if time.monotonic() > until:
            raise SystemExit(f"the watcher (process {pid}) did not end")
        time.sleep(0.02)
    return True


def end_strays(config: dict[str, Any]) -> bool:
    """Kill engines whose watcher has died; they would keep the port and the memory."""
    mark = ("DOCTOR_SERVICE=" + config["home"]).encode()
    found = False
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            with open("/proc/" + name + "/environ", "rb") as file:
                marked = mark in file.read().split(b"\0")
            if marked and int(name) != os.getpid():
                os.kill(int(name), signal.SIGKILL)
                found = True
    return tidy(config) or found


def compare(path: str) -> str:
    """Whether the engine runs with this very configuration and command line."""
    config, digest = load(path)
    try:
        with open(os.path.join(config["home"], "run", "engine.json"), encoding="utf-8") as file:
            noted = json.load(file)
        with open(f"/proc/{int(noted['pid'])}/cmdline", "rb") as file:
            argv = file.read().decode("utf-8", "replace").split("\0")[:-1]
    except (OSError, ValueError, KeyError, TypeError):
        return "none"
    if not argv or start_time(noted["pid"]) != noted.get("start"):
        return "none"
    return "same" if (argv, noted["config"]) == (config["argv"], digest) else "other"


def main(arguments: list[str]) -> int:
    """Do what is asked; start, restart and stop print "changed" if they changed anything."""
    verb, path = arguments
    if verb == "exec":
        become(path)
    if verb == "watch":
        return Watch(path).run()
    if verb == "status":
        pid = watcher(load(path)[0])
        print(pid or "not running")
        return 0 if pid else 3
    if verb == "tidy":
        tidy(load(path)[0])
        return 0
    if verb == "compare":
        print(compare(path))
        return 0
    ended = verb in ("stop", "restart") and stop(path)
    started = verb in ("start", "restart") and start(path)
    if ended or started:
        print("changed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
