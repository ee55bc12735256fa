"""What programs get when they ask for the GPUs: a CUDA call, a container that sees them.

Asked only after a change, where there are cards and the driver was not merely held.
"""

from __future__ import annotations

import json

import msgspec
from msgspec import Struct

from doctor.errors import RemoteError
from doctor.facts import Facts
from doctor.matrix import Matrix
from doctor.provision.driver.sets import ADOPTED, DriverSet
from doctor.provision.target import NOISE, Target
from doctor.resources import resource

_PYTHON = "/usr/bin/python3"
_LIMIT_S = 600.0
NVIDIA = "nvidia"


class Asked(Struct, frozen=True, kw_only=True):
    """One thing that was tried: on how many GPUs it went well, or what failed with what code.

    `skipped` says why it was not tried.
    """

    count: int = 0
    fault: str = ""
    skipped: str = "nobody asked"
    code: int = 0


class Use(Struct, frozen=True, kw_only=True):
    """A CUDA call, and a container."""

    call: Asked = Asked()
    container: Asked = Asked()


def has_cards(facts: Facts) -> bool:
    """Tell whether NVIDIA cards were seen."""
    return any(device.vendor == NVIDIA for device in facts.devices.value or ())


def read_use(target: Target, wanted: DriverSet, facts: Facts, matrix: Matrix) -> Use:
    """Try both on that machine. Raises RemoteError."""
    if not has_cards(facts) or (wanted.scheme == ADOPTED and not wanted.builds):
        return Use()
    access = matrix.containers.access_of(NVIDIA, wanted.engine)
    words = [*access.every] if access else []
    question = json.dumps({"engine": wanted.engine if access else "", "words": words})
    program = resource("playbooks", "roles", "nvidia_driver", "files", "gpu_use.py")
    command = [_PYTHON, "-I", "-", question]
    answer = target.run(command, program.read_text(encoding="utf-8"), _LIMIT_S)
    try:
        return msgspec.json.decode(answer, type=Use)
    except msgspec.DecodeError as fault:
        raise RemoteError(
            f"{target.name}: its answer cannot be understood: {fault}", NOISE
        ) from None
