"""The one door to Ansible: run a role with variables, tell of its tasks, keep its log.

Values reach Ansible through a file in which every text is tagged unsafe, so that nothing in
them is ever a template. The environment is reduced to what Ansible needs: its runner writes
the environment down.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import yaml

from doctor.errors import DoctorError
from doctor.extras import how_to_add
from doctor.provision.journal import on_disk
from doctor.provision.target import LOCAL, Target
from doctor.resources import resource

_KEPT = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TMPDIR", "XDG_RUNTIME_DIR", "SSH_AUTH_SOCK",
         "XDG_CACHE_HOME", "DOCKER_HOST", "VIRTUAL_ENV")  # fmt: skip
_POLL_S = 0.2
_SHORT = "/tmp"  # noqa: S108 - for private folders in it
_END_S = 20.0


@dataclass(frozen=True)
class TaskEvent:
    """What Ansible said of a task: kind is start, ok, changed, failed, unreachable or skipped."""

    kind: str
    host: str
    task: str
    text: str = ""
    diff: tuple[tuple[str, str], ...] = ()


@dataclass
class RoleResult:
    """How a role ended. `failure` says what failed, "" if nothing did."""

    failure: str = ""
    changed: int = 0
    tasks: int = 0
    diffs: list[tuple[str, str]] = field(default_factory=list)
    seconds: float = 0.0


Listener = Callable[[TaskEvent], None]


@dataclass(frozen=True)
class Playbook:
    """The roles, for one target. Logs and variables go into folders below `folder`.

    `run` marks every process that Ansible starts, `check` only says what would change,
    `listen` is told of tasks.
    """

    target: Target
    folder: Path
    run: str = ""
    check: bool = False
    listen: Listener = field(default=lambda _: None)

    def play(self, name: str, role: str, variables: dict[str, Any]) -> RoleResult:
        """Run one role; `name` is that of its log's folder.

        Raises DoctorError if Ansible is not installed. A failed task is a result. A signal
        ends Ansible first and then becomes KeyboardInterrupt.
        """
        runner = _ansible_runner()
        folder = self.folder / name
        said = {**variables, "doctor_roles": [role], "doctor_run": self.run}
        with on_disk(folder):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            _write_private(folder / "vars.yml", unsafe_yaml(said))
        result, began = RoleResult(), time.monotonic()
        with (
            _sockets() as sockets,
            _only(ansible_environment(folder, self.run, sockets)),
            _ended_gently(),
        ):
            answer = runner.run(
                event_handler=lambda event: _heard(event, result, self.listen),
                status_handler=lambda status, **_: _forget_command(status, folder),
                **self._settings(folder, sockets),
            )
        result.seconds = round(time.monotonic() - began, 2)
        if not result.failure and answer.rc != 0:
            result.failure = _last_words(folder) or f"ansible-playbook ended with {answer.rc}"
        return result

    def _settings(self, folder: Path, scratch: str) -> dict[str, Any]:
        words = ("-e", f"@{folder / 'vars.yml'}", *(("--check", "--diff") if self.check else ()))
        # Not ~/.ansible/tmp here: a home may be read-only, and nothing of ours stays in it.
        own = {"ansible_remote_tmp": f"{scratch}/tasks"} if self.target.kind == LOCAL else {}
        machine = {**self.target.inventory(python_of(self.target)), **own}
        return {
            "private_data_dir": str(folder),
            "playbook": str(resource("playbooks", "site.yml")),
            "inventory": {"all": {"hosts": {"machine": machine}}},
            "ident": "log",
            "cmdline": shlex.join(words),
            "quiet": True,
            "suppress_env_files": True,
            "settings": {"pexpect_timeout": _POLL_S},
            # Without one of ours the runner sets signal handlers, and then kills its child hard.
            "cancel_callback": lambda: False,
        }


def python_of(target: Target) -> str:
    """The Python that runs Ansible's modules: on this machine the one that runs doctor."""
    return sys.executable if target.kind == LOCAL else "/usr/bin/python3"


def unsafe_yaml(variables: dict[str, Any]) -> str:
    """Variables as YAML for Ansible, every text in them marked as no template."""
    return yaml.dump(variables, Dumper=_UnsafeDumper, sort_keys=True, width=1 << 20)


def _unsafe_text(dumper: Any, text: str) -> yaml.Node:
    # Ansible reads a tagged empty text as nothing at all.
    tag = "!unsafe" if text else "tag:yaml.org,2002:str"
    node: yaml.Node = dumper.represent_scalar(tag, text, style='"')
    return node


def _mapping(dumper: Any, data: dict[str, Any]) -> yaml.Node:
    pairs = [
        (dumper.represent_str(key), dumper.represent_data(value)) for key, value in data.items()
    ]
    return yaml.MappingNode("tag:yaml.org,2002:map", pairs)


class _UnsafeDumper(yaml.SafeDumper):
    """Tags each text; the keys of variables are names of our own."""

    yaml_representers: ClassVar[dict[Any, Any]] = {
        **yaml.SafeDumper.yaml_representers,
        str: _unsafe_text,
        dict: _mapping,
    }

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        """Write equal values out each time."""
        return True


def ansible_environment(folder: Path, run: str, sockets: str = "") -> dict[str, str]:
    """All that Ansible gets to see of the environment; DOCTOR_RUN marks what it starts."""
    found = {name: os.environ[name] for name in _KEPT if name in os.environ}
    found.update(
        PATH=f"{Path(sys.executable).parent}:{found.get('PATH', os.defpath)}",
        ANSIBLE_CONFIG=str(resource("playbooks", "ansible.cfg")),
        ANSIBLE_LOCAL_TEMP=str(folder / "tmp"),
        ANSIBLE_HOME=str(folder / "home"),
        # Fewer trips. What an interrupted run leaves is found by its mark in either case.
        ANSIBLE_PIPELINING="True",
        LC_ALL=os.environ.get("LC_ALL") or "C.UTF-8",
        ANSIBLE_SSH_CONTROL_PATH_DIR=sockets,
        ANSIBLE_SSH_ARGS="-C -o ControlMaster=auto -o ControlPersist=10s",
        DOCTOR_RUN=run,
    )
    return found


@contextmanager
def _sockets() -> Iterator[str]:
    """A private folder for ssh's sockets (107 bytes hold their paths) and tasks on this machine."""
    place = tempfile.mkdtemp(prefix="doctor-", dir=_SHORT if os.access(_SHORT, os.W_OK) else None)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


@contextmanager
def _only(environment: dict[str, str]) -> Iterator[None]:
    """For a while this process has that environment and no other."""
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(environment)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _ended_gently() -> Iterator[None]:
    """A signal ends ansible-playbook, which ends its own workers, before doctor goes on."""
    caught: list[int] = []

    def end(number: int, _frame: object) -> None:
        caught.append(number)
        for pid in children(os.getpid()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, end) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if caught:
        raise KeyboardInterrupt


def children(parent: int) -> list[int]:
    """Living children of a process."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
                if int(fields[1]) == parent and fields[0] not in (b"Z", b"X"):
                    found.append(int(entry.name))
    return found


def _heard(event: dict[str, Any], result: RoleResult, listen: Listener) -> bool:
    """Take note of one event; False, so that the runner keeps no file of it."""
    kind, data = event.get("event", ""), event.get("event_data", {})
    answer = data.get("res") or {}
    host, task = str(data.get("host", "")), str(data.get("task", ""))
    if kind == "playbook_on_task_start":
        listen(TaskEvent("start", "", task))
    elif kind == "runner_on_ok":
        result.tasks += 1
        changed = bool(answer.get("changed"))
        result.changed += changed
        diff = _diffs(answer.get("diff"))
        result.diffs += diff
        listen(TaskEvent("changed" if changed else "ok", host, task, diff=tuple(diff)))
    elif kind in ("runner_on_failed", "runner_on_unreachable") and not data.get("ignore_errors"):
        words = _words(answer)
        result.failure = result.failure or f"{task}: {words}"
        listen(TaskEvent("failed" if kind.endswith("failed") else "unreachable", host, task, words))
    return False


def _words(answer: dict[str, Any]) -> str:
    """What a failed task said; of a loop the first item that failed."""
    for item in answer.get("results", []):
        if isinstance(item, dict) and (item.get("failed") or item.get("unreachable")):
            return _words(item)
    parts = [str(answer.get(key, "")) for key in ("msg", "stderr", "stdout")]
    return "\n".join(dict.fromkeys(part.strip() for part in parts if part.strip()))[-2000:]


def _diffs(found: Any) -> list[tuple[str, str]]:
    rows = found if isinstance(found, list) else [found]
    pairs = [(r.get("before", ""), r.get("after", "")) for r in rows if isinstance(r, dict)]
    return [(str(before), str(after)) for before, after in pairs if before != after]


def _forget_command(status: dict[str, Any], folder: Path) -> None:
    """The runner notes the whole environment beside its log."""
    if status.get("status") == "running":
        (folder / "artifacts" / "log" / "command").unlink(missing_ok=True)


def _last_words(folder: Path) -> str:
    with suppress(OSError):
        lines = (folder / "artifacts/log/stdout").read_text("utf-8", "replace").strip().splitlines()
        errors = [line for line in lines if line.startswith(("[ERROR]", "ERROR!"))] or lines[-5:]
        return "\n".join(errors)[-1500:]
    return ""


def _write_private(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(text.encode("utf-8", "surrogateescape"))


def _ansible_runner() -> Any:
    try:
        import ansible  # type: ignore[import-untyped] # noqa: F401 - started as a program
        import ansible_runner
    except ImportError:
        raise DoctorError("Ansible is not installed", how_to_add("provision")) from None
    return ansible_runner
