"""Which shape each data file of the matrix has, and what tells its rows apart."""

from __future__ import annotations

from typing import Any

from doctor.matrix.architectures import ModelDomain
from doctor.matrix.catalogue import (
    CauseDomain,
    DistroDomain,
    ImageDomain,
    NpuDomain,
    SignatureDomain,
    XidDomain,
)
from doctor.matrix.containers import ContainerDomain
from doctor.matrix.launching import LaunchDomain
from doctor.matrix.likelihood import LikelihoodDomain
from doctor.matrix.memory import MemoryDomain
from doctor.matrix.model import (
    CudaDomain,
    DriverDomain,
    EngineDomain,
    GpuDomain,
)
from doctor.matrix.packaging import PackagingDomain
from doctor.matrix.serving import ServingDomain
from doctor.matrix.stacks import StackDomain

# Signatures lie in one file per area, "signatures-<area>.yaml"; all are loaded together.
SIGNATURES = "signatures"
SIGNATURE_AREAS = (
    "apple",
    "ascend",
    "container",
    "cuda",
    "driver",
    "engines",
    "host",
    "kernel",
    "llama",
    "model",
    "names",
    "nccl",
    "python",
    "rocm",
    "sglang",
    "supervisors",
    "symptoms",
    "tools",
    "torch",
    "vllm",
)

# Domains that are not engines or frameworks; every other file is an EngineDomain.
SHAPES: dict[str, Any] = {
    "ascend-npus": NpuDomain,
    "causes": CauseDomain,
    "containers": ContainerDomain,
    "cuda": CudaDomain,
    "distros": DistroDomain,
    "driver-packages": PackagingDomain,
    "drivers": DriverDomain,
    "gpus": GpuDomain,
    "images": ImageDomain,
    "launch": LaunchDomain,
    "likelihood": LikelihoodDomain,
    "memory": MemoryDomain,
    "models": ModelDomain,
    "serving": ServingDomain,
    SIGNATURES: SignatureDomain,
    **{f"{SIGNATURES}-{area}": SignatureDomain for area in SIGNATURE_AREAS},
    "stacks": StackDomain,
    "xid": XidDomain,
}

# The fields that name a row, by the list in which it stands.
IDENTITY: dict[str, tuple[str, ...]] = {
    "accesses": ("vendor", "program", "runtime"),
    "branches": ("branch",),
    "card_totals": ("key",),
    "claims": ("id",),
    "companions": ("name",),
    "compilers": ("cuda",),
    "deliveries": ("engine", "kind", "vendor", "package", "variant", "since"),
    "distros": ("id", "versions"),
    "engine_packages": ("program", "systems", "versions"),
    "families": ("major",),
    "forward_compat": ("cuda",),
    "ggml_types": ("id",),
    "goals": ("goal", "vendor", "engine"),
    "gpus": ("key",),
    "image_requirements": ("cuda",),
    "images": ("repository", "tag", "since"),
    "kv_formats": ("key",),
    "launches": ("engine", "since"),
    "lengths": ("key",),
    "listed": ("group",),
    "models": ("repo",),
    "npus": ("key",),
    "package_families": ("name",),
    "pools": ("engine", "generation", "since"),
    "references": ("size",),
    "releases": ("version",),
    "repositories": ("system",),
    "residuals": ("kind",),
    "rosters": ("kind", "value"),
    "schemes": ("id",),
    "runs": ("engine",),
    "signatures": ("id",),
    "socs": ("capability",),
    "splits": ("engine",),
    "placements": ("engine",),
    "margins": ("key",),
    "named_memory": ("vendor", "sizes"),
    "scaled": ("owner", "suffix"),
    "default_tags": ("default",),
    "targets": ("key",),
    "thumbs": ("key",),
    "toolkits": ("version",),
    "traits": ("architecture",),
    "weight_formats": ("key",),
    "xids": ("number",),
}


def shape_of(name: str) -> Any:
    """The type of a domain, by the name of its file."""
    return SHAPES.get(name, EngineDomain)


def identity(field: str, row: Any) -> tuple[Any, ...]:
    """What tells this row from the others of its list."""
    return tuple(getattr(row, part) for part in IDENTITY[field])
