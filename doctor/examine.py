"""From what a person named to facts and a request: files, a mounted tree, or this machine."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from doctor.errors import UsageError
from doctor.facts import UNSTATED, Facts, Missing, Reading, Version
from doctor.facts.engines import ENGINE_ORDER

if TYPE_CHECKING:
    from doctor.diagnose import Request
    from doctor.probes.host import Host

_ENGINE = re.compile(r"([A-Za-z0-9][A-Za-z0-9._ -]{0,60}?)(?:==([^=\s]{1,60}))?")
# "vllm 0.20.0", which would be read as a name.
_SPACED = re.compile(r" v?\d")
_EXECUTABLE = re.compile(r"/(?:python|pypy)[\w.]{0,10}$")
_NAMED = {
    "dockerfiles": re.compile(r"(?:.*\.)?(?:docker|container)file(?:\..*)?"),
    "composes": re.compile(r"(?:docker-)?compose[\w.-]*\.ya?ml"),
    "requirements": re.compile(
        r".*requirements[\w.-]*\.(?:txt|in)|pyproject\.toml|.*\.lock|pylock.*"
    ),
}
_NAMED_HINT = "use --requirements, --dockerfile, --compose, --profile or --facts"
_PYTHON_HINT = "name a python executable or an environment's folder"


@dataclass(frozen=True)
class Plans:
    """Files that ask for environments which do not exist yet; `profile` is a name or a file."""

    requirements: tuple[str, ...] = ()
    dockerfiles: tuple[str, ...] = ()
    composes: tuple[str, ...] = ()
    profile: str = ""

    def __add__(self, other: Plans) -> Plans:
        """All files of both."""
        return Plans(
            (*self.requirements, *other.requirements),
            (*self.dockerfiles, *other.dockerfiles),
            (*self.composes, *other.composes),
            self.profile or other.profile,
        )

    def __bool__(self) -> bool:
        """True if there is any."""
        return bool(self.requirements or self.dockerfiles or self.composes or self.profile)


def plans_of(files: tuple[str, ...]) -> Plans:
    """Put files where their names say that they belong; raises UsageError for another name."""
    kinds: dict[str, list[str]] = {kind: [] for kind in _NAMED}
    for file in files:
        name = file.rpartition("/")[2].lower()
        kind = next((kind for kind, pattern in _NAMED.items() if pattern.fullmatch(name)), "")
        if not kind:
            raise UsageError(f"{file[:200]}: its name does not say what it is", _NAMED_HINT)
        kinds[kind].append(file)
    requirements, dockerfiles, composes = map(
        tuple, (kinds["requirements"], kinds["dockerfiles"], kinds["composes"])
    )
    return Plans(requirements, dockerfiles, composes)


@dataclass(frozen=True)
class Sources:
    """Where facts come from: `facts` files and a `host` line, else `root`, else this machine.

    `image` is a container image to be judged on that host; reading it may take `image_limit_s`.
    `plans` are files that ask for environments, to be judged on it.
    """

    facts: tuple[str, ...] = ()
    root: str = ""
    pythons: tuple[str, ...] = ()
    host: str = ""
    image: str = ""
    image_limit_s: float = 1800.0
    plans: Plans = Plans()

    @property
    def are_named(self) -> bool:
        """True if something else than this machine as it is was asked about."""
        named = (self.facts, self.root, self.pythons, self.host, self.image, self.plans)
        return any(named)


@dataclass(frozen=True)
class Gathered:
    """Facts, and in words where they come from ("issue.md: collect_env, engine log")."""

    facts: Facts
    source: str


def gather(sources: Sources) -> Gathered:
    """Read the facts; raises UsageError for input that cannot be read."""
    need_consistent(sources)
    if sources.host:
        return _from_line(sources)
    if sources.facts:
        return _from_files(sources.facts)
    from doctor.probes.collect import Options, collect

    facts = collect(host_of(sources), Options(pythons=sources.pythons, say=_say))
    return Gathered(facts, sources.root or "this host")


def need_consistent(sources: Sources) -> None:
    """Raise UsageError for sources that contradict each other, before anything is read."""
    if sources.root and (sources.facts or sources.host):
        other = "--facts" if sources.facts else "--host"
        raise UsageError(f"--root and {other} name two hosts", "give one of them")
    if sources.image and sources.pythons:
        raise UsageError("--image and --python name two targets", "give one of them")


def _from_line(sources: Sources) -> Gathered:
    """A host in words, and what files say beside it; its cards must be known."""
    from doctor.intake.host_line import parse_host
    from doctor.matrix import load_matrix
    from doctor.rules.cards import need_known

    stated = parse_host(sources.host)
    need_known(stated.devices.value or (), load_matrix())
    if not sources.facts:
        return Gathered(stated, "--host")
    from doctor.intake.merge import merge

    read = _from_files(sources.facts)
    return Gathered(merge(stated, read.facts), f"--host; {read.source}")


def _say(text: str) -> None:
    print(f"{text} ...", file=sys.stderr, flush=True)


def _from_files(paths: tuple[str, ...]) -> Gathered:
    """Read and merge several files: earlier ones win, contradictions become notes."""
    from doctor.intake.detect import label_of, parse_input, read_text
    from doctor.intake.merge import merge

    understood = [parse_input(read_text(path), path) for path in paths]
    words = [
        f"{label_of(Path(path).name)}: {', '.join(u.formats)}"
        for path, u in zip(paths, understood, strict=True)
    ]
    return Gathered(merge(*(u.facts for u in understood)), "; ".join(words))


def host_of(sources: Sources) -> Host:
    """The mounted tree that was named, else this machine; raises UsageError for no folder."""
    from doctor.probes.local import this_machine
    from doctor.probes.rooted import RootedHost

    if not sources.root:
        return this_machine()
    try:
        os.listdir(sources.root)
    except (OSError, ValueError) as fault:
        reason = getattr(fault, "strerror", None) or str(fault)
        raise UsageError(f"--root {sources.root}: {reason}", "name a mounted file system") from None
    return RootedHost(sources.root)


def request_of(engine: str, sources: Sources, facts: Facts, **args: object) -> Request:
    """What is to be judged: an engine ("vllm" or "vllm==0.20.0") and the scopes named.

    Raises UsageError for an engine that cannot be read, and for a Python that is not there.
    """
    name, version = parse_engine(engine) if engine else ("", None)
    stated = tuple((key, value) for key, value in args.items() if value not in (None, ""))
    from doctor.diagnose import Request  # a host with nothing to judge needs no judge

    return Request(named_scopes(sources, facts), name, version, stated, _model(name, sources, args))


def _model(engine: str, sources: Sources, args: dict[str, object]) -> Reading[dict[str, Any]]:
    """What is there of the model that was named, on a host that can be looked at."""
    if sources.facts or sources.host or not args.get("model"):
        return UNSTATED
    from doctor.probes import model_files

    host = host_of(sources)
    env = host.environ()
    return model_files.read(host, engine, args, env, env.get("PWD", ""))


def need_askable(engine: str, model: str) -> None:
    """Raise UsageError for a question that makes no sense, before anything is read."""
    if engine:
        parse_engine(engine)
    elif model:
        raise UsageError("--model says nothing without --engine", "add --engine vllm")


def parse_engine(text: str) -> tuple[str, Version | None]:
    """Read "vLLM" or "vllm==0.20.0"; raises UsageError, with the nearest names, for others."""
    from doctor.intake.names import engine_name

    match = _ENGINE.fullmatch(text.strip())
    version = Version.maybe(match[2]) if match and match[2] else None
    if match is None or (match[2] and version is None) or _SPACED.search(match[1]):
        raise UsageError(f"--engine {text[:60]!r} is not a name", "write vllm or vllm==0.20.0")
    name = engine_name(match[1])
    if name not in ENGINE_ORDER:
        raise UsageError(f"--engine {match[1]!r} is not known", _nearest(name, ENGINE_ORDER))
    return name, version


def _nearest(name: str, known: tuple[str, ...]) -> str:
    import difflib

    near = difflib.get_close_matches(name, known, n=2)
    return f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(known)}"


def named_scopes(sources: Sources, facts: Facts) -> tuple[str, ...]:
    """Ids of the scopes that the named Pythons belong to; the image's if one was named.

    Raises UsageError for a Python that is none.
    """
    if sources.image:
        return (f"image:{sources.image}",)
    if not sources.pythons:
        return ()
    host = None if sources.facts else host_of(sources)
    return tuple(dict.fromkeys(_scope_at(named, host, facts) for named in sources.pythons))


def _scope_at(named: str, host: Host | None, facts: Facts) -> str:
    """The id of the environment that a folder is or an executable belongs to."""
    from doctor.probes.pyenvs import absolute

    path = absolute(named, os.getcwd()) if named else ""
    place = host.real_path(path) if host and path else None
    real = place.value if place else path
    if place and place.missing is Missing.TIMED_OUT:
        raise UsageError(f"--python {place.at}", "is the server of that file system up?")
    if place and place.missing is Missing.NOT_PERMITTED:
        raise UsageError(f"--python {named!r}: this user may not look there", _PYTHON_HINT)
    if not real:
        raise UsageError(f"--python {named!r}: no such file or folder", _PYTHON_HINT)
    homes = {s.root: s.id for s in facts.scopes if s.kind != "host"}
    if host is not None:
        homes |= {host.real_path(root).value or root: name for root, name in homes.items()}
    places = [path, real, *(_home(p) for p in (path, real) if _EXECUTABLE.search(p))]
    found = next((homes[place] for place in places if place in homes), None)
    if found is None:
        raise UsageError(f"--python {named!r}: no Python environment there", _PYTHON_HINT)
    return found


def _home(executable: str) -> str:
    """The folder above "bin/python3"; that of /bin/python3 is /usr, where it really lies."""
    return executable.rpartition("/")[0].rpartition("/")[0] or "/usr"
