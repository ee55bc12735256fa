"""A Dockerfile: the base image, what is installed on it, and the engine that it starts.

The last stage is the one that counts, with what it takes over from others. Nothing is
built, run or fetched.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from doctor.facts import Facts, ImageRef, Missing, Workload, missing
from doctor.intake.docker_lines import MOST_LINES, Instruction, expand, instructions
from doctor.intake.installs import Shell, installed_by
from doctor.intake.shell_commands import commands
from doctor.intake.wanted import Files, Wanted, at_line, no_files
from doctor.intake.workload import launched, launched_by_image
from doctor.probes.environment import allowed
from doctor.probes.tool_text import reading

NAME = "Dockerfile"
MARKS = ("FROM ", "from ")
_BEGINS = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n|ARG [^\n]*\n){0,60}FROM [^\n]{1,400}\n", re.I)
_FROM = re.compile(r"((?:--\S{1,100}\s+){0,3})(\S{1,400})(?:\s+AS\s+(\S{1,100}))?\s*", re.I)
_COPIED = re.compile(r"--from=(\S{1,200})\s+(.*)", re.DOTALL)
# Folders that hold installed packages when one stage copies them from another.
_ENVIRONMENT = re.compile(r"venv|site-packages|dist-packages|/usr/local|/opt/|/\.local|conda|wheel")
_PAIR = re.compile(r"([A-Za-z_]\w{0,100})=(\"(?:[^\"\\]|\\.)*\"|'[^']*'|(?:\\.|[^\s\\])*)")
_RUN_FLAGS = re.compile(r"(?:--\w{1,20}=\S{1,300}\s+)*")


@dataclass
class _Stage:
    """What is known of one stage while its instructions are read."""

    image: str = ""
    image_at: str = ""
    wanted: Wanted = field(default_factory=Wanted)
    env: dict[str, str] = field(default_factory=dict)
    args: dict[str, str] = field(default_factory=dict)
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env_at: str = ""
    starts_at: str = ""

    @property
    def values(self) -> dict[str, str]:
        """Variables as they stand now; ENV wins over ARG."""
        return {**self.args, **self.env}


def looks_like(text: str) -> bool:
    """Tell by a FROM before anything else, and by another instruction."""
    return _BEGINS.match(text) is not None and len(instructions(text[:20_000])) > 1


def parse(text: str) -> Facts:
    """The last stage as an image, with its engine."""
    return read(text, NAME)


def read(
    text: str,
    name: str,
    files: Files = no_files,
    target: str = "",
    given: dict[str, str] | None = None,
) -> Facts:
    """The stage `target`, "" for the last; `given` are build arguments."""
    reader = _Reader(name, files, given or {})
    for instruction in instructions(text):
        reader.take(instruction)
    stage = reader.stages.get(target) or reader.stage
    if stage is not None and text.count("\n") > MOST_LINES:
        only = f"{name}: only its first {MOST_LINES} lines are read"
        stage.wanted = replace(stage.wanted, notes=(*stage.wanted.notes, only))
    return _facts(stage, name) if stage else Facts()


class _Reader:
    """Goes through the instructions; `stages` are those that have a name."""

    def __init__(self, name: str, files: Files, given: dict[str, str]) -> None:
        self.name, self.files, self.given = name, files, given
        self.stages: dict[str, _Stage] = {}
        self.stage: _Stage | None = None
        self._globals: dict[str, str] = {}
        self._count = 0

    def take(self, found: Instruction) -> None:
        """One instruction."""
        if found.keyword == "FROM":
            self._begin(found)
        elif self.stage is None:
            if found.keyword == "ARG":
                self._argument(found.text, self._globals)
        elif found.keyword == "ARG":
            self._argument(found.text, self.stage.args)
        elif found.keyword == "ENV":
            self.stage.env.update(_variables(found.text, self.stage.values))
            self.stage.env_at = at_line(self.name, found.line)
        elif found.keyword == "RUN":
            self._run(found, self.stage)
        elif found.keyword == "COPY":
            self._copied(found, self.stage)
        elif found.keyword in ("CMD", "ENTRYPOINT"):
            self._start(found, self.stage)

    def _begin(self, found: Instruction) -> None:
        match = _FROM.fullmatch(found.text)
        if match is None:
            return
        image = expand(match[2], self._globals)
        known = self.stages.get(image.lower())
        fresh = _Stage(image, at_line(self.name, found.line))
        self.stage = replace(known, env=dict(known.env), args={}) if known else fresh
        for label in (match[3] or "", str(self._count)):
            if label:
                self.stages[label.lower()] = self.stage
        self._count += 1

    def _argument(self, text: str, into: dict[str, str]) -> None:
        """A build argument: what was given for it, else its default, else the global one."""
        for word in text.split()[:1] if "=" not in text else [text]:
            name, equals, default = word.partition("=")
            name = name.strip()
            plain = default.strip().strip("\"'")
            value = self.given.get(name, expand(plain, {**self._globals, **into}))
            if equals or name in self.given:
                into[name] = value
            elif name in self._globals:
                into[name] = self._globals[name]

    def _run(self, found: Instruction, stage: _Stage) -> None:
        """The commands of a RUN: its own line, or the text of its heredoc."""
        skipped = _RUN_FLAGS.match(found.text)
        begin = skipped.end() if skipped else 0
        text = found.text[begin:]
        if text.startswith("["):
            text = shlex.join(_words(text))
        parts = [(text, lambda place: found.line_at(place + begin))]
        parts += [(body, _heredoc_lines(body, first)) for first, body in found.heredocs]
        for part, line_at in parts:
            shell = Shell(self.name, line_at, stage.values, self.files)
            for command in commands(part, stage.values):
                stage.wanted = installed_by(command, shell).after(stage.wanted)

    def _copied(self, found: Instruction, stage: _Stage) -> None:
        """Packages that come along when an environment is copied from another stage."""
        match = _COPIED.search(found.text)
        source = self.stages.get(match[1].lower()) if match else None
        if match and source is not None and _ENVIRONMENT.search(match[2]):
            stage.wanted = source.wanted.after(stage.wanted)

    def _start(self, found: Instruction, stage: _Stage) -> None:
        text = expand(found.text, stage.values)
        words = _words(text)
        stage.starts_at = at_line(self.name, found.line)
        if found.keyword == "CMD":
            stage.command = words
        else:
            stage.entrypoint, stage.command = words, ()


def _heredoc_lines(body: str, first: int) -> Callable[[int], int]:
    return lambda place: first + body.count("\n", 0, place)


def _words(text: str) -> tuple[str, ...]:
    """The exec form as it is, the shell form as a shell would split it."""
    if text.lstrip().startswith("["):
        try:
            listed = json.loads(text)
        except (ValueError, RecursionError):
            listed = None
        if isinstance(listed, list):
            return tuple(str(word) for word in listed[:500])
    try:
        return tuple(shlex.split(text))
    except ValueError:
        return tuple(text.split())


def _variables(text: str, values: dict[str, str]) -> dict[str, str]:
    """NAME=value pairs, or the old form "NAME value"."""
    pairs = {m[1]: m[2].strip("\"'") for m in _PAIR.finditer(text)}
    if not pairs:
        name, _, value = text.partition(" ")
        pairs = {name: value.strip()} if value else {}
    return {name: expand(value, values) for name, value in pairs.items()}


def _facts(stage: _Stage, name: str) -> Facts:
    known = allowed(stage.env)
    scope = replace(
        stage.wanted.scope(name, "image"),
        image=image_named(stage.image, stage.image_at),
        env=reading(known or None, stage.env_at, partial=True),
    )
    work = engine_started(stage.image, stage.entrypoint, stage.command, stage.starts_at)
    workloads = (replace(work, scope=name),) if work else ()
    return Facts(scopes=(scope,), workloads=workloads, notes=stage.wanted.notes)


def image_named(ref: str, at: str) -> ImageRef:
    """An image as a file names it; none if a variable is left or it is empty on purpose."""
    known = "" if "$" in ref or ref == "scratch" else ref
    return ImageRef(ref=known, cuda=missing(Missing.NOT_STATED, at))


def engine_started(
    image: str, entrypoint: tuple[str, ...], command: tuple[str, ...], at: str
) -> Workload | None:
    """The engine that an image with this entry point and command starts, if it is one."""
    argv = _without_shell((*entrypoint, *command))
    return launched(argv, at) or (
        None if entrypoint or not at else launched_by_image(image, argv, at)
    )


def _without_shell(argv: tuple[str, ...]) -> tuple[str, ...]:
    """The last command of `sh -c "..."`."""
    if len(argv) == 3 and argv[0].rpartition("/")[2] in ("sh", "bash") and argv[1].endswith("c"):
        listed = [command.words for command in commands(argv[2], {})]
        return listed[-1] if listed else ()
    return argv
