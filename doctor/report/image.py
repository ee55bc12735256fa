"""Images: what there is, what was pinned, built and pushed, and what verification saw."""

from __future__ import annotations

import json
from collections.abc import Iterable

from doctor.images.building import Built
from doctor.images.pins import Pin
from doctor.images.recipe import Recipe
from doctor.images.verify import Verified
from doctor.report import Style
from doctor.report.clean import clean_line
from doctor.report.paint import paint

_NAME, _POINT = 15, 16
_MARKS = {True: ("ok", "green"), False: ("FAIL", "red"), None: ("-", "dim")}


def render_list(recipes: Iterable[Recipe], style: Style) -> str:
    """One recipe a line: name, whether the project builds it, what it is, its base."""
    lines = []
    for recipe in recipes:
        spec = recipe.spec
        state = "built here" if spec.built_here else "not built here"
        lines.append(f"{spec.name:<{_NAME}}{state:<16}{clean_line(spec.description)}")
        lines.append(f"{'':<{_NAME}}{'':<16}base {spec.base}")
    return "\n".join(line[: style.width] if style.colour else line for line in lines) + "\n"


def render_list_json(recipes: Iterable[Recipe]) -> str:
    """The same for programs."""
    rows = [
        {
            "name": recipe.spec.name,
            "engine": recipe.spec.engine,
            "description": recipe.spec.description,
            "base": recipe.spec.base,
            "content": recipe.spec.content,
            "built_here": recipe.spec.built_here,
        }
        for recipe in recipes
    ]
    return json.dumps({"schema": "doctor/images/v1", "images": rows}, indent=2) + "\n"


def render_pins(pins: Iterable[Pin], path: str) -> str:
    """Each reference with its digest; a tag that leads elsewhere now is said so."""
    lines = []
    for pin in pins:
        lines.append(f"{pin.reference} {pin.digest}")
        if pin.is_moved:
            lines.append(f"  published again: the lock had {pin.before}")
    return "\n".join([*map(clean_line, lines), f"written to {path}"]) + "\n"


def render_built(built: Built) -> str:
    """The image that was built, and what its labels say."""
    lines = [f"{built.tag} {built.id}", f"base {built.base}", f"builder {built.builder}"]
    lines += [f"  {name}={value}" for name, value in sorted(built.labels.items())]
    return "\n".join(map(clean_line, lines)) + "\n"


def render_verified(found: Verified, style: Style) -> str:
    """One point a line, then the verdict."""
    lines = [clean_line(found.config.ref)]
    for point in found.points:
        word, colour = _MARKS[point.passed]
        mark = paint(style, f"{word:<5}", colour)
        lines.append(f"{point.name:<{_POINT}}{mark}{clean_line(point.words, 400)}")
    lines += [f"content {found.content_hash}", "verified" if found.passed else "not verified"]
    return "\n".join(lines) + "\n"


def render_verified_json(found: Verified) -> str:
    """The same for programs."""
    points = [{"name": p.name, "passed": p.passed, "words": p.words} for p in found.points]
    wire = {
        "schema": "doctor/image-verified/v1",
        "image": found.config.ref,
        "digest": found.config.digest or found.config.id,
        "content_hash": found.content_hash,
        "passed": found.passed,
        "points": points,
    }
    return json.dumps(wire, indent=2, ensure_ascii=False) + "\n"
