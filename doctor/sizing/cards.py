"""The memory of a card as an engine sees it: less than the box says, less than NVML says."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from doctor.facts import ComputeCapability, Device
from doctor.matrix import Matrix
from doctor.matrix.memory import CardTotal
from doctor.matrix.model import Gpu

GIB = 1 << 30
_MIB = 1 << 20
# A reading further from the product's usual total is of something else: a slice, a vGPU.
_SAME_CARD = 2 * GIB


@dataclass(frozen=True)
class Card:
    """One device. `total` is what the engine may count on, `free` what was free when read.

    `how` says where the total comes from; `is_read` is False where it was derived from the
    product's name alone.
    """

    name: str
    total: int
    free: int | None = None
    is_read: bool = False
    how: str = ""
    vendor: str = "nvidia"
    capability: ComputeCapability | None = None
    gpu_class: str = ""
    nvlink: str = ""
    soc: str = ""
    id: str = ""


def card_of(matrix: Matrix, device: Device) -> Card | None:
    """The card that a device is; None if nothing tells its memory."""
    products = matrix.gpus_matching(device)
    usual = _usual(matrix, products)
    usual = usual or _npu(matrix, device)
    nvml = device.memory_mib.value
    if nvml:
        is_nominal = any(nvml * _MIB == (row.memory_gb or 0) * GIB for row in products)
        total, how = _from_reading(matrix, device.vendor, nvml * _MIB, usual, is_nominal)
    elif usual:
        total, how = usual
    else:
        return None
    free = device.memory_free_mib.value
    return Card(
        name=device.name.value or device.id,
        total=total,
        free=None if free is None else free * _MIB,
        is_read=bool(nvml),
        how=how,
        vendor=device.vendor,
        capability=matrix.capability_of(device),
        gpu_class=_shared(products, "gpu_class"),
        nvlink=_shared(products, "nvlink"),
        soc=device.soc.value or "",
        id=device.id,
    )


def _shared(products: Iterable[Gpu], field: str) -> str:
    values = {str(getattr(row, field)) for row in products}
    return values.pop() if len(values) == 1 else ""


def _from_reading(
    matrix: Matrix, vendor: str, read: int, usual: tuple[int, str] | None, is_nominal: bool
) -> tuple[int, str]:
    """What CUDA offers of what was read; people write a product's nominal size in its place."""
    if usual and (is_nominal or abs(read - usual[0]) < _SAME_CARD):
        return min(read, usual[0]), usual[1]
    if vendor != "nvidia":
        return read, "as the driver reports it"
    reserve = _row(matrix, "nvml")
    return max(read - int(reserve.gib * GIB), 0), "NVML total less what CUDA does not offer"


def _usual(matrix: Matrix, products: tuple[Gpu, ...]) -> tuple[int, str] | None:
    """The least that any of the products is known, or by its class expected, to offer."""
    totals = [total for total in (_total(matrix, row) for row in products) if total]
    return min(totals, default=None)


def _total(matrix: Matrix, product: Gpu) -> tuple[int, str] | None:
    for row in matrix.memory.card_totals:
        if product.key in row.gpus:
            return int(row.gib * GIB), f"as engines print it for {product.key}"
    if not product.memory_gb or not product.gpu_class:
        return None
    share = _row(matrix, f"class-{product.gpu_class}").share
    return int(product.memory_gb * share * GIB), f"{share:.0%} of {product.memory_gb:g} GB"


def _npu(matrix: Matrix, device: Device) -> tuple[int, str] | None:
    """The memory of an Ascend chip that comes in one size only."""
    if device.vendor != "ascend":
        return None
    chip = matrix.npu(device.name.value or "", device.soc.value or "")
    sizes = chip.memory_mib if chip else ()
    return (sizes[0] * _MIB, "of the chip") if len(sizes) == 1 else None


def memory_card(total: int, name: str = "device", vendor: str = "nvidia") -> Card:
    """A card of which only the memory is known."""
    return Card(name, total, is_read=True, how="as stated", vendor=vendor)


def _row(matrix: Matrix, key: str) -> CardTotal:
    return next(row for row in matrix.memory.card_totals if row.key == key)
