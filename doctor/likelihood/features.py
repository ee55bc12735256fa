"""What a report states, as words that can be counted: "engine vllm 0.8", "capability 12.0".

Only what the facts hold counts, never the wording of a note or a log: whoever states the same
in another format gets the same words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from doctor.facts import Device, Facts, Reading, Scope, Version, Workload
from doctor.facts.record import Record
from doctor.matrix import Matrix

# Sizes of cards as they are sold, in GiB; what is read of one is a little less.
_SIZES = (4, 6, 8, 12, 16, 24, 32, 48, 64, 80, 96, 128, 141, 192)
_LONGEST_VALUE = 30
_MAKERS = re.compile(r"\b(nvidia|geforce|amd|radeon|intel)\b|\(.*?\)|\d+ ?gi?b\b.*$")
_MODEL_WORDS = re.compile(r"[a-z]{2,}\d?|\d+b")
_NUMBERS = re.compile(r"\d+(?:\.\d+)*")
_IMAGE_WORDS = re.compile(r"[a-z]+")


def features(facts: Facts, matrix: Matrix) -> frozenset[str]:
    """All words that stand for what is stated; empty for facts that hold nothing."""
    return frozenset(_all(facts, matrix))


def _all(facts: Facts, matrix: Matrix) -> Iterator[str]:
    for name in ("host", "nvidia", "ascend", "rocm", "cambricon"):
        yield from _stated(name, getattr(facts, name))
    yield from _host(facts)
    yield from _drivers(facts)
    yield from _devices(facts, matrix)
    yield from _containers(facts)
    for scope in facts.scopes:
        yield from _scope(scope)
    for workload in facts.workloads:
        yield from _workload(workload)


def _stated(path: str, record: Record) -> Iterator[str]:
    """The names of the facts that are known, or known to be absent: which ones a person tells."""
    for name in getattr(record, "__dataclass_fields__", {}):
        value, inner = getattr(record, name), f"{path}.{name}"
        if isinstance(value, Reading):
            if value.is_known or value.is_absent:
                yield f"stated {inner}{' none' if value.is_absent else ''}"
        elif isinstance(value, Record):
            yield from _stated(inner, value)


def _host(facts: Facts) -> Iterator[str]:
    host = facts.host
    if host.os.value:
        yield f"os {host.os.value.id}"
        yield from _with(f"os {host.os.value.id}", host.os.value.version.partition(".")[0])
    for name, reading in (("arch", host.arch), ("platform", host.platform)):
        if reading.value:
            yield f"{name} {reading.value}"
    yield from (f"cpu lacks {flag}" for flag in host.cpu.lacks.value or ())
    yield from _absent(host.absent)


def _absent(names: Reading[tuple[str, ...]]) -> Iterator[str]:
    for name in names.value or ():
        yield "absent"
        yield f"absent {_plain(name)}"


def _drivers(facts: Facts) -> Iterator[str]:
    nvidia = facts.nvidia
    for name, reading in (("driver", nvidia.driver), ("userspace", nvidia.userspace)):
        if reading.value:
            yield from _with(name, _numbers(reading.value, 1))
    yield from _with("driver cuda", _numbers(nvidia.cuda_driver_api.value))
    for toolkit in nvidia.toolkits.value or ():
        yield from _with("toolkit", _numbers(toolkit.version))


def _devices(facts: Facts, matrix: Matrix) -> Iterator[str]:
    if facts.devices.is_absent:
        yield "devices none"
    devices = facts.devices.value or ()
    if devices:
        yield f"devices {('one', 'two')[len(devices) - 1] if len(devices) < 3 else 'many'}"
    if facts.topology.is_known:
        yield "topology"
    for device in devices:
        yield from _stated("device", device)
        yield from _device(device, matrix)


def _device(device: Device, matrix: Matrix) -> Iterator[str]:
    yield f"vendor {device.vendor}"
    name = _MAKERS.sub("", _plain(device.name.value)).strip()
    yield from _with("card", name)
    found = matrix.gpus_matching(device)
    if found:
        yield f"architecture {found[0].arch}"
    yield from _with("capability", _plain(matrix.capability_of(device)))
    yield from _with("soc", _plain(device.soc.value))
    yield from _with("gfx", _plain(device.gfx.value))
    if device.memory_mib.value:
        yield f"memory {_size(device.memory_mib.value / 1024)}"


def _containers(facts: Facts) -> Iterator[str]:
    engine = facts.container_engine.value
    if engine:
        yield f"containers {engine.name}"
        yield from _stated("containers", engine)


def _scope(scope: Scope) -> Iterator[str]:
    yield from _stated("scope", scope)
    yield from (f"image {word}" for word in _IMAGE_WORDS.findall(_plain(scope.image.ref)))
    if scope.python.value:
        yield from _with("python", _numbers(scope.python.value.version))
    for package in scope.packages.value or ():
        yield f"package {package.name}"
        yield from _with(f"package {package.name}", _numbers(package.version))
    if scope.torch.value:
        yield from _with("torch", _numbers(scope.torch.value.version))
        yield from _with("torch cuda", _numbers(scope.torch.value.cuda.value))
    for name, variant in scope.variants.items():
        yield f"variant {_plain(name)}"
        yield from _with(f"variant {_plain(name)}", _plain(variant))
    yield from (f"built for {_plain(name)}" for name in scope.built_for)
    yield from _absent(scope.absent)
    yield from (f"variable {name}" for name in scope.env.value or {})


def _workload(workload: Workload) -> Iterator[str]:
    yield from _stated("workload", workload)
    yield f"engine {workload.engine}"
    yield from _with(f"engine {workload.engine}", _numbers(workload.version.value))
    yield from _arguments(workload.args.value or {})
    named: Iterable[tuple[str, Mapping[str, Any] | None]] = (
        ("variable", workload.env.value),
        ("measured", workload.measured.value),
        ("plan", workload.plan.value),
    )
    for kind, table in named:
        yield from (f"{kind} {name}" for name in table or {})


def _arguments(args: Mapping[str, Any]) -> Iterator[str]:
    for name, value in args.items():
        yield f"argument {_plain(name)}"
        if name == "model":
            yield from (f"model {word}" for word in _MODEL_WORDS.findall(_plain(value)))
        elif isinstance(value, str | bool) and len(str(value)) < _LONGEST_VALUE:
            yield f"argument {_plain(name)} {_plain(value)}"


def _with(name: str, detail: str) -> Iterator[str]:
    """A word with a detail, if that is known."""
    if detail:
        yield f"{name} {detail}"


def _plain(value: object) -> str:
    return "" if value is None else str(value).strip().lower()


def _numbers(version: Version | None, count: int = 2) -> str:
    """The first numbers of a version: "0.8" of 0.8.5; "" if it has none."""
    found = _NUMBERS.match(str(version or ""))
    return ".".join(found[0].split(".")[:count]) if found else ""


def _size(gib: float) -> str:
    """The size of card that this may be: "24" for 23.6 GiB."""
    return next((str(size) for size in _SIZES if gib <= size * 1.05), "more")
