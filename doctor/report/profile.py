"""Profiles as a list, in full, and what was found wrong with them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from doctor.profile.schema import Part, Profile
from doctor.report import Style
from doctor.report.clean import clean_line

_NAME, _WHERE = 24, 26


def render_list(profiles: Iterable[Profile], style: Style) -> str:
    """One profile a line: name, what it runs on, what it is."""
    lines = []
    for profile in profiles:
        method = "driver" if profile.is_driver_alone else profile.install.method
        where = f"{profile.accelerator.vendor}, {method}"
        text = f"{profile.name:<{_NAME}}{where:<{_WHERE}}{clean_line(profile.description)}"
        lines.append(text[: style.width] if style.colour else text)
    return "\n".join(lines) + "\n"


def render_list_json(profiles: Iterable[Profile]) -> str:
    """The same for programs."""
    rows = [{"name": p.name, **_short(p)} for p in profiles]
    wire = {"schema": "doctor/profiles/v1", "profiles": rows}
    return json.dumps(wire, indent=2, ensure_ascii=False) + "\n"


def _short(profile: Profile) -> dict[str, Any]:
    return {
        "engine": profile.engine.name,
        "version": profile.engine.version,
        "vendor": profile.accelerator.vendor,
        "method": "driver" if profile.is_driver_alone else profile.install.method,
        "description": profile.description,
    }


def render_json(profile: Profile) -> str:
    """The whole profile, defaults included."""
    return json.dumps(_full(profile), indent=2, ensure_ascii=False) + "\n"


def render_yaml(profile: Profile) -> str:
    """The whole profile as YAML that doctor reads back."""
    import yaml

    data = {key: value for key, value in _full(profile).items() if value is not None}
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=100)


def _full(part: Part) -> dict[str, Any]:
    """All fields, those at their defaults too, which msgspec leaves out."""
    found: dict[str, Any] = {}
    for name in part.__struct_fields__:
        value = getattr(part, name)
        if isinstance(value, Part):
            found[name] = _full(value)
        elif value is not None:
            found[name] = msgspec.to_builtins(value)
    return {key: list(v) if isinstance(v, tuple) else v for key, v in found.items()}


def render_doubts(found: Mapping[str, tuple[str, ...]]) -> str:
    """One line a profile that is sound, one a doubt for the others."""
    lines = []
    for name, doubts in found.items():
        lines += [f"{clean_line(name)}: {clean_line(doubt)}" for doubt in doubts]
        if not doubts:
            lines.append(f"{clean_line(name)}: sound")
    return "\n".join(lines) + "\n"
