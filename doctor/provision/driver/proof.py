"""Is the driver proven: layer by layer, each passed, failed or skipped with the reason.

Packages, the module on disk for the kernel that runs, the loaded module, the libraries, the
fabric manager, the tool, the devices, a container that sees them, a CUDA call, an engine's smoke
test. What cannot be seen on a machine without a GPU is skipped, and skipped is not passed.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from msgspec import Struct

from doctor.facts import Facts, Reading, Version
from doctor.provision.driver.sets import ADOPTED, DriverSet, DriverState
from doctor.provision.driver.steps import to_install
from doctor.provision.driver.use import Asked, Use, has_cards

_MANAGER = "nvidia-fabricmanager"
_UPPER = ("loaded module", "nvidia-smi", "devices", "container", "CUDA call", "smoke")
# What libcuda answers where it finds nothing to compute on.
_NO_DEVICE = 100


class Layer(Enum):
    """What became of a layer."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class Shown(Struct, frozen=True):
    """One layer: its name, what became of it, and what was seen."""

    name: str
    state: Layer
    text: str = ""


def layers(
    wanted: DriverSet, state: DriverState, facts: Facts, use: Use | None = None
) -> tuple[Shown, ...]:
    """All layers from the bottom up; a driver that was only held need not work. Pure."""
    shown = _layers(wanted, state, facts, use or Use())
    if wanted.scheme != ADOPTED or wanted.builds:
        return shown
    return (shown[0], *(_lenient(layer) for layer in shown[1:]))


def _lenient(layer: Shown) -> Shown:
    if layer.state is not Layer.FAILED:
        return layer
    return Shown(layer.name, Layer.SKIPPED, f"only held, and before already: {layer.text}")


def _layers(wanted: DriverSet, state: DriverState, facts: Facts, use: Use) -> tuple[Shown, ...]:
    found = [_packages(wanted, state), _on_disk(wanted, state, facts)]
    if not has_cards(facts):
        why = "no GPU" if facts.devices.is_known else "whether there is a GPU is not known"
        return (*found, *_apart(wanted, state, facts), *(_skipped(n, why) for n in _UPPER))
    nvidia = facts.nvidia
    version = Version.maybe(wanted.version)
    return (
        *found,
        _same("loaded module", nvidia.driver, version),
        *_apart(wanted, state, facts),
        _same("nvidia-smi", nvidia.smi_driver, version),
        _devices(facts),
        _tried("container", use.container),
        _call(facts, use.call),
        _skipped("smoke", "an engine shows it: doctor smoke"),
    )


def words_of(shown: tuple[Shown, ...]) -> str:
    """The layers in one line: what failed or was skipped says why."""
    texts = []
    for layer in shown:
        more = f" ({layer.text})" if layer.text and layer.state is not Layer.PASSED else ""
        texts.append(f"{layer.name} {layer.state.value}{more}")
    partly = any(layer.state is Layer.SKIPPED for layer in shown)
    return ("only in part: " if partly else "") + "; ".join(texts)


def _packages(wanted: DriverSet, state: DriverState) -> Shown:
    missing = to_install(wanted, state)
    if missing or state.broken:
        names = [f"{p.name} is not at {p.version}" for p in missing] or [
            f"{name} is in a broken state" for name in state.broken
        ]
        return Shown("packages", Layer.FAILED, names[0])
    if state.leaving:
        return Shown("packages", Layer.FAILED, f"{state.leaving[0]} is marked to go")
    loose = sorted(set(wanted.holds) - set(state.holds))
    if loose:
        return Shown("packages", Layer.FAILED, f"{loose[0]} is not held")
    return Shown("packages", Layer.PASSED, f"{len(wanted.packages)} at their versions")


def _on_disk(wanted: DriverSet, state: DriverState, facts: Facts) -> Shown:
    """The module's own word, for the kernel that runs: packages hide a build that failed."""
    name = f"module for kernel {state.kernel}"
    if not wanted.packages or not wanted.version:
        return _skipped(name, "no driver is wanted")
    paths = [path for path, version in state.modules.items() if version == wanted.version]
    if paths:
        return _signed(name, wanted, {state.signers.get(path, "") for path in paths})
    seen = ", ".join(sorted(filter(None, state.modules.values()))) or "none"
    inside = facts.host.platform.value == "container"
    if inside and not state.modules and not wanted.builds:
        return _skipped(name, "a container has no kernel of its own")
    return Shown(name, Layer.FAILED, f"{seen}, not {wanted.version}")


def _signed(name: str, wanted: DriverSet, signers: set[str]) -> Shown:
    """Where the firmware asks for a signature, a module without one is as good as none."""
    by = ", ".join(sorted(signers - {""}))
    if wanted.needs_key and not by:
        return Shown(name, Layer.FAILED, "no signature is seen in it, and Secure Boot is on")
    return Shown(name, Layer.PASSED, f"{wanted.version}, signed by {by}" if by else wanted.version)


def _apart(wanted: DriverSet, state: DriverState, facts: Facts) -> Iterator[Shown]:
    """What nothing but equal versions binds to the module."""
    version = Version.maybe(wanted.version)
    if wanted.packages:
        yield _same("libraries", facts.nvidia.userspace, version, needed=False)
    if any(name.startswith(_MANAGER) for name in wanted.names):
        package = next(p for p in wanted.packages if p.name.startswith(_MANAGER))
        now = state.package(package.name)
        same = now is not None and now.version == package.version
        unit = state.units.get(f"{_MANAGER}.service", {})
        switched = bool(facts.nvidia.nvswitch.value)
        if switched and unit.get("ActiveState") != "active":
            yield Shown("fabric manager", Layer.FAILED, "its service is not active")
        elif same:
            yield Shown("fabric manager", Layer.PASSED)
        else:
            yield Shown("fabric manager", Layer.FAILED, f"not at {package.version}")


def _same(
    name: str, reading: Reading[Version], version: Version | None, needed: bool = True
) -> Shown:
    found = reading.value
    if found is None:
        why = f"{reading.missing.value if reading.missing else 'not read'} {reading.at}".strip()
        return Shown(name, Layer.FAILED, why) if needed else _skipped(name, why)
    if version is not None and found.same_as(version) is False:
        return Shown(name, Layer.FAILED, f"{found}, not {version}")
    return Shown(name, Layer.PASSED, str(found))


def _devices(facts: Facts) -> Shown:
    seen, there = (
        facts.nvidia.nvml_devices.value,
        [d for d in facts.devices.value or () if d.vendor == "nvidia" and "/" not in d.id],
    )
    if seen is None:
        return Shown("devices", Layer.FAILED, "NVML does not list them")
    state = Layer.PASSED if seen >= len(there) else Layer.FAILED
    return Shown("devices", state, f"{seen} of {len(there)} answer")


def _call(facts: Facts, asked: Asked) -> Shown:
    """A driver that has just been loaded has no MIG instances yet, and no device without them."""
    is_parted = any(
        d.mig.value is not None and d.mig.value.enabled for d in facts.devices.value or ()
    )
    if asked.code == _NO_DEVICE and is_parted:
        return _skipped("CUDA call", "MIG is on, and no instance was made yet")
    return _tried("CUDA call", asked)


def _tried(name: str, asked: Asked) -> Shown:
    if asked.skipped:
        return _skipped(name, asked.skipped)
    if asked.fault or not asked.count:
        return Shown(name, Layer.FAILED, asked.fault or "no GPU is seen")
    return Shown(name, Layer.PASSED, f"{asked.count} GPUs")


def _skipped(name: str, why: str) -> Shown:
    return Shown(name, Layer.SKIPPED, why)
