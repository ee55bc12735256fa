"""A deployment as a Deployment and a Service of Kubernetes.

Source: Kubernetes API reference, apps/v1 Deployment and core/v1 Service.
"""

from __future__ import annotations

import re
from typing import Any

from doctor.errors import UsageError
from doctor.images.deployment import Deployment
from doctor.provision.container import WORK
from doctor.report.compose import advice, commented, to_yaml

_EVERY_S = 10


def render(found: Deployment, notes: tuple[str, ...] = ()) -> str:
    """Both objects as YAML; `notes` become comments above them."""
    name = re.sub(r"[^a-z0-9-]+", "-", found.name)
    labels = {"app.kubernetes.io/name": name}
    objects = [_deployment(found, name, labels), _service(found, name, labels)]
    known = (*notes, *advice(found), *_of_secrets(found, name))
    return commented(known) + to_yaml(*objects)


def _of_secrets(found: Deployment, name: str) -> tuple[str, ...]:
    keys = " ".join(f"--from-literal={key}=..." for key in found.secrets.values())
    return (f"kubectl create secret generic {name} {keys}",) if keys else ()


def _deployment(found: Deployment, name: str, labels: dict[str, str]) -> dict[str, Any]:
    pod = {
        "terminationGracePeriodSeconds": found.stop_s,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": found.user != 0,
            "runAsUser": found.user,
            "runAsGroup": found.user,
            "fsGroup": found.user,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(found, name)],
        "volumes": _volumes(found),
    }
    spec = {
        "replicas": 1,
        # A card has no room for the old and the new process at once.
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    meta = {"name": name, "labels": labels}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}


def _container(found: Deployment, name: str) -> dict[str, Any]:
    entry = {} if found.keeps_entrypoint else {"command": _plain(found.argv[:1])}
    words = found.argv if found.keeps_entrypoint else found.argv[1:]
    resources = _resources(found)
    # The number of the devices' group differs from node to node.
    needs = {"add": ["DAC_OVERRIDE"]} if found.access.group_of and found.user == 0 else {}
    return {
        "name": "engine",
        "image": found.image,
        **entry,
        "args": _plain(words),
        "workingDir": WORK,
        "ports": [{"name": "http", "containerPort": found.port}],
        "env": _environment(found, name),
        **({"resources": resources} if resources else {}),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": found.read_only,
            "capabilities": {"drop": ["ALL"], **needs},
        },
        "startupProbe": _probe(found, max(found.start_s // _EVERY_S, 1)),
        "readinessProbe": _probe(found, 1),
        "livenessProbe": _probe(found, 3),
        "volumeMounts": _mounts(found),
    }


def _resources(found: Deployment) -> dict[str, Any]:
    if found.vendor == "cpu":
        return {}
    if not found.access.resource:
        raise UsageError(
            f"what Kubernetes calls a device of {found.vendor} is not known",
            "--emit compose can be written",
        )
    return {"limits": {found.access.resource: str(max(found.devices, 1))}}


def _environment(found: Deployment, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [
        {"name": key, "value": value.replace("$(", "$$(")} for key, value in found.env.items()
    ]
    for variable, key in found.secrets.items():
        reference = {"secretKeyRef": {"name": name, "key": key}}
        rows.append({"name": variable, "valueFrom": reference})
    return rows


def _probe(found: Deployment, failures: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": found.health, "port": "http"},
        "periodSeconds": _EVERY_S,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }


def _volumes(found: Deployment) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [
        {"name": "work", "emptyDir": {}},
        {"name": "tmp", "emptyDir": {}},
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": str(found.shm_bytes)}},
    ]
    if found.model:
        rows.append({"name": "model", "hostPath": {"path": found.model}})
    return rows


def _mounts(found: Deployment) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [
        {"name": "work", "mountPath": WORK},
        {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - inside the container
        {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108 - inside the container
    ]
    if found.model:
        rows.append({"name": "model", "mountPath": found.model_inside, "readOnly": True})
    return rows


def _service(found: Deployment, name: str, labels: dict[str, str]) -> dict[str, Any]:
    ports = [{"name": "http", "port": found.port, "targetPort": "http"}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "labels": labels},
        "spec": {"selector": labels, "ports": ports},
    }


def _plain(words: tuple[str, ...]) -> list[str]:
    """Words in which Kubernetes finds no variables."""
    return [word.replace("$(", "$$(") for word in words]
