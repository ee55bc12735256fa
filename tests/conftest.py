"""What holds for every test: this machine is not to be asked, unless the test says so."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# A busy machine is no fault of a parser: time is measured in benchmarks, not here. The
# examples are the same in every run, so that a red run can be repeated.
settings.register_profile(
    "project",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("project")

# Python announces these before they happen. A hook cannot be taken off again, so it looks
# at this switch.
_FORBIDDEN = (
    "ctypes.dlopen",
    "os.fork",
    "os.forkpty",
    "os.posix_spawn",
    "os.system",
    "socket.connect",
    "socket.getaddrinfo",
    "subprocess.Popen",
)
_REAL = ("real", "slow", "docker", "heavy")
_guard = {"on": False}


def _refuse(event: str, arguments: tuple[object, ...]) -> None:
    if _guard["on"] and event in _FORBIDDEN:
        what = str(arguments[0]) if arguments else ""
        if event != "ctypes.dlopen" or "nvidia" in what or "cuda" in what:
            raise RuntimeError(f"{event} {what}: mark the test `real` if it must ask this machine")


sys.addaudithook(_refuse)


@pytest.fixture(autouse=True)
def _stay_off_this_machine(request: pytest.FixtureRequest) -> Iterator[None]:
    """Processes, connections and driver libraries fail in tests that are not marked."""
    _guard["on"] = not any(request.node.get_closest_marker(name) for name in _REAL)
    yield
    _guard["on"] = False
