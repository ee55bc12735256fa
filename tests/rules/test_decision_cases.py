"""The driver and CUDA rules on worked examples of NVIDIA's compatibility procedure.

`decision_cases.yaml` holds hosts with the verdict that the documents or a reported case
give them; `peer_cases.yaml` combinations on which other tools err.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from doctor.facts import (
    Binary,
    CodeTarget,
    ComputeCapability,
    Device,
    DriverLibrary,
    FabricManager,
    Facts,
    HostFacts,
    Kernels,
    NvidiaFacts,
    Package,
    Reading,
    Scope,
    TorchBuild,
    Version,
    Workload,
    missing,
    seen,
)
from doctor.facts.reading import Missing
from doctor.findings import Finding, Severity
from doctor.matrix import load_matrix
from doctor.matrix.compile import read_yaml
from doctor.matrix.query import Matrix
from doctor.rules import (
    cuda_code,
    driver_dropped,
    driver_fabric,
    driver_floor,
    driver_loaded,
    driver_match,
    driver_modules,
)
from doctor.rules.engine import Case, run_rule

DATA = Path(__file__).parent.parent / "data"
RULES = (
    *driver_dropped.RULES,
    *driver_floor.RULES,
    *driver_match.RULES,
    *driver_modules.RULES,
    *driver_loaded.RULES,
    *driver_fabric.RULES,
    *cuda_code.RULES,
)
CAUSE_OF_CODE = {
    "35": "driver-too-old",
    "209": "cc-not-in-binary",
    "222": "ptx-too-new",
    "802": "fabricmanager-mismatch",
    "803": "driver-library-mismatch",
    "804": "forward-compat-unsupported-hw",
}
CAUSE_OF_REASON = {
    "gpu_dropped_by_driver": "driver-too-new-for-old-gpu",
    "gpu_unknown_to_driver": "driver-too-old",
    "open_module_required": "open-module-required",
    "nvml_18_driver_library_mismatch": "driver-library-mismatch",
}
BRANDS = {"datacenter": 2, "geforce": 5, "workstation": 13}


def _vectors() -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = read_yaml(DATA / "decision_cases.yaml")
    return loaded


def _device(vector: dict[str, Any], matrix: Matrix) -> Device:
    gpu = next((g for g in matrix.gpus.gpus if g.key == vector["gpu"]), None)
    capability = ComputeCapability.parse(vector["cc"]) if "cc" in vector else None
    return Device(
        id="gpu0",
        vendor="nvidia",
        name=seen(gpu.names[0]) if gpu else missing(Missing.NOT_STATED),
        compute_capability=seen(capability) if capability else missing(Missing.NOT_STATED),
        brand=seen(BRANDS[vector["brand"]]) if vector.get("brand") in BRANDS else Device.brand,
    )


def _libcuda(vector: dict[str, Any]) -> tuple[DriverLibrary, ...]:
    compat = vector.get("compat_loaded")
    if not compat:
        return ()
    path = f"/usr/local/cuda/compat/libcuda.so.{compat}"
    return (DriverLibrary(path, Version(compat), compat=True, searched=0),)


def _nvidia(vector: dict[str, Any]) -> NvidiaFacts:
    driver = Version.maybe(vector["driver"])
    userspace = Version.maybe(vector.get("user_space"))
    libcuda = _libcuda(vector)
    absent = missing(Missing.NOT_THERE)
    return NvidiaFacts(
        driver=seen(driver) if driver else missing(Missing.NOT_STATED),
        userspace=seen(userspace) if userspace else NvidiaFacts.userspace,
        libcuda=seen(libcuda) if libcuda else NvidiaFacts.libcuda,
        module_flavour=seen(vector["module"]) if "module" in vector else NvidiaFacts.module_flavour,
        nvswitch=seen(4) if vector.get("nvswitch") == "true" else NvidiaFacts.nvswitch,
        fabric_manager=FabricManager(version=absent)
        if vector.get("fabric_manager") == "absent"
        else FabricManager(),
    )


def _binary(vector: dict[str, Any]) -> Binary:
    targets = [*vector.get("sass", []), *(f"{arch}@{isa}" for arch, isa in vector.get("ptx", []))]
    kernels = Kernels(tuple(map(CodeTarget.parse, targets)))
    return Binary("/opt/engine.so", kernels=(kernels,), toolkit=Version(vector["runtime"]))


def _case(vector: dict[str, Any], matrix: Matrix) -> Case:
    device = _device(vector, matrix)
    host = HostFacts(platform=seen("jetson" if vector.get("brand") == "jetson" else "bare"))
    facts = Facts(host=host, nvidia=_nvidia(vector), devices=seen((device,)))
    binaries: Reading[tuple[Binary, ...]] = Scope.binaries
    if "runtime" in vector:
        binaries = seen((_binary(vector),))
    return Case(facts, Scope("host", "host", binaries=binaries), devices=(device,))


def _errors(case: Case, matrix: Matrix) -> list[Finding]:
    outcomes = [run_rule(item, case, matrix) for item in RULES]
    assert not [o for o in outcomes if o.kind.value == "crashed"], outcomes
    return [f for o in outcomes for f in o.findings if f.severity is Severity.ERROR]


@pytest.mark.parametrize("vector", _vectors(), ids=lambda v: str(v["id"]))
def test_verdict(vector: dict[str, Any]) -> None:
    matrix = load_matrix()
    causes = {finding.cause for finding in _errors(_case(vector, matrix), matrix)}
    if vector["verdict"].startswith("works"):
        assert causes == set()
    elif vector["verdict"] == "needs_compat":
        assert causes == {"driver-too-old"}
    else:
        named = CAUSE_OF_REASON.get(vector.get("reason", "")) or CAUSE_OF_CODE[vector["code"]]
        assert named in causes


@pytest.mark.parametrize(
    "vector", [v for v in _vectors() if v["verdict"] == "works_jit"], ids=lambda v: str(v["id"])
)
def test_says_that_code_is_compiled_at_the_first_start(vector: dict[str, Any]) -> None:
    matrix = load_matrix()
    outcome = run_rule(cuda_code.runs_by_jit, _case(vector, matrix), matrix)
    assert outcome.findings


@pytest.mark.parametrize(
    "vector", [v for v in _vectors() if "compat_ok" in v], ids=lambda v: str(v["id"])
)
def test_offers_forward_compatibility_only_where_it_is_allowed(vector: dict[str, Any]) -> None:
    matrix = load_matrix()
    found = _errors(_case(vector, matrix), matrix)
    actions = [r.action for f in found for r in f.remedies]
    offered = any("forward-compatibility" in action for action in actions)
    assert offered == (vector["compat_ok"] == "true")


PEERS = {
    "1": {"cc-not-in-binary"},
    "2": set(),
    "3": {"cc-not-in-binary"},
    "5": set(),
    "6": set(),
    "8": {"driver-too-old"},
}


def _peers() -> list[dict[str, Any]]:
    loaded: dict[str, Any] = read_yaml(DATA / "peer_cases.yaml")
    return [case for case in loaded["cases"] if case["id"] in PEERS]


@pytest.mark.parametrize("peer", _peers(), ids=lambda p: f"peer {p['id']}")
def test_where_other_tools_err(peer: dict[str, Any]) -> None:
    matrix = load_matrix()
    device = Device(
        id="gpu0",
        vendor="nvidia",
        name=seen(peer["gpu"]),
        compute_capability=seen(ComputeCapability.parse(peer["cc"])),
    )
    version = Version(peer["torch"])
    numbers = [t for t in peer.get("arch_list", "").split() if t.isdigit()]
    kernels = Kernels(tuple(CodeTarget.parse(f"sm_{number}") for number in numbers))
    declared = Binary("torch", package="torch", kernels=(kernels,), declared=True)
    scope = Scope(
        "venv",
        "venv",
        packages=seen((Package("torch", version),), partial=True),
        torch=seen(TorchBuild(version)),
        binaries=seen((declared,)) if numbers else Scope.binaries,
    )
    api = Version.maybe(peer.get("driver_cuda"))
    nvidia = NvidiaFacts(
        driver=seen(Version(peer["driver"])),
        cuda_driver_api=seen(api) if api else NvidiaFacts.cuda_driver_api,
    )
    facts = Facts(
        host=HostFacts(arch=seen(peer.get("arch", "x86_64"))),
        nvidia=nvidia,
        devices=seen((device,)),
    )
    case = Case(facts, scope, Workload("w", "torch", "venv"), devices=(device,))
    assert {f.cause for f in _errors(case, matrix)} == PEERS[peer["id"]]
