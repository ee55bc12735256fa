"""How engines' servers are started, asked and stopped: rows of the domain `launch`."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field

from doctor.facts import Version
from doctor.matrix.model import Row
from doctor.matrix.ranges import covers


class Launch(Row, frozen=True, kw_only=True):
    """One engine's server over a range of versions, `since` inclusive, `until` exclusive.

    `command` are words with {bin}, {python}, {model}; `arguments` engine-neutral names →
    flags that take the value, beside those that flag claims give; `on` and `off` the words
    for a switch that is True or False; `settings` names → places in a JSON file that the
    engine finds through `config_env` and whose original lies at one of `config_from`;
    `config` is the text of that original, `forms` are what values of names must look like.
    `flags_of` is the engine whose flags these are. `multiplied` names whose value is given
    for all of another name's together. `refused` says why a name has no flag.

    `key_env` is the variable that takes the API key; `env` is always set, `offline_env` for
    a model that lies here. `model_form` is "gguf" or "hf". `health` is a path, `generates`
    one that also runs the model. `metrics` is a path, `metrics_words` what turns it on;
    `counters` give the metric's names by what is counted, the first that is there counts.
    `start_s` is how long a start may take, `stop_s` how long a stop after `stop_signal`.
    """

    engine: str
    command: tuple[str, ...]
    since: str = ""
    until: str = ""
    verified_to: str = ""
    package: str = ""
    flags_of: str = ""
    model_form: str = "hf"
    arguments: dict[str, tuple[str, ...]] = field(default_factory=dict)
    on: dict[str, tuple[str, ...]] = field(default_factory=dict)
    off: dict[str, tuple[str, ...]] = field(default_factory=dict)
    multiplied: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    forms: dict[str, str] = field(default_factory=dict)
    config: str = ""
    config_env: str = ""
    config_from: tuple[str, ...] = ()
    key_env: str = ""
    env: dict[str, str] = field(default_factory=dict)
    offline_env: dict[str, str] = field(default_factory=dict)
    health: str = ""
    generates: str = ""
    metrics: str = ""
    metrics_words: tuple[str, ...] = ()
    counters: dict[str, tuple[str, ...]] = field(default_factory=dict)
    start_s: int = 600
    stop_signal: str = "SIGTERM"
    stop_s: int = 30


class LaunchDomain(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Servers of engines."""

    as_of: str
    launches: tuple[Launch, ...] = ()


def find_launch(rows: Iterable[Launch], engine: str, version: Version | None) -> Launch | None:
    """The row of an engine that holds for a version; its newest row for an unknown version."""
    fitting = [row for row in rows if row.engine == engine and _holds(row, version)]
    return fitting[-1] if fitting else None


def _holds(row: Launch, version: Version | None) -> bool:
    """Pre-releases belong to the version that they lead to."""
    if version is None:
        return True
    final = Version(".".join(map(str, version.release))) if version.is_prerelease else version
    return covers(row, final) is not False
