"""What a machine shall be: one service, its release, model, files. Data that can be kept.

The same form serves to apply, to go back (the goal is what was there before) and to look
for drift (the goal is what was applied).
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
from msgspec import Struct

from doctor.errors import ProvisionError
from doctor.provision.driver.sets import DriverSet
from doctor.provision.npu.sets import NpuSet

USER, SYSTEM = "user", "system"
PROCESS, SYSTEMD, SYSTEMD_USER = "process", "systemd", "systemd-user"


class ManagedFile(Struct, frozen=True):
    """A file that doctor writes: absolute path (in a release: relative), text, mode."""

    path: str
    text: str
    mode: int = 0o644


class FileRecord(Struct, frozen=True):
    """What a file shall be."""

    size: int
    sha256: str


class Release(Struct, frozen=True):
    """A folder with one resolved environment: `name` is the hash of all that makes it.

    `python` is the minor version, `platform` what the packages are for, `requirements` pins
    with hashes, `index` one more index to ask, `files` are laid beside the environment.
    With `image`, by digest, there is no environment: the container engine holds it.
    """

    name: str
    python: str
    platform: str
    requirements: str
    index: str = ""
    files: tuple[ManagedFile, ...] = ()
    image: str = ""


class Container(Struct, frozen=True):
    """What the engine runs in: `client` are the words that reach the container engine.

    `inspected` is what it must say of the container, by keys of the probe of the state;
    `named` is the image by its tag, by which more is known of it, `vendor` that of the devices.
    """

    client: tuple[str, ...]
    name: str
    image: str
    inspected: dict[str, Any] = {}
    named: str = ""
    vendor: str = ""

    @property
    def is_own_engine(self) -> bool:
        """True if the client makes the container itself (podman), not an engine that it asks."""
        return self.client[0].rpartition("/")[2] == "podman"


class Model(Struct, frozen=True):
    """The model's place on the machine and what its files shall be.

    `source` is where they come from on this machine, "" if they lie there already. A model
    that is one file has one record, named "". `load` is the file of a folder that the engine
    is given, "" for the folder itself. With `hub` it
    comes to `source` from there first; `token` is a reference to what the hub wants to see.
    """

    path: str
    files: dict[str, FileRecord]
    source: str = ""
    load: str = ""
    token: str = ""
    hub: bool = False

    @property
    def loaded(self) -> str:
        """What the engine is given."""
        return f"{self.path}/{self.load}" if self.load else self.path


class Extra(Struct, frozen=True):
    """What belongs to a service beside its engine: files that a role lays, timers that wait.

    `options` are further variables of the role.
    """

    role: str
    files: tuple[ManagedFile, ...]
    units: tuple[str, ...] = ()
    options: dict[str, Any] = {}


class Goal(Struct, frozen=True, kw_only=True):
    """One service on one machine. Without a release nothing shall be there.

    `home` is the service's folder, `scope` user or system, `supervisor` who keeps it
    running, `unit` the name of its systemd unit. `argv` is the engine's command line, `args`
    the engine-neutral arguments that it was made from,
    `url` where it answers on that machine, `key` a reference to its API key. `owner` is the
    number that owns what it writes, "" for the account's; `proof_s` how long it may take to
    be proven, 0 for what the engine is known to need; `known_answer` whether the proof is the
    known answer, None if the name of the model that is served says it.
    """

    profile: str
    home: str
    scope: str = USER
    supervisor: str = PROCESS
    unit: str = ""
    account: str = ""
    release: Release | None = None
    container: Container | None = None
    owner: str = ""
    proof_s: int = 0
    known_answer: bool | None = None
    model: Model | None = None
    driver: DriverSet | None = None
    npu: NpuSet | None = None
    files: tuple[ManagedFile, ...] = ()
    extras: tuple[Extra, ...] = ()
    argv: tuple[str, ...] = ()
    engine: str = ""
    version: str = ""
    args: tuple[tuple[str, str], ...] = ()
    url: str = ""
    health: str = "/health"
    key: str = ""
    start_s: int = 300
    stop_s: int = 30
    lock: str = ""

    @property
    def is_nothing(self) -> bool:
        """True if the service shall not be there."""
        return self.release is None and self.driver is None and self.npu is None

    @property
    def config_path(self) -> str:
        """The file that says how the engine is run."""
        return f"{self.home}/service.json"

    @property
    def config_digest(self) -> str:
        """The sha256 of that file: running engines carry it as a mark."""
        text = next((f.text for f in self.files if f.path == self.config_path), "")
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def release_path(self) -> str:
        """The folder of the release."""
        return f"{self.home}/releases/{self.release.name if self.release else ''}"

    def file(self, path: str) -> ManagedFile | None:
        """The managed file of that path, or None."""
        return next((f for f in self.files if f.path == path), None)


def goal_text(goal: Goal) -> str:
    """A goal as JSON, always in the same order."""
    data = msgspec.json.encode(goal, order="deterministic")
    return msgspec.json.format(data, indent=1).decode() + "\n"


def parse_goal(text: str, name: str) -> Goal:
    """Read a goal back; raises ProvisionError for a damaged one."""
    try:
        return msgspec.json.decode(text, type=Goal)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as fault:
        raise ProvisionError(f"{name} is damaged: {fault}", "apply the profile again") from None


def digest_of(*texts: str) -> str:
    """A hash over several texts that keeps them apart."""
    digest = hashlib.sha256()
    for text in texts:
        data = text.encode("utf-8", "surrogateescape")
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()
