"""The package index that this user has: what pip is told, said to uv.

Addresses may hold passwords. They go from the configuration into the environment of uv and
nowhere else: no lock, no command line, no journal, no report.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Mapping

_UV_OWN = ("UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS")
_TIMEOUT_S = 30


def index_environment(environ: Mapping[str, str], settings: Mapping[str, str]) -> dict[str, str]:
    """Variables that make uv ask where pip asks; none if the user has configured uv itself.

    `settings` are pip's, by the name of the option ("index-url").
    """
    if any(environ.get(name) for name in _UV_OWN):
        return {}
    found = {}
    if settings.get("index-url"):
        found["UV_DEFAULT_INDEX"] = settings["index-url"].strip()
    extra = settings.get("extra-index-url", "").split()
    if extra:
        found["UV_INDEX"] = " ".join(extra)
        # pip looks at all indexes alike and takes the best version.
        found["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    links = settings.get("find-links", "").split()
    if links:
        found["UV_FIND_LINKS"] = ",".join(links)
    if settings.get("cert"):
        found.setdefault("SSL_CERT_FILE", settings["cert"].strip())
    return found


def parse_pip_settings(text: str) -> dict[str, str]:
    """Options from `pip config list`; those of the environment beat those of files."""
    found: dict[str, str] = {}
    for line in sorted(text.splitlines(), key=lambda one: one.startswith(":env:")):
        name, equals, value = line.partition("=")
        section, _, option = name.strip().rpartition(".")
        if equals and section in ("global", "install", ":env:"):
            found[option] = _unquoted(value.strip())
    return found


def pip_settings() -> dict[str, str]:
    """What pip is told on this machine; nothing if there is no pip here."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    return parse_pip_settings(answer.stdout) if answer.returncode == 0 else {}


def _unquoted(text: str) -> str:
    try:
        value = ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return text  # TypeError: a set of sets; MemoryError: nested too deep
    return value if isinstance(value, str) else text
