"""What a profile may say: an engine, what it runs on, how it is installed, served and proven.

Every text has a pattern and a length. Nothing in a profile is evaluated: no templates, no
commands, no code. Secrets are named by where they are, never written down.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

SCHEMA = "doctor/profile/v1"

_PRINTABLE = r"[^\x00-\x1f\x7f\x80-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]"

Name = Annotated[str, Meta(pattern=r"^[a-z0-9]([a-z0-9._-]{0,60}[a-z0-9])?\Z")]
EngineName = Annotated[str, Meta(pattern=r"^([a-z0-9]([a-z0-9._-]{0,60}[a-z0-9])?)?\Z")]
Line = Annotated[str, Meta(pattern=rf"^{_PRINTABLE}{{0,400}}\Z")]
Specifier = Annotated[
    str,
    Meta(pattern=r"^(\s{0,3}(~=|==|!=|<=|>=|<|>)\s{0,3}[0-9A-Za-z.*+!_-]{1,60}\s{0,3},?){0,8}\Z"),
]
Capability = Annotated[str, Meta(pattern=r"^[0-9]{1,2}\.[0-9]\Z")]
Chip = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,30}\Z")]
DriverVersion = Annotated[str, Meta(pattern=r"^[0-9]{2,3}(\.[0-9A-Za-z]{1,6}){0,3}\Z")]
Branch = Annotated[int, Meta(ge=100, le=9999)]
PackagePattern = Annotated[str, Meta(pattern=r"^[a-z0-9*?][a-z0-9+.*?_-]{0,80}\Z")]
PythonMinor = Annotated[str, Meta(pattern=r"^3\.[0-9]{1,2}\Z")]
Requirement = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,80}(\[[A-Za-z0-9._,-]{1,80}\])?"
        r"((~=|==|!=|<=|>=|<|>)[0-9A-Za-z.*+!_-]{1,60}(,(~=|==|!=|<=|>=|<|>)[0-9A-Za-z.*+!_-]{1,60})"
        r"{0,4}| @ https://[\w.-]{1,120}(:[0-9]{1,5})?/[\w./+%~-]{1,300})?\Z"
    ),
]
Url = Annotated[
    str, Meta(pattern=r"^(https://[\w.-]{1,120}(:[0-9]{1,5})?(/[\w./+%~-]{0,300})?)?\Z")
]
Image = Annotated[
    str,
    Meta(pattern=r"^([a-z0-9][\w.:/-]{0,200}(:[\w.-]{1,128})?(@sha256:[0-9a-f]{64})?)?\Z"),
]
ContainerUser = Annotated[str, Meta(pattern=r"^([0-9]{1,9}(:[0-9]{1,9})?)?\Z")]
DeviceId = Annotated[str, Meta(pattern=r"^([0-9]{1,3}|GPU-[0-9a-f-]{8,40}|MIG-[0-9a-f-]{8,40})\Z")]
ModelId = Annotated[str, Meta(pattern=r"^([\w.-]{1,96}(/[\w.-]{1,96})?|/[\w./+ -]{1,400})?\Z")]
Revision = Annotated[str, Meta(pattern=r"^[\w./-]{0,100}\Z")]
FilePattern = Annotated[str, Meta(pattern=r"^[\w.*?/+-]{1,200}\Z")]
Sha256 = Annotated[str, Meta(pattern=r"^([0-9a-f]{64})?\Z")]
Host = Annotated[str, Meta(pattern=r"^[0-9A-Za-z][0-9A-Za-z.:-]{0,80}\Z")]
Port = Annotated[int, Meta(ge=1, le=65535)]
Argument = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]{0,60}\Z")]
Variable = Annotated[str, Meta(pattern=r"^[A-Z][A-Z0-9_]{0,80}\Z")]
Account = Annotated[str, Meta(pattern=r"^[a-z_][a-z0-9_-]{0,30}\Z")]
SecretRef = Annotated[
    str,
    Meta(
        pattern=r"^(env:[A-Za-z_][A-Za-z0-9_]{0,80}|file:/[\w./+-]{1,300}|credential:[\w.-]{1,80})?\Z"
    ),
]
InstallerPath = Annotated[str, Meta(pattern=r"^/[\w./+-]{1,300}\.run\Z")]
InstallerVersion = Annotated[str, Meta(pattern=r"^([0-9]{1,3}(\.[0-9A-Za-z]{1,10}){1,6})?\Z")]
ClockTime = Annotated[str, Meta(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]\Z")]
Seconds = Annotated[int, Meta(ge=1, le=86_400)]
Percent = Annotated[float, Meta(gt=0, le=100)]
Gib = Annotated[float, Meta(ge=0, le=1_000_000)]


class Part(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A table of a profile."""


class Engine(Part, frozen=True, kw_only=True):
    """The engine by doctor's name for it, and which of its versions are wanted; "": no engine."""

    name: EngineName
    version: Specifier = ""


class Accelerator(Part, frozen=True, kw_only=True):
    """What it runs on: vendor, lowest compute capability or Ascend chips, number, memory."""

    vendor: Literal["nvidia", "amd", "ascend", "intel", "apple", "cpu"]
    min_capability: Capability | None = None
    chips: Annotated[tuple[Chip, ...], Meta(max_length=20)] = ()
    count: Annotated[int, Meta(ge=0, le=1024)] = 0
    memory_gib: Gib = 0


class Driver(Part, frozen=True, kw_only=True):
    """What may become of the driver. `leave` it, `recommend` a branch, or `install` it.

    `minimum` is the lowest version that will do; `modules` the flavour of the kernel modules.
    """

    policy: Literal["leave", "recommend", "install"] = "leave"
    branch: Branch | None = None
    minimum: DriverVersion | None = None
    modules: Literal["any", "open", "proprietary"] = "any"


class Installer(Part, frozen=True, kw_only=True):
    """One installer of the vendor's, as it lies on the machine; fetched by a person."""

    path: InstallerPath
    version: InstallerVersion = ""
    sha256: Sha256 = ""


class Ascend(Part, frozen=True, kw_only=True):
    """Software of Ascend NPUs: driver, firmware, CANN with operators and NNAL, docker's runtime."""

    driver: Installer | None = None
    firmware: Installer | None = None
    toolkit: Installer | None = None
    ops: Installer | None = None
    nnal: Installer | None = None
    runtime: Installer | None = None


class Hold(Part, frozen=True, kw_only=True):
    """What must not move by itself: the driver as one set, and packages by pattern."""

    driver: bool = False
    packages: Annotated[tuple[PackagePattern, ...], Meta(max_length=50)] = ()


class Install(Part, frozen=True, kw_only=True):
    """How the engine comes onto the machine.

    `venv`: `requirements` are resolved for `python`, from the user's own index and, beside
    it, from `index`; what is named in `without` is left out, whoever asks for it.

    `container`: `image`, to be pinned by digest before it is applied; `user` is the number
    (and group) that the engine runs as in it, "" for one without rights; `network` bridge
    publishes the port, host shares that of the machine; `shm_gib` is its /dev/shm, 0 for what
    the engine is known to need; `read_only` and `device_ids` say whether it may write to its
    own files, and which devices it sees.
    """

    method: Literal["venv", "container"]
    python: PythonMinor | None = None
    requirements: Annotated[tuple[Requirement, ...], Meta(max_length=50)] = ()
    without: Annotated[tuple[Name, ...], Meta(max_length=50)] = ()
    index: Url = ""
    image: Image = ""
    user: ContainerUser = ""
    network: Literal["bridge", "host"] = "bridge"
    shm_gib: Gib = 0
    read_only: bool | None = None
    device_ids: Annotated[tuple[DeviceId, ...], Meta(max_length=64)] = ()


class Model(Part, frozen=True, kw_only=True):
    """The model that is served.

    `embedded` is the known-answer model of doctor, `hub` a repository and revision, of which
    `files` picks some, `path` files that lie on the machine.
    """

    source: Literal["embedded", "hub", "path"] = "embedded"
    id: ModelId = ""
    revision: Revision = ""
    format: Literal["hf", "gguf"] = "hf"
    sha256: Sha256 = ""
    token: SecretRef = ""
    files: Annotated[tuple[FilePattern, ...], Meta(max_length=20)] = ()


class Serving(Part, frozen=True, kw_only=True):
    """Where it listens and with what arguments, by their engine-neutral names."""

    host: Host = "127.0.0.1"
    port: Port = 8000
    name: Line = ""
    args: Annotated[dict[Argument, Line], Meta(max_length=100)] = field(default_factory=dict)
    env: Annotated[dict[Variable, Line], Meta(max_length=50)] = field(default_factory=dict)
    api_key: SecretRef = ""


class Service(Part, frozen=True, kw_only=True):
    """How it is kept running: account, restarts, time to start and to stop, open files."""

    account: Account = "doctor"
    restart: Literal["no", "on-failure", "always"] = "on-failure"
    start_s: Seconds = 600
    stop_s: Seconds = 30
    open_files: Annotated[int, Meta(ge=1024, le=1_048_576)] = 65_536


class RestartTimer(Part, frozen=True, kw_only=True):
    """A restart each night, with traffic drained before it."""

    at: ClockTime
    drain_s: Seconds = 60


class DriftTimer(Part, frozen=True, kw_only=True):
    """A look each day, by the machine itself, at whether the service is what was applied."""

    at: ClockTime = "04:30"


class CheckTimer(Part, frozen=True, kw_only=True):
    """A judgement of the machine each day, for Prometheus, by the doctor that is there."""

    at: ClockTime = "05:00"


class Smoke(Part, frozen=True, kw_only=True):
    """The proof: with `known_answer` text and numbers, where its model is served; else sanity.

    `doctor smoke --profile` serves that model, or without `known_answer` the profile's own.
    apply asks the model that the service has. `timeout_s` is for all of it.
    """

    known_answer: bool = True
    timeout_s: Seconds = 600


class Monitoring(Part, frozen=True, kw_only=True):
    """Metrics and when to raise an alert: memory and errors in per cent, first token in ms."""

    metrics: bool = False
    node_exporter: bool = False
    dcgm: bool = False
    memory_percent: Percent = 90
    error_percent: Percent = 1
    ttft_ms: Annotated[int, Meta(ge=1, le=600_000)] = 2_000


class Profile(Part, frozen=True, kw_only=True):
    """One engine as it is wanted on a machine; without an engine, the machine's driver alone."""

    schema: Literal["doctor/profile/v1"]
    name: Name
    accelerator: Accelerator
    engine: Engine = Engine(name="")
    install: Install = Install(method="venv")
    description: Line = ""
    driver: Driver = Driver()
    ascend: Ascend = Ascend()
    hold: Hold = Hold()
    model: Model = Model()
    serving: Serving = Serving()
    service: Service = Service()
    restart_timer: RestartTimer | None = None
    drift_timer: DriftTimer | None = None
    check_timer: CheckTimer | None = None
    smoke: Smoke = Smoke()
    monitoring: Monitoring = Monitoring()

    @property
    def has_known_answer(self) -> bool | None:
        """Whether its service is proven by the known answer; None: the model's name says it."""
        if not self.smoke.known_answer:
            return False
        return True if self.model.source == "embedded" else None

    @property
    def is_driver_alone(self) -> bool:
        """True if no engine is wanted."""
        return not self.engine.name
