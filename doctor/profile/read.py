"""Read a profile: every scalar as text, unknown and duplicate keys refused with their place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import yaml

from doctor.errors import UsageError
from doctor.named_files import read_named
from doctor.profile.schema import Profile
from doctor.resources import resource

SIZE_LIMIT = 256 << 10
_DEEPEST = 8
_PLACE = re.compile(r"`\$(.*?)`")
_FORM = re.compile(r"Expected `str` matching regex '.*'")
_UNKNOWN = re.compile(r"unknown field `(.*)`")
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")
_SECRETS = re.compile(r"(?i)(?:^|_)(?:key|token|secret|password|passwd)$")
_Loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


class _ProfileLoader(_Loader):  # type: ignore[misc]  # the base is chosen at run time
    """Reads scalars as text; refuses aliases, duplicate keys and deep nesting."""


def parse_profile(text: str, name: str) -> Profile:
    """Read a profile from text; raises UsageError that names file, line and key."""
    if len(text) > SIZE_LIMIT:
        raise UsageError(f"{name}: larger than {SIZE_LIMIT >> 10} KiB", "this is no profile")
    node = _composed(text, name)
    data = _plain(node, name, 0)
    try:
        profile = msgspec.convert(data, Profile, strict=False)
    except msgspec.ValidationError as fault:
        raise _misread(str(fault), node, name) from None
    contradiction = next(_contradictions(profile), "")
    if contradiction:
        raise UsageError(f"{name}: {contradiction}", _HINT)
    return profile


_HINT = "`doctor profile show llamacpp-cpu` is an example; docs/profiles.md describes the keys"


def read_profile(path: Path) -> Profile:
    """Read a profile file; raises UsageError."""
    try:
        text = read_named(path, SIZE_LIMIT + 1).decode("utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        raise UsageError(f"cannot read {path}: {_reason(fault)}", "name a profile file") from None
    return parse_profile(text, str(path))


def _reason(fault: OSError | UnicodeDecodeError) -> str:
    return (fault.strerror or "not readable") if isinstance(fault, OSError) else "not UTF-8 text"


def find_profile(named: str) -> Profile:
    """The profile of a file, or the built-in one of that name; raises UsageError."""
    if "/" in named or named.endswith((".yaml", ".yml")):
        return read_profile(Path(named))
    names = builtin_names()
    if named not in names:
        import difflib

        near = difflib.get_close_matches(named, names, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise UsageError(f"no profile {named[:60]!r}", f"{hint}Built in: {', '.join(names)}")
    return read_profile(resource("profiles", f"{named}.yaml"))


def builtin_names() -> tuple[str, ...]:
    """Names of the profiles that ship with doctor."""
    return tuple(sorted(path.stem for path in resource("profiles").glob("*.yaml")))


def _composed(text: str, name: str) -> yaml.Node:
    try:
        for event in yaml.parse(text, Loader=_ProfileLoader):
            if isinstance(event, yaml.AliasEvent):
                raise UsageError(f"{name}:{_line(event)}: aliases are not allowed", "write it out")
        node = yaml.compose(text, Loader=_ProfileLoader)
    except (yaml.YAMLError, RecursionError, ValueError) as fault:
        where = " ".join(str(fault).split())[:300]
        raise UsageError(f"{name}: {where}", "mend the YAML at the place named") from None
    if not isinstance(node, yaml.MappingNode):
        raise UsageError(f"{name}: not a table of keys", _HINT)
    return node


def _plain(node: yaml.Node, name: str, depth: int) -> Any:
    """Values of a node: texts, lists and tables."""
    if depth > _DEEPEST:
        raise UsageError(f"{name}:{_line(node)}: nested too deeply", _HINT)
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item, name, depth + 1) for item in node.value]
    if not isinstance(node, yaml.MappingNode):
        return node.value
    table: dict[str, Any] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise UsageError(f"{name}:{_line(key)}: a key that is no text", _HINT)
        if key.value in table:
            raise UsageError(
                f"{name}:{_line(key)}: duplicate key {key.value[:60]!r}", "keep one of the two"
            )
        table[key.value] = _plain(value, name, depth + 1)
    return table


def _line(node: yaml.Node | yaml.Event) -> int:
    mark: Any = node.start_mark
    return int(mark.line) + 1


def _misread(message: str, root: yaml.Node, name: str) -> UsageError:
    """The fault with its line and key in place of msgspec's path."""
    match = _PLACE.search(message)
    steps = [a or b for a, b in _STEP.findall(match[1])] if match else []
    node, shown = root, ".".join(steps)
    for step in steps:
        node = _child(node, step) or node
    text = _FORM.sub("not of the form that is allowed here", message.partition(" - at ")[0])
    unknown = _UNKNOWN.search(text)
    node = (unknown and _key(node, unknown[1])) or node
    place = f"{shown}: " if shown else ""
    near = _near_key(unknown[1]) if unknown else ""
    hint = f"did you mean {near}? {_HINT}" if near else _HINT
    return UsageError(f"{name}:{_line(node)}: {place}{text}"[:500], hint)


def _near_key(name: str) -> str:
    """The key of any table of a profile that is most like a name; "" if none is."""
    import difflib

    _, tables = msgspec.json.schema_components([Profile])
    known = {key for table in tables.values() for key in table.get("properties", ())}
    return next(iter(difflib.get_close_matches(name, sorted(known), n=1)), "")


def _key(node: yaml.Node, name: str) -> yaml.Node | None:
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    return next((key for key, _ in pairs if key.value == name), None)


def _child(node: yaml.Node, step: str) -> yaml.Node | None:
    if isinstance(node, yaml.SequenceNode) and step.isdecimal() and int(step) < len(node.value):
        found: yaml.Node = node.value[int(step)]
        return found
    if isinstance(node, yaml.MappingNode):
        return next((value for key, value in node.value if key.value == step), None)
    return None


def _contradictions(profile: Profile) -> Iterator[str]:
    """What each key allows and all of them together do not."""
    install, model = profile.install, profile.model
    yield from _npu_contradictions(profile)
    if profile.is_driver_alone:
        yield from _driver_contradictions(profile)
        return
    if install.method == "container" and not install.image:
        yield "install.image is missing: a container needs an image"
    if install.method == "venv" and not install.requirements:
        yield "install.requirements is empty: an environment needs something to install"
    if install.method == "venv" and install.image:
        yield "install.image belongs to method container"
    if model.source != "embedded" and not model.id:
        yield f"model.id is missing: source {model.source} needs it"
    if model.source == "path" and not model.id.startswith("/"):
        yield "model.id must be an absolute path for source path"
    for key, text in (("id", model.id), ("revision", model.revision)):
        if ".." in text.split("/") or text.startswith("-"):
            yield f"model.{key} must not climb with .. nor begin with -"
    yield from _branch_missing(profile)
    for variable in profile.serving.env:
        if _SECRETS.search(variable):
            yield f"serving.env.{variable} looks like a secret: name it by api_key or token"


def _driver_contradictions(profile: Profile) -> Iterator[str]:
    """A profile of the driver alone wants something of it, and nothing of an engine."""
    if profile.install.requirements or profile.install.image or profile.model.id:
        yield "engine is missing: install and model belong to an engine"
    elif profile.driver.policy != "install" and not profile.hold.driver:
        yield "engine is missing, and nothing is wanted of the driver either"
    yield from _branch_missing(profile)


def _npu_contradictions(profile: Profile) -> Iterator[str]:
    """Installers belong to NPUs, whose drivers have no branches."""
    named = {n: getattr(profile.ascend, n) for n in profile.ascend.__struct_fields__}
    installers = {name: item for name, item in named.items() if item is not None}
    is_npu = profile.accelerator.vendor == "ascend"
    if installers and not is_npu:
        yield "ascend belongs to accelerator.vendor ascend"
    if is_npu and profile.driver.policy == "install" and not installers:
        yield "ascend names no installer: policy install needs one"
    if is_npu and profile.driver.branch is not None:
        yield "driver.branch is NVIDIA's: name installers in ascend"
    for name, item in installers.items():
        if ".." in item.path.split("/"):
            yield f"ascend.{name}.path must not climb with .."


def _branch_missing(profile: Profile) -> Iterator[str]:
    if profile.accelerator.vendor == "ascend":
        return
    if profile.driver.policy == "install" and profile.driver.branch is None:
        yield "driver.branch is missing: policy install needs it"
