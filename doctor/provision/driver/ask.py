"""Questions to a machine about its packages. The program that answers lies with the roles."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
from msgspec import Struct

from doctor.errors import DoctorError, RemoteError, UsageError
from doctor.matrix.packaging import Family
from doctor.provision.driver.holding import DAEMON, MANAGED
from doctor.provision.driver.sets import Change, DriverState, Package, Simulation
from doctor.provision.goal import Goal, ManagedFile
from doctor.provision.survey import FileState, State
from doctor.provision.target import LOCAL, NOISE, Target
from doctor.resources import resource

_PYTHON = "/usr/bin/python3"
_STATE_S, _LISTS_S, _SETTLE_S = 60.0, 300.0, 900.0


class Survey(Struct, frozen=True, kw_only=True):
    """The answer to the question for the state.

    Rows of `packages` are name, version, architecture, source and dpkg's status.
    """

    manager: str = ""
    uid: int = 0
    arch: str = ""
    kernel: str = ""
    boot: str = ""
    files: dict[str, FileState | None] = {}
    packages: tuple[tuple[str, str, str, str, str], ...] = ()
    holds: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    leaving: tuple[str, ...] = ()
    auto: tuple[str, ...] = ()
    modules: dict[str, str] = {}
    signers: dict[str, str] = {}
    headers: bool = False
    loaded: str = ""
    nouveau: bool = False
    runfile: str = ""
    users: tuple[str, ...] = ()
    free_mib: int = 0
    units: dict[str, dict[str, str]] = {}
    key_enrolled: bool = False
    applied: str | None = None

    @property
    def driver(self) -> DriverState:
        """The part that speaks of the driver."""
        rows = [Package(name=r[0], version=r[1], arch=r[2], source=r[3]) for r in self.packages]
        gone = {r[0] for r in self.packages if r[4] == "config-files"}
        return DriverState(
            manager=self.manager,
            kernel=self.kernel,
            packages=tuple(p for p in rows if p.name not in gone),
            debris=tuple(sorted(gone)),
            holds=self.holds,
            broken=self.broken,
            leaving=self.leaving,
            auto=self.auto,
            modules=self.modules,
            signers=self.signers,
            headers=self.headers,
            loaded=self.loaded,
            nouveau=self.nouveau,
            runfile=self.runfile,
            users=self.users,
            free_mib=self.free_mib,
            units=self.units,
            key_enrolled=self.key_enrolled,
        )


def pattern_of(family: Family) -> tuple[str, str]:
    """Two expressions: what belongs to the driver by name or source, what only looks like it."""
    return "|".join((*family.names, *family.sources)), "|".join(family.apart)


def read_survey(target: Target, family: Family, applied: str, globs: Sequence[str] = ()) -> Survey:
    """What is there of the family, before there is a goal; `applied` is a file to read.

    `globs` are names of other packages that are to be held too.
    """
    own, apart = pattern_of(family)
    question = {"ask": "state", "family": own, "apart": apart, "applied": applied,
                "globs": list(globs)}  # fmt: skip
    return _read(ask(target, question, _STATE_S), Survey)


def read_driver_state(target: Target, goal: Goal) -> State:
    """All that the goal of a driver names. Raises RemoteError."""
    wanted = goal.driver
    if wanted is None:
        raise UsageError("this is no driver", "doctor plan says what it is")
    applied = f"{goal.home}/applied.json"
    paths = sorted({*(f.path for f in goal.files), *MANAGED, DAEMON, applied})
    own, apart = wanted.patterns
    question = {"ask": "state", "family": own, "apart": apart, "files": paths,
                "also": list(wanted.all_names), "units": list(wanted.units),
                "applied": applied}  # fmt: skip
    return state_of(_read(ask(target, question, _STATE_S), Survey), goal.home)


def state_of(survey: Survey, home: str) -> State:
    """A survey in the form of a state."""
    return State(
        home=home,
        uid=survey.uid,
        boot=survey.boot,
        free_mib=survey.free_mib,
        files=survey.files,
        applied=survey.applied,
        driver=survey.driver,
    )


def read_offers(
    target: Target,
    family: Family,
    sources: Sequence[ManagedFile],
    names: Sequence[str] = (),
    fresh: bool = True,
) -> tuple[tuple[Package, ...], tuple[str, ...]]:
    """All that the machine's sources and ours offer of the family; and what could not be asked.

    `names` are further packages to show; not `fresh`, the lists of the last question serve.
    """
    own, apart = pattern_of(family)
    question = {
        "ask": "offers",
        "family": own,
        "apart": apart,
        "names": list(names),
        "fresh": fresh,
        "sources": [msgspec.to_builtins(file) for file in sources],
    }
    answer = ask(target, question, _LISTS_S)
    return tuple(map(_offer, answer["offers"])), tuple(answer["failed"])


def _offer(row: dict[str, str]) -> Package:
    """A stanza of the index; a source is given only where its name or version differs."""
    return Package(
        name=row["Package"],
        version=row["Version"],
        arch=row["Architecture"],
        source=row.get("Source", row["Package"]).partition(" ")[0],
        sha256=row["SHA256"],
        size=int(row.get("Size", 0)),
        origin=row.get("Filename", ""),
    )


def simulate(
    target: Target,
    words: Sequence[str],
    sources: Sequence[ManagedFile],
    preferences: str = "",
    keep_holds: bool = False,
) -> Simulation:
    """What `apt-get install WORDS` would do, in a private folder."""
    question = {"ask": "simulate", "words": list(words), "preferences": preferences,
                "keep_holds": keep_holds,
                "sources": [msgspec.to_builtins(file) for file in sources]}  # fmt: skip
    answer = ask(target, question, _LISTS_S)
    changes = tuple(Change(*row) for row in answer["changes"])
    kept = tuple(answer["kept"])
    return Simulation(changes=changes, kept=kept, status=answer["status"], said=answer["said"])


def settle(target: Target) -> None:
    """Wait until no package manager is at work there. Raises RemoteError if one does not end."""
    answer = ask(target, {"ask": "settle", "limit_s": _SETTLE_S}, _SETTLE_S + 60)
    if answer["running"]:
        raise RemoteError(
            f"{target.name}: a package manager has been at work for {_SETTLE_S:g} s",
            "let it end, then try again",
        )


def probe_path() -> Path:
    """The program that answers; the role uses it too."""
    return resource("playbooks", "roles", "nvidia_driver", "files", "packages_probe.py")


def probe_module() -> ModuleType:
    """The same program as a module."""
    spec = importlib.util.spec_from_file_location("doctor_packages_probe", probe_path())
    if spec is None or spec.loader is None:
        raise DoctorError(f"cannot load {probe_path()}", "reinstall llm-doctor")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def ask(target: Target, question: dict[str, Any], limit_s: float) -> dict[str, Any]:
    """One question, answered here or there. Raises RemoteError."""
    if target.kind == LOCAL:
        found: dict[str, Any] = probe_module().probe(question)
        return found
    source = probe_path().read_text(encoding="utf-8")
    command = [_PYTHON, "-I", "-", json.dumps(question)]
    try:
        there: dict[str, Any] = json.loads(target.run(command, source, limit_s))
    except (ValueError, RecursionError):
        raise RemoteError(f"{target.name}: python3 there did not answer in JSON", NOISE) from None
    return there


def _read(answer: object, form: type[Survey]) -> Survey:
    try:
        return msgspec.convert(answer, form)
    except msgspec.ValidationError as fault:
        raise RemoteError(f"the machine's answer cannot be understood: {fault}", NOISE) from None
