"""What a smoke test is asked to prove."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from doctor.facts import Version
from doctor.smoke.secret import Secret
from doctor.smoke.target import Record


@dataclass(frozen=True)
class Ask:
    """What is to be proven: the server at `url`, or one of `engine` that is started for it.

    `model` "" is the known-answer model, "known-answer-q8_0" another form of it; for a
    URL it is the name of a model that is served there. `args` are engine-neutral
    arguments; `timeout_s` None leaves the engine the time that it is known to need;
    `keep_log` is a folder for the server's log; `record` figures of an earlier run;
    `known` says of a URL whether the known-answer model is served there, None lets its name
    say it; `versions` a specifier that the installed version must satisfy; `env` variables of the
    server.
    """

    url: str = ""
    engine: str = ""
    version: Version | None = None
    python: str = ""
    model: str = ""
    args: Mapping[str, Any] = field(default_factory=dict)
    key: Secret = Secret()
    timeout_s: float | None = None
    keep_log: str = ""
    record: Record | None = None
    versions: str = ""
    known: bool | None = None
    env: Mapping[str, str] = field(default_factory=dict)
