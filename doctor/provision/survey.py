"""All that the plan needs to know of a machine. The I/O is here; the plan has none."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
from msgspec import Struct

from doctor.errors import DoctorError, RemoteError
from doctor.facts import Facts
from doctor.provision.driver.sets import DriverState
from doctor.provision.goal import FileRecord, Goal
from doctor.provision.npu.sets import NpuState
from doctor.provision.target import LOCAL, NOISE, Target
from doctor.resources import resource

REMOTE_PYTHON = "/usr/bin/python3"
CLIENTS = ["docker", "podman"]
PROBE_S, FACTS_S = 300.0, 120.0
# Runs an archive that comes through standard input; nothing of it stays on that machine.
_RUN_ARCHIVE = """\
import subprocess, sys, tempfile
with tempfile.NamedTemporaryFile(suffix=".pyz") as archive:
    archive.write(sys.stdin.buffer.read())
    archive.flush()
    sys.exit(subprocess.call([sys.executable, "-I", "-S", archive.name]))
"""


class FileState(Struct, frozen=True):
    """A file as it was found; `text` is None for what is no regular file."""

    mode: int
    text: str | None = None


class ServiceProcess(Struct, frozen=True):
    """A process of a service; `config` is the sha256 of the service.json it was started by."""

    pid: int
    argv: tuple[str, ...]
    config: str = ""


class State(Struct, frozen=True, kw_only=True):
    """What was found. Each field is what `state_probe.probe` answers under that name."""

    home: str
    account: str = ""
    uid: int = 0
    boot: str = ""
    free_mib: int = 0
    systemd: bool = False
    systemd_user: bool = False
    releases: tuple[str, ...] = ()
    current: str = ""
    damage: tuple[str, ...] = ()
    files: dict[str, FileState | None] = {}
    models: dict[str, tuple[str, ...]] = {}
    applied: str | None = None
    lock: str | None = None
    processes: tuple[ServiceProcess, ...] = ()
    unit: dict[str, str] = {}
    timers: dict[str, dict[str, str]] = {}
    recorded: dict[str, FileRecord] = {}
    unsettled: tuple[str, ...] = ()
    programs: dict[str, str] = {}
    groups: dict[str, int] = {}
    hashes: dict[str, str] = {}
    pythons: tuple[str, ...] = ()
    image: tuple[str, ...] = ()
    container: tuple[str, ...] = ()
    driver: DriverState | None = None
    npu: NpuState | None = None

    def runs(self, goal: Goal) -> bool:
        """True if the engine runs as that goal says, with that very configuration."""
        wanted = (goal.argv, goal.config_digest)
        return any((p.argv, p.config) == wanted for p in self.processes)

    @property
    def is_watched(self) -> bool:
        """True if a watcher keeps the engine running."""
        return any("watch" in p.argv[2:5] for p in self.processes if not p.config)


def read_home(target: Target, home: str, model: str = "", **paths: Sequence[str]) -> State:
    """Ask the machine before there is a goal; `model` is a path whose files are hashed.

    `paths` are further questions: `files` whose texts, `hashes` whose sha256 and `groups`
    whose groups are wanted.
    """
    asked = {"files": [], **{name: list(listed) for name, listed in paths.items()}}
    question = {"home": home, "record_model": model, "programs": CLIENTS, **asked}
    return parse_state(_ask(target, question))


def read_boot(target: Target) -> str:
    """What tells this boot of a machine, or of a container, from the next. Raises RemoteError."""
    if target.kind == LOCAL:
        return str(probe_module().boot_identity())
    source = probe_path().read_text(encoding="utf-8")
    return target.run([REMOTE_PYTHON, "-I", "-", "boot"], source, PROBE_S).strip()


def end_leftovers(target: Target, run: str) -> None:
    """End what an interrupted run has left running, here and there. Raises RemoteError."""
    probe_module().end_marked(run)
    if target.kind != LOCAL:
        source = probe_path().read_text(encoding="utf-8")
        target.run([REMOTE_PYTHON, "-I", "-", "end-marked", run], source, PROBE_S)


def read_state(target: Target, goal: Goal, deep: bool = False) -> State:
    """Ask the machine for all that a goal names. Raises RemoteError.

    `deep` hashes every file in place of trusting size and time.
    """
    if goal.driver is not None:
        from doctor.provision.driver.ask import read_driver_state

        return read_driver_state(target, goal)
    if goal.npu is not None:
        from doctor.provision.npu.ask import read_npu_state

        return read_npu_state(target, goal)
    models = {}
    if goal.model is not None:
        models[goal.model.path] = msgspec.to_builtins(goal.model.files)
    question = {
        "home": goal.home,
        "files": [f.path for part in (goal.files, *(e.files for e in goal.extras)) for f in part],
        "models": models,
        "unit": goal.unit,
        "timers": [unit for extra in goal.extras for unit in extra.units],
        "user": goal.scope == "user",
        "deep": deep,
        "container": msgspec.to_builtins(goal.container),
    }
    return parse_state(_ask(target, question))


def probe_path() -> Path:
    """The program that reads a service's state; it lies with the roles, which use it too."""
    return resource("playbooks", "roles", "engine_venv", "files", "state_probe.py")


def probe_module() -> ModuleType:
    """The same program as a module."""
    return program_module(probe_path())


def program_module(path: Path) -> ModuleType:
    """A program of a role as a module; raises DoctorError."""
    spec = importlib.util.spec_from_file_location(f"doctor_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise DoctorError(f"cannot load {path}", "reinstall llm-doctor")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def parse_state(answer: object) -> State:
    """Turn the probe's answer into a state; raises RemoteError for nonsense."""
    try:
        return msgspec.convert(answer, State)
    except msgspec.ValidationError as fault:
        raise RemoteError(f"the machine's answer cannot be understood: {fault}", NOISE) from None


def _ask(target: Target, question: dict[str, Any]) -> object:
    if target.kind == LOCAL:
        return probe_module().probe(question)
    source = probe_path().read_text(encoding="utf-8")
    command = [REMOTE_PYTHON, "-I", "-", json.dumps(question)]
    try:
        return json.loads(target.run(command, source, PROBE_S))
    except (ValueError, RecursionError):
        raise RemoteError(f"{target.name}: python3 there did not answer in JSON", NOISE) from None


def read_facts(target: Target) -> Facts:
    """The machine's facts, by the probes: here, or sent as one file. Raises RemoteError."""
    if target.kind == LOCAL:
        from doctor.probes.collect import collect
        from doctor.probes.local import this_machine

        return collect(this_machine())
    return _remote_facts(target)


def _remote_facts(target: Target) -> Facts:
    """The zipapp's snapshot: the archive goes through standard input into memory."""
    import tempfile

    from doctor.intake.snapshot import read_snapshot
    from doctor.probes.zipapp import build

    with tempfile.TemporaryDirectory(prefix="doctor-probes-") as folder:
        path = Path(folder, "doctor.pyz")
        build(str(path))
        data = path.read_bytes()
    text = target.run_bytes([REMOTE_PYTHON, "-c", _RUN_ARCHIVE], data, FACTS_S)
    return read_snapshot(text.decode("utf-8", "replace"), target.name)
