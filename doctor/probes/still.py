"""What a system that does not run leaves open: a mounted disk, an image."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Optional

from doctor.facts import Missing, Reading, missing
from doctor.probes.host import CommandResult


class StillHost:
    """The questions of a `Host` that only a running system answers; `env` was given."""

    def __init__(self, env: Optional[Mapping[str, str]] = None) -> None:
        self._env = dict(env or {})

    def run(self, argv: tuple[str, ...], timeout_s: float = 10.0) -> Reading[CommandResult]:  # noqa: ARG002
        """Not stated: nothing of it is run."""
        return missing(Missing.NOT_STATED, argv[0])

    def get(self, socket: str, target: str, timeout_s: float = 5.0) -> Reading[str]:  # noqa: ARG002
        """Not stated: nothing of it answers."""
        return missing(Missing.NOT_STATED, socket)

    def nvml(self, timeout_s: float) -> Reading[dict[str, object]]:  # noqa: ARG002
        """Not stated: it has no driver at work."""
        return missing(Missing.NOT_STATED, "NVML")

    def dcmi(self, folders: tuple[str, ...], timeout_s: float) -> Reading[dict[str, object]]:  # noqa: ARG002
        """Not stated: it has no driver at work."""
        return missing(Missing.NOT_STATED, "DCMI")

    def environ(self) -> dict[str, str]:
        """The variables that were given."""
        return dict(self._env)
