"""From the words of a command line to what is to be proven."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from doctor.errors import UsageError
from doctor.facts import Version
from doctor.facts.arguments import argument_name
from doctor.profile.read import find_profile
from doctor.smoke.ask import Ask
from doctor.smoke.profiled import ask_of
from doctor.smoke.records import read_record
from doctor.smoke.secret import read_secret
from doctor.smoke.values import value_of

_ENGINE = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,60}?)(?:==([^=\s]{1,60}))?")
_NAME = re.compile(r"[A-Za-z][\w-]{0,60}")


@dataclass(frozen=True)
class Options:
    """What was written: every field as it stands on the command line."""

    url: str = ""
    engine: str = ""
    profile: str = ""
    python: str = ""
    model: str = ""
    args: tuple[str, ...] = ()
    api_key: str = ""
    timeout_s: float | None = None
    expect: str = ""
    keep_log: str = ""


# What a person may say about a server that runs: it decides how exact it can be.
_OF_A_URL = frozenset({"kv_cache_dtype", "quantization"})


def read_ask(options: Options) -> Ask:
    """Understand the options. Raises UsageError for what contradicts itself or means nothing."""
    args = dict(_argument(text) for text in options.args)
    if options.url and (options.profile or options.python or args.keys() - _OF_A_URL):
        raise UsageError(
            "a URL names a server that runs: there is nothing to start",
            "leave --profile, --python and --arg out",
        )
    if options.profile and options.engine:
        raise UsageError("--profile names an engine already", "leave --engine out")
    plain = ask_of(find_profile(options.profile)) if options.profile else Ask()
    engine, version = _engine(options.engine) if options.engine else (plain.engine, plain.version)
    return replace(
        plain,
        url=options.url,
        engine=engine,
        version=version,
        python=options.python,
        model=options.model or plain.model,
        args={**plain.args, **args},
        key=read_secret(options.api_key) if options.api_key else plain.key,
        timeout_s=options.timeout_s or plain.timeout_s,
        keep_log=options.keep_log,
        record=read_record(options.expect) if options.expect else None,
    )


def _engine(text: str) -> tuple[str, Version | None]:
    match = _ENGINE.fullmatch(text.strip())
    version = Version.maybe(match[2]) if match and match[2] else None
    if match is None or (match[2] and version is None):
        raise UsageError(f"--engine {text[:60]!r} is not a name", "write vllm or vllm==0.20.0")
    return match[1].lower(), version


def _argument(text: str) -> tuple[str, Any]:
    """Read "tp=2": the engine-neutral name, and the value as JSON if it is such."""
    name, equals, value = text.partition("=")
    if not equals or not _NAME.fullmatch(name.lstrip("-")) or not value:
        raise UsageError(f"--arg {text[:60]!r} is not NAME=VALUE", "--arg max_model_len=4096")
    if argument_name(name) == "api_key":
        raise UsageError("an API key is no argument", "--api-key env:NAME or file:PATH")
    return argument_name(name), value_of(value)
