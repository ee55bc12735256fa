"""A stack as input of other tools: requirements, a project for uv, a Dockerfile, a profile."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator

from doctor.errors import NoneFoundError, UsageError
from doctor.report import Style
from doctor.report.clean import clean_line
from doctor.stack.model import PROVEN, Judged, Resolution, Stack

_COMPANIONS = ("torchvision", "torchaudio")
_CARD_VENDOR = "nvidia"


def requirements(found: Resolution, style: Style | None = None) -> str:
    """Requirements for pip; raises NoneFoundError if no wheel or source is offered."""
    offer = _best(found, ("wheel", "source"))
    lines = [f"# {line}" for line in _notes(found, offer)]
    lines += [f"--extra-index-url {url}" for url in _indexes(offer)]
    return "\n".join([*lines, *_pins(offer)]) + "\n"


def pyproject(found: Resolution, style: Style | None = None) -> str:
    """A project for `uv sync`, with torch taken from the index of its build."""
    offer = _best(found, ("wheel", "source"))
    stack = _stack(offer)
    quoted = ",\n".join(f"    {_toml(pin)}" for pin in _pins(offer, for_uv=True))
    text = [
        *(f"# {line}" for line in _notes(found, offer)),
        "[project]",
        f"name = {_toml(f'{stack.engine.replace(chr(46), chr(45))}-stack')}",
        'version = "0"',
        f"requires-python = {_toml(_python_range(stack))}",
        f"dependencies = [\n{quoted},\n]",
        *_uv_settings(offer),
    ]
    return "\n".join(text) + "\n"


def _uv_settings(offer: Judged) -> Iterator[str]:
    stack, torch = _stack(offer), offer.candidate.torch
    yield ""
    yield "[tool.uv]"
    if _needs_prereleases(offer):
        yield 'prerelease = "allow"'
    yield f"environments = [{_toml(_environment(offer))}]"
    labelled = torch is not None and bool(torch.label) and bool(torch.index)
    if torch is not None and labelled:
        yield ""
        yield "[[tool.uv.index]]"
        yield f"name = {_toml(f'pytorch-{torch.label}')}"
        yield f"url = {_toml(torch.index)}"
        yield "explicit = true"
        yield ""
        yield "[tool.uv.sources]"
        for name in ("torch", *_companions(offer)):
            yield f"{name} = {{ index = {_toml(f'pytorch-{torch.label}')} }}"
    if stack.extra_index:
        yield ""
        yield "[[tool.uv.index]]"
        yield f"url = {_toml(stack.extra_index)}"


def _environment(offer: Judged) -> str:
    arch = "aarch64" if any("aarch64" in tag for tag in offer.candidate.tags) else "x86_64"
    return f"sys_platform == 'linux' and platform_machine == '{arch}'"


def _needs_prereleases(offer: Judged) -> bool:
    """Pins on candidates, which uv passes over unless it is told otherwise."""
    release = offer.candidate.release
    pins = release.pins.values() if release else ()
    return any(re.search(r"\d(?:a|b|rc|\.dev)\d", pin) for pin in pins)


def dockerfile(found: Resolution, style: Style | None = None) -> str:
    """A Dockerfile: from the engine's image if that was proposed, else with the wheel."""
    offer = found.offers[0] if found.offers else _best(found, ("image", "wheel"))
    stack = _stack(offer)
    lines = [f"# {line}" for line in _notes(found, offer)]
    if stack.kind == "image":
        lines.append(f"FROM {stack.artifact}")
    else:
        lines += _built(offer)
    lines += [f"ENV {name}={_docker_value(value)}" for name, value in stack.env]
    return "\n".join(lines) + "\n"


def _built(offer: Judged) -> Iterator[str]:
    """A slim Python with the wheels in an environment of their own, run without root."""
    stack = _stack(offer)
    indexes = " ".join(f"--extra-index-url {url}" for url in _indexes(offer))
    pins = " ".join(shlex.quote(pin) for pin in _pins(offer))
    yield f"FROM python:{stack.python or '3.12'}-slim-bookworm"
    yield "RUN python -m venv /opt/engine"
    yield f"RUN /opt/engine/bin/pip install --no-cache-dir {indexes} {pins}".replace("  ", " ")
    yield "ENV PATH=/opt/engine/bin:$PATH"
    yield "RUN useradd --create-home engine"
    yield "USER engine"


def _docker_value(value: str) -> str:
    return json.dumps(value) if re.search(r"[\s\"'$\\]", value) else value


def profile(
    found: Resolution,
    style: Style | None = None,
    kinds: tuple[str, ...] = ("wheel", "image", "source"),
) -> str:
    """A profile that `doctor profile lock` and `doctor plan` take, of the best of these kinds."""
    offer = _best(found, kinds)
    stack = _stack(offer)
    vendor = offer.candidate.vendor
    is_image = stack.kind == "image"
    data: dict[str, object] = {
        "schema": "doctor/profile/v1",
        "name": re.sub(r"[^a-z0-9-]+", "-", f"{stack.engine}-{vendor}".lower()),
        "engine": {"name": stack.engine, "version": f"=={stack.version}" if stack.version else ""},
        "accelerator": {"vendor": vendor},
        "install": _image_install(stack) if is_image else _venv_install(offer),
    }
    if vendor == _CARD_VENDOR:
        minimum = {"minimum": stack.driver_floor} if stack.driver_floor else {}
        data["driver"] = {"policy": "recommend", **minimum}
        data["hold"] = {"driver": True}
    serving = _serving(stack)
    if serving:
        data["serving"] = serving
    return _yaml(_notes(found, offer), data)


def _image_install(stack: Stack) -> dict[str, object]:
    return {"method": "container", "image": stack.artifact}


def _venv_install(offer: Judged) -> dict[str, object]:
    stack = _stack(offer)
    found: dict[str, object] = {"method": "venv", "requirements": _pins(offer)}
    if stack.python:
        found["python"] = ".".join(stack.python.split(".")[:2])
    indexes = _indexes(offer)
    return {**found, "index": indexes[0]} if indexes else found


def _serving(stack: Stack) -> dict[str, object]:
    pairs = dict(zip(stack.flags[::2], stack.flags[1::2], strict=False))
    args = {flag.lstrip("-").replace("-", "_"): value for flag, value in pairs.items()}
    found: dict[str, object] = {}
    if args:
        found["args"] = args
    if stack.env:
        found["env"] = dict(stack.env)
    return found


def _yaml(notes: list[str], data: dict[str, object]) -> str:
    import yaml

    head = "".join(f"# {note}\n" for note in notes)
    return head + yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=100)


def _best(found: Resolution, kinds: tuple[str, ...]) -> Judged:
    """The best offer of a kind that the tool takes."""
    for offer in found.offers:
        if offer.candidate.kind in kinds:
            return offer
    have = ", ".join(dict.fromkeys(o.candidate.kind for o in found.offers)) or "nothing"
    raise NoneFoundError(
        f"no {' or '.join(kinds)} of {found.engine} is offered for this host",
        f"offered: {have}; run doctor resolve without --emit to see why",
    )


def _stack(offer: Judged) -> Stack:
    if offer.stack is None:
        raise UsageError("this offer has no stack", "")
    return offer.stack


def _notes(found: Resolution, offer: Judged) -> list[str]:
    """What to know beside the pins, as comments."""
    stack = _stack(offer)
    word = "proven" if offer.state == PROVEN else "possible, not proven"
    notes = [f"{stack.engine} {stack.version}: {word} by the matrix of {found.matrix_as_of}"]
    if stack.driver_floor:
        notes.append(f"needs driver {stack.driver_floor} or newer")
    if stack.flags:
        notes.append(f"start it with {' '.join(stack.flags)}")
    notes += [f"lacks: {lack}" for lack in offer.lacks]
    return [clean_line(note) for note in notes]


def _indexes(offer: Judged) -> list[str]:
    """Indexes to ask beside the default one."""
    candidate, torch = offer.candidate, offer.candidate.torch
    found = [torch.index if torch and torch.label else "", candidate.extra_index]
    if candidate.index and not candidate.index.endswith(".whl"):
        found.append(candidate.index)
    return [url for url in dict.fromkeys(found) if url.startswith("https://")]


def _pins(offer: Judged, for_uv: bool = False) -> list[str]:
    """Exact pins of the engine, of torch, and of what must be of torch's build.

    The label of a build is written for pip; uv takes it from the index.
    """
    candidate, torch = offer.candidate, offer.candidate.torch
    version = candidate.release.version if candidate.release else str(candidate.version or "")
    if candidate.index.endswith(".whl"):
        pins = [f"{candidate.package} @ {candidate.index.replace('+', '%2B')}"]
    else:
        pins = [f"{candidate.package}=={version}"]
    if torch is not None and candidate.package != "torch":
        label = f"+{torch.label}" if torch.label and not for_uv else ""
        pins.append(f"torch=={torch.version}{label}")
    elif torch is not None and torch.label and not for_uv:
        pins = [f"torch=={torch.version}+{torch.label}"]
    if torch is not None and torch.label:
        pins += [f"{name}{_pin_of(offer, name)}" for name in _companions(offer)]
    parts = (f"{name}=={value}" for name, value in _stack(offer).parts if name != "cann")
    return [*pins, *parts]


def _companions(offer: Judged) -> list[str]:
    """Packages that must come from the index of torch's build, where the engine pins them."""
    release = offer.candidate.release
    pins = release.pins if release else {}
    return [name for name in _COMPANIONS if name in pins]


def _pin_of(offer: Judged, name: str) -> str:
    release = offer.candidate.release
    return release.pins[name] if release else ""


def _python_range(stack: Stack) -> str:
    """The minor version that was judged: others may resolve to something else."""
    parts = stack.python.split(".")
    if len(parts) < 2 or not parts[1].isdecimal():
        return stack.pythons or ">=3.10"
    return f">={parts[0]}.{parts[1]},<{parts[0]}.{int(parts[1]) + 1}"


def _toml(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
