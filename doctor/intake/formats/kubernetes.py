"""Kubernetes objects that hold pods: each container with its image, arguments, GPUs and memory.

Source: Kubernetes API reference, PodSpec; of a Deployment and the like its template is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import yaml

from doctor.errors import UsageError
from doctor.facts import UNSTATED, Facts, ImageRef, Reading, Scope, Workload, seen
from doctor.intake.devices import memory_of
from doctor.intake.formats import dockerfile
from doctor.intake.yaml_nodes import composed, items, scalar, table
from doctor.probes.environment import allowed
from doctor.probes.tool_text import reading

AT = "pod"
MARKS = ("containers:", '"containers"')
_OBJECT = re.compile(r"^apiVersion:[ \t]{0,8}\S", re.MULTILINE)
_KIND = re.compile(r"^kind:[ \t]{0,8}[A-Z]\w{1,40}", re.MULTILINE)
_START = re.compile(r"^apiVersion:", re.MULTILINE)
# Resources that are accelerators begin like this.
DEVICES = ("nvidia.com/", "amd.com/gpu", "huawei.com/", "gpu.intel.com/", "cambricon.com/")
_SHM = "/dev/shm"  # noqa: S108 - a mount point
# What a container runtime gives /dev/shm where nothing is mounted there.
_SHM_MIB = 64
_MOST = 20
_DEEPEST = 8


def looks_like(text: str) -> bool:
    """Tell by version and kind of an object, and a list of containers."""
    return bool("containers:" in text and _OBJECT.search(text) and _KIND.search(text))


def parse(text: str) -> Facts:
    """The containers of all pods; nothing for what is no YAML."""
    start = _START.search(text)
    documents = re.split(r"^---[ \t]*$", text[start.start() :] if start else "", flags=re.M)
    facts = Facts()
    for document in documents[:_MOST]:
        for pod in _pods(document):
            for node in items(pod.get("containers"))[:_MOST]:
                facts = _with(facts, *_container(table(node), pod))
    return facts


def _with(facts: Facts, scope: Scope, work: Workload | None) -> Facts:
    if any(known.id == scope.id for known in facts.scopes):
        return facts
    works = (work,) if work is not None else ()
    return Facts(scopes=(*facts.scopes, scope), workloads=(*facts.workloads, *works))


def _pods(document: str) -> Iterator[dict[str, yaml.Node]]:
    try:
        outer = table(composed(document, AT))
    except UsageError:
        return
    spec = table(outer.get("spec"))
    for _ in range(_DEEPEST):
        if "containers" in spec:
            yield spec
            return
        inner = next(
            (spec[key] for key in ("template", "jobTemplate", "spec") if key in spec), None
        )
        spec = table(inner)


def _container(
    keys: dict[str, yaml.Node], pod: dict[str, yaml.Node]
) -> tuple[Scope, Workload | None]:
    name, image = scalar(keys.get("name")) or AT, scalar(keys.get("image"))
    scope = Scope(
        id=name,
        kind="container",
        image=ImageRef(ref=image),
        env=_env(keys),
        shm_mib=_shm(keys, pod),
        devices_visible=_devices(keys, pod),
        runtime=reading(scalar(pod.get("runtimeClassName")) or None, AT),
    )
    command, args = (tuple(map(scalar, items(keys.get(key)))) for key in ("command", "args"))
    work = dockerfile.engine_started(image, command, args, AT)
    if work is None:
        return scope, None
    return scope, Workload(
        id=name, engine=work.engine, scope=name, version=work.version, args=work.args, env=work.env
    )


def _env(keys: dict[str, yaml.Node]) -> Reading[dict[str, str]]:
    rows = [table(node) for node in items(keys.get("env"))]
    known = allowed({scalar(row.get("name")): scalar(row.get("value")) for row in rows})
    return seen(known, AT, partial=True) if known else UNSTATED


def _shm(keys: dict[str, yaml.Node], pod: dict[str, yaml.Node]) -> Reading[int]:
    """The volume in memory that is mounted at /dev/shm, else what a runtime gives."""
    mounts = [table(node) for node in items(keys.get("volumeMounts"))]
    named = {scalar(m.get("name")) for m in mounts if scalar(m.get("mountPath")) == _SHM}
    if not named:
        shared = scalar(pod.get("hostIPC")) == "true"
        return UNSTATED if shared else seen(_SHM_MIB, AT)
    volumes = [table(node) for node in items(pod.get("volumes"))]
    volume = next((v for v in volumes if scalar(v.get("name")) in named), {})
    size = memory_of(scalar(table(volume.get("emptyDir")).get("sizeLimit")))
    return reading(size, AT)


def _devices(keys: dict[str, yaml.Node], pod: dict[str, yaml.Node]) -> Reading[tuple[str, ...]]:
    """Devices that the limits ask for; none is a fact, unless claims or rights bring some."""
    limits = table(table(keys.get("resources")).get("limits"))
    limits |= table(table(keys.get("resources")).get("requests"))
    asked = tuple(f"{k}={scalar(v)}" for k, v in limits.items() if k.startswith(DEVICES))
    if asked:
        return seen(asked, AT, partial=True)
    rights = table(keys.get("securityContext"))
    others = "resourceClaims" in pod or scalar(rights.get("privileged")) == "true"
    is_named = "NVIDIA_VISIBLEDEVICES" in (_env(keys).value or {})
    return UNSTATED if others or is_named or "runtimeClassName" in pod else seen((), AT)
