"""A compose file: each service with its image or build, its command, its devices and memory.

Source: Compose Specification; variables are replaced by their defaults only.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import replace

import yaml

from doctor.errors import UsageError
from doctor.facts import UNSTATED, Facts, ImageRef, Reading, Scope, Workload, seen
from doctor.intake.devices import memory_of
from doctor.intake.docker_lines import expand
from doctor.intake.formats import dockerfile
from doctor.intake.wanted import Files, at_line, no_files
from doctor.intake.yaml_nodes import composed, items, line, scalar, table
from doctor.probes.environment import allowed
from doctor.probes.tool_text import reading

NAME = "compose"
MARKS = ("services:",)
_SERVICES = re.compile(r"^services:[ \t]*(?:#[^\n]*)?$", re.MULTILINE)
_USED = re.compile(r"^[ \t]{1,12}(?:image|build):", re.MULTILINE)
_MOST = 100
_VISIBLE = "NVIDIA_VISIBLE_DEVICES"
_SHM = "/dev/shm"  # noqa: S108 - a mount point
# Docker's default. Source: docs.docker.com, container run, --shm-size.
DEFAULT_SHM_MIB = 64


def looks_like(text: str) -> bool:
    """Tell by the table of services, one of which has an image or is built."""
    return _SERVICES.search(text) is not None and _USED.search(text) is not None


def parse(text: str) -> Facts:
    """The services; nothing for what is no YAML."""
    try:
        return read(text, NAME)
    except UsageError:
        return Facts()


def read(text: str, name: str, files: Files = no_files) -> Facts:
    """A scope for each service, with its engine. Raises UsageError for what is no YAML."""
    document = table(composed(text, name))
    services = table(document.get("services"))
    facts = Facts()
    for key, node in list(services.items())[:_MOST]:
        facts = _joined(facts, _Service(key, table(node), name, files).facts())
    unread = tuple(f"{name}: {word} is not followed" for word in ("include",) if word in document)
    return replace(facts, notes=(*facts.notes, *unread))


def _joined(first: Facts, second: Facts) -> Facts:
    return replace(
        first,
        scopes=(*first.scopes, *second.scopes),
        workloads=(*first.workloads, *second.workloads),
        notes=(*first.notes, *second.notes),
    )


class _Service:
    """One service; `keys` are its nodes by name."""

    def __init__(self, name: str, keys: dict[str, yaml.Node], file: str, files: Files) -> None:
        self.name, self.keys, self.file, self.files = name, keys, file, files

    def facts(self) -> Facts:
        """The scope and the engine of the service."""
        built = self._built()
        scope = built.scopes[0] if built.scopes else Scope(self.name, "container")
        work = self._workload(built)
        scope = replace(
            scope,
            id=self.name,
            kind="container",
            image=self._image(scope.image),
            env=self._env(scope),
            shm_mib=self._shm(),
            devices_visible=self._devices(),
            runtime=reading(self._text("runtime") or None, self._at("runtime")),
        )
        workloads = (replace(work, id=self.name, scope=self.name),) if work else ()
        unread = [f"{self._at(k)}: {k} is not followed" for k in ("extends",) if k in self.keys]
        return Facts(scopes=(scope,), workloads=workloads, notes=(*built.notes, *unread))

    def _at(self, key: str) -> str:
        return at_line(self.file, line(self.keys.get(key)))

    def _text(self, key: str) -> str:
        return expand(scalar(self.keys.get(key)), {})

    def _built(self) -> Facts:
        """What the Dockerfile of a service says, where it can be read."""
        node = self.keys.get("build")
        if node is None:
            return Facts()
        keys = table(node)
        inline = scalar(keys.get("dockerfile_inline"))
        if inline:
            return dockerfile.read(inline, f"{self.file}#{self.name}", self.files)
        context = (expand(scalar(node) or scalar(keys.get("context")), {}) or ".").rstrip("/")
        named = f"{context}/{scalar(keys.get('dockerfile')) or dockerfile.NAME}"
        found = self.files(named.removeprefix("./"), self.file)
        if found is None:
            return Facts(notes=(f"{self._at('build')}: {named[:80]} is not read",))
        target, given = scalar(keys.get("target")), _pairs(keys.get("args"))
        return dockerfile.read(found[1], found[0], self.files, target, given)

    def _image(self, built: ImageRef) -> ImageRef:
        """The base of what is built here; a name beside `build` is that of the result."""
        ref = self._text("image")
        return built if "build" in self.keys else dockerfile.image_named(ref, self._at("image"))

    def _env(self, scope: Scope) -> Reading[dict[str, str]]:
        own = _pairs(self.keys.get("environment"))
        known = {**(scope.env.value or {}), **allowed(own)}
        at = self._at("environment") if own else scope.env.at
        return seen(known, at, partial=True) if known else UNSTATED

    def _shm(self) -> Reading[int]:
        """Shared memory as given; Docker's default where nothing in the service speaks of it."""
        size = memory_of(self._text("shm_size"))
        if size is not None:
            return seen(size, self._at("shm_size"))
        others = ("ipc", "shm_size", "tmpfs", "extends", "privileged")
        mounts = " ".join(map(_mount, items(self.keys.get("volumes"))))
        if any(key in self.keys for key in others) or _SHM in mounts:
            return UNSTATED
        return seen(DEFAULT_SHM_MIB, self._at("image"))

    def _devices(self) -> Reading[tuple[str, ...]]:
        """The devices that are asked for. None is a fact: a container gets none by itself.

        A runtime or NVIDIA_VISIBLE_DEVICES may bring them without being asked here.
        """
        reserved = self.keys.get("deploy")
        for step in ("resources", "reservations", "devices"):
            reserved = table(reserved).get(step)
        rows = [*items(reserved), *items(self.keys.get("gpus")), *items(self.keys.get("devices"))]
        words = [_device(row) for row in rows] + (
            [self._text("gpus")] if "gpus" in self.keys else []
        )
        named = tuple(word for word in words if word)
        if named:
            return seen(named, self._at("gpus" if "gpus" in self.keys else "deploy"), partial=True)
        others = ("runtime", "privileged", "extends", "device_requests")
        if any(key in self.keys for key in others) or _VISIBLE in _pairs(
            self.keys.get("environment")
        ):
            return UNSTATED
        return seen((), at_line(self.file, min((line(n) for n in self.keys.values()), default=1)))

    def _workload(self, built: Facts) -> Workload | None:
        """The engine by entry point and command, else the one that the image is made for."""
        entrypoint, command = _argv(self.keys.get("entrypoint")), _argv(self.keys.get("command"))
        if not entrypoint and not command and built.workloads:
            return built.workloads[0]
        key = "command" if command else "entrypoint" if entrypoint else "image"
        image = self._text("image")
        if not image and built.scopes:
            image = built.scopes[0].image.ref
        return dockerfile.engine_started(image, entrypoint, command, self._at(key))


def _argv(node: yaml.Node | None) -> tuple[str, ...]:
    """A command as a list, or as text that a shell would split."""
    listed = tuple(expand(scalar(item), {}) for item in items(node))
    if listed:
        return listed
    text = expand(scalar(node), {})
    try:
        return tuple(shlex.split(text))
    except ValueError:
        return tuple(text.split())


def _pairs(node: yaml.Node | None) -> dict[str, str]:
    """A table, or a list of NAME=value."""
    found: Mapping[str, str] = {key: scalar(value) for key, value in table(node).items()}
    listed = [scalar(item).partition("=") for item in items(node)]
    return {**found, **{name: expand(value, {}) for name, equals, value in listed if equals}}


def _mount(node: yaml.Node) -> str:
    return scalar(node) or scalar(table(node).get("target"))


def _device(node: yaml.Node) -> str:
    """How one row asks for devices: its driver or capabilities, or the path of a device."""
    keys = table(node)
    if not keys:
        return scalar(node)
    words = [scalar(keys.get("driver")), *(scalar(i) for i in items(keys.get("capabilities")))]
    return " ".join(word for word in words if word)
