"""What a person typed, as an order: profile, target, whose service, which lock."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from doctor.errors import UsageError
from doctor.named_files import read_named
from doctor.profile.lock import Lock, read_lock
from doctor.profile.read import builtin_names, find_profile
from doctor.profile.schema import Name, Profile
from doctor.provision.driver.host_lock import read_host_lock
from doctor.provision.driver.sets import NAME as DRIVER
from doctor.provision.locks import is_for
from doctor.provision.npu.sets import NAME as NPU_DRIVER
from doctor.provision.order import Order, driver_of, service_key
from doctor.provision.runs import Runs, state_folder
from doctor.provision.target import LOCAL, Target, parse_target

LOCK_NAME = "stack.lock"


@dataclass(frozen=True)
class Asked:
    """Options that plan, apply, rollback and drift share; `profile` may be a file."""

    profile: str
    user: bool = False
    on: str = ""
    ssh_config: str = ""
    lock: str = ""
    offline: str = ""
    driver: bool = False
    busy: bool = False

    @property
    def wants_driver(self) -> bool:
        """True if it is about the driver: by option, by its name, or by a profile of it alone."""
        if self.driver or self.profile in (DRIVER, NPU_DRIVER):
            return True
        is_file = "/" in self.profile or self.profile.endswith((".yaml", ".yml"))
        return is_file and find_profile(self.profile).is_driver_alone

    @property
    def target(self) -> Target:
        """The machine. Raises UsageError."""
        return parse_target(self.on, self.ssh_config)

    @property
    def service(self) -> str:
        """The name of the service: that of the profile, whose file may be gone by now."""
        if self.profile in (DRIVER, NPU_DRIVER):
            return self.profile
        if self.wants_driver:
            return driver_of(find_profile(self.profile))
        is_file = "/" in self.profile or self.profile.endswith((".yaml", ".yml"))
        if not is_file and self.profile not in builtin_names():
            with suppress(msgspec.ValidationError):
                return msgspec.convert(self.profile, Name)
        return find_profile(self.profile).name

    @property
    def key(self) -> str:
        """The name of the service on its machine."""
        return service_key(self.service, self.target)

    def runs(self) -> Runs:
        """Where runs are kept on this machine: with its own system services those of root."""
        own = self.user or self.target.kind != LOCAL or os.getuid() != 0
        return Runs(state_folder(own))


def read_order(asked: Asked, say: Callable[[str], None]) -> Order:
    """Turn options into an order. Raises UsageError."""
    if asked.wants_driver:
        return _driver_order(asked, say)
    if asked.busy:
        raise UsageError("--busy is for a change of the driver", "add --driver, or leave it out")
    profile, target = find_profile(asked.profile), asked.target
    if not asked.user and target.kind == LOCAL and os.getuid() != 0:
        raise UsageError("a system service needs root", "use --user, or become root")
    if asked.offline and not Path(asked.offline).is_dir():
        raise UsageError(
            f"--offline {asked.offline[:200]}: no folder", "name the one of --download"
        )
    lock = lock_for(asked, profile, say)
    order = Order(profile, target, asked.user, lock, asked.offline, say=say)
    return replace(order, named=asked.profile)


def _driver_order(asked: Asked, say: Callable[[str], None]) -> Order:
    profile, target = find_profile(asked.profile), asked.target
    if asked.user or asked.offline:
        raise UsageError("a driver is the machine's", "leave --user and --offline out")
    locked = read_host_lock(Path(asked.lock)) if asked.lock else None
    return Order(profile, target, False, say=say, driver=True, host_lock=locked, busy=asked.busy)


def lock_for(asked: Asked, profile: Profile, say: Callable[[str], None]) -> Lock | None:
    """The lock that was named, else the one in this folder if it is the profile's."""
    if asked.lock:
        lock = read_lock(Path(asked.lock))
        if not is_for(lock, profile):
            raise UsageError(
                f"{asked.lock} was made for something else than {profile.name} wants now",
                f"doctor profile lock {asked.profile}",
            )
        return lock
    here = Path(LOCK_NAME)
    if not here.is_file():
        return None
    lock = read_lock(here)
    if not is_for(lock, profile):
        return None
    say(f"using ./{LOCK_NAME}")
    return lock


def inputs_of(plan_file: str) -> str:
    """What a plan in JSON was made from. Raises UsageError."""
    try:
        found = json.loads(read_named(plan_file))
        return str(found["inputs"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as fault:
        raise UsageError(
            f"{plan_file[:200]}: {fault}", "make it with doctor plan --format json"
        ) from None
