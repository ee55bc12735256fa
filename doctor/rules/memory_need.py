"""How much device memory a workload needs for weights, by its own figures or by arithmetic."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from doctor.facts import Device
from doctor.findings import Evidence
from doctor.matrix import Matrix
from doctor.matrix.architectures import ModelRow
from doctor.rules import cards
from doctor.rules.engine import Case
from doctor.rules.model_facts import argument, count, known_model, model_name, stated_size
from doctor.rules.placement import margin
from doctor.rules.software import engine_name

_GIB = 1 << 30
_FULL = 16
# Methods of checkpoints that hold the bulk of their weights in the format of that name.
_ONE_FORMAT = ("fp8", "mxfp4", "awq", "gptq")
# Bits a weight that a method or a word in a model's name stands for.
# Formats of GGUF are called by the bits of their blocks, to which scales come: half a bit, for
# the improved ones (IQ) less.
_GGUF = re.compile(r"(?<![a-z0-9])(i?)q([1-8])_(?:k(?:_[sml])?|0|1|s|m|x\w{1,2}|nl)", re.I)
_SCALES = 0.43
# Formats whose bits are a choice of whoever converts, as ExLlama's: "4.5bpw".
_TOLD_BITS = re.compile(r"(?<![\w.])([1-8](?:\.\d{1,2})?)[ -_]?bpw(?![a-z])", re.I)
_BITS = (
    (
        4,
        re.compile(
            r"awq|gptq|int4|w4a|4[-_ ]?bit|nf4|bnb|bitsandbytes|mxfp4|nvfp4|fp4|q4_|exl2", re.I
        ),
    ),
    (8, re.compile(r"fp8|int8|w8a|8[-_ ]?bit|mxfp8|q8_", re.I)),
    (32, re.compile(r"float32|fp32", re.I)),
)
# Files that are not quantized say so.
_PLAIN = (
    (16, re.compile(r"(?<![a-z0-9])(?:bf|fp?)16(?![0-9])", re.I)),
    (32, re.compile(r"(?<![a-z0-9])fp?32(?![0-9])", re.I)),
)
_UNCLEAR = re.compile(
    r"quantiz|quantis|compressed-tensors|modelopt|quark|torchao|autoround|auto-round|gguf|"
    r"q[2356]_|iq\d|gptoss|gpt-oss|ternary|bitnet|inc\b",
    re.I,
)


@dataclass(frozen=True)
class Need:
    """Weights per device in GiB, and how that is known.

    `is_measured` if the engine said so; `is_assumed` if the number format follows only from
    the name, which says nothing of a smaller one, or the number of devices was not said;
    `is_exact` if parameters and format are those of the published checkpoint, `is_published`
    if that is at least the size of its files. `total_gib` is for all devices together.
    """

    gib: float
    how: str
    is_measured: bool = False
    is_assumed: bool = False
    is_exact: bool = False
    is_published: bool = False
    total_gib: float = 0.0


def weights(case: Case, matrix: Matrix) -> Need | None:
    """Weights that each device must hold; None if model, size or format is not known."""
    measured = (case.workload.measured.value or {}) if case.workload else {}
    if measured.get("weights_gib"):
        return Need(float(measured["weights_gib"]), "measured", is_measured=True)
    ranks, whole = ranks_of(case, matrix), checkpoint(case, matrix)
    if whole is None or ranks is None:
        return None
    split = f" over {ranks} ranks" if ranks > 1 else ""
    one = is_one_assumed(case, matrix)
    how = f"{whole.how}{split}{', on one device: no number of them was said' if one else ''}"
    is_assumed = whole.is_assumed or one
    return replace(whole, gib=whole.total_gib / ranks, how=how, is_assumed=is_assumed)


def checkpoint(case: Case, matrix: Matrix) -> Need | None:
    """All weights of the model together; None if model, size or format is not known."""
    params, bits = parameters(case, matrix), bits_per_weight(case, matrix)
    is_assumed = bits is None and _says_no_format(case, matrix)
    bits = 16 if is_assumed else bits
    if params is None or bits is None:
        return None
    row = known_model(matrix, model_name(case))
    exact = row is not None and row.params_b is not None and bits == _FULL and not is_assumed
    total = params * 1e9 * bits / 8 / _GIB
    published = row is not None and row.repo.lower() == model_name(case).lower()
    if row is not None and row.checkpoint_gib and published:
        total = min(total, row.checkpoint_gib)
    return Need(
        total,
        f"{params:g}e9 parameters at {bits:.3g} bits",
        is_assumed=is_assumed,
        is_exact=exact,
        is_published=published and not is_assumed,
        total_gib=total,
    )


def _says_no_format(case: Case, matrix: Matrix) -> bool:
    """A model that is not known, of whose format neither its name nor an argument speaks."""
    text = f"{argument(case, 'quantization')[0] or ''} {argument(case, 'dtype')[0] or ''}".strip()
    declared = case.workload is not None and case.workload.model.is_known
    is_free = text.lower() in ("", "auto", "bfloat16", "float16", "half")
    known = known_model(matrix, model_name(case)) is not None
    return is_free and not declared and not known and not _UNCLEAR.search(model_name(case))


def parameters(case: Case, matrix: Matrix) -> float | None:
    """Parameters in 10^9: of the published model, else as the name states them."""
    name = model_name(case)
    row = known_model(matrix, name)
    if row is not None and row.params_b:
        return row.params_b + (row.tower_b or 0.0)
    return stated_size(name) or stated_size(_library_tag(case, matrix, name))


def _library_tag(case: Case, matrix: Matrix, name: str) -> str:
    """The tag of a name of Ollama's library that gives no size: "mixtral" is mixtral:8x7b."""
    is_library = engine_name(case, matrix) == "ollama" and "/" not in name
    return matrix.default_sizes.get(name.partition(":")[0].lower(), "") if is_library else ""


def stated_bits(text: str, matrix: Matrix) -> float | None:
    """Bits a weight that a name, a tag or a method tells, at least; None if it does not."""
    told = _TOLD_BITS.search(text)
    if told is not None:
        return float(told[1])
    block = _GGUF.search(text)
    if block is not None:
        known = (f for f in matrix.memory.weight_formats if f.key == block[0].lower())
        row = next(known, None)
        least = int(block[2]) + (0.0 if block[1] else _SCALES)
        return float(row.bytes_per_weight) * 8 if row is not None else least
    return next((bits for bits, words in (*_BITS[:2], *_PLAIN) if words.search(text)), None)


def ranks_of(case: Case, matrix: Matrix) -> int | None:
    """Devices that share the weights; where nothing is said, all of the hosts that there are."""
    tensor, pipeline = (count(case, f"{kind}_parallel_size") for kind in ("tensor", "pipeline"))
    if tensor or pipeline:
        return (tensor or 1) * (pipeline or 1)
    if is_one_assumed(case, matrix):
        return 1
    if case.facts.devices.partial or not case.devices:
        return None
    return len(case.devices) * (count(case, "nnodes") or 1)


def is_one_assumed(case: Case, matrix: Matrix) -> bool:
    """A card was named without a number, no argument speaks of several, and it comes alone.

    Large cards of data centers come in eights: of them one is not assumed.
    """
    stated = any(argument(case, f"{kind}_parallel_size")[0] for kind in _KINDS)
    is_read = any(device.pci.is_known for device in case.devices)
    named = {device.name.value for device in case.devices}
    if not case.facts.devices.partial or len(named) != 1 or stated or is_read:
        return False
    large = cards.shared(case.devices[0], matrix, "gpu_class") in ("datacenter", "")
    size, _ = total_gib(case.devices[0], matrix)
    return not large or (size is not None and size <= margin(matrix, "small-card-gib"))


# Switches by which plain frameworks and trainers convert what they load.
_LOADED = ("load_in_4bit", "load_in_8bit", "load_4bit", "load_8bit")
_KINDS = ("tensor", "pipeline", "data", "expert")


def bits_per_weight(case: Case, matrix: Matrix) -> float | None:
    """Bits a weight from quantization, name and dtype; None where the format is unclear.

    16 bit is taken only if a dtype says so or the published checkpoint is known to have it.
    """
    stated = str(argument(case, "quantization")[0] or "")
    loaded = [name for name in _LOADED if argument(case, name)[0]]
    told_bits = (argument(case, name)[0] for name in ("quantization_bit", "quant_bits"))
    loaded += [f"{bits}bit" for bits in told_bits if bits]
    text = f"{stated} {model_name(case)} {' '.join(loaded)}"
    told = stated_bits(text, matrix)
    if told is not None:
        return told
    row = known_model(matrix, model_name(case))
    if row is not None and row.quantization and not stated:
        return _published_bits(row, model_name(case), matrix)
    if _UNCLEAR.search(text) or (row is not None and row.quantization):
        return None
    dtype = str(argument(case, "dtype")[0] or "").lower()
    if _BITS[2][1].search(dtype):
        return 32
    return 16 if row is not None or "16" in dtype or dtype == "half" else None


def _published_bits(row: ModelRow, name: str, matrix: Matrix) -> float | None:
    """Bits a weight of a checkpoint that is published quantized, where one format has all of it."""
    is_mixed = bool(row.weight_format) or row.quantization not in _ONE_FORMAT
    if is_mixed or row.repo.lower() != name.lower():
        return None
    return stated_bits(row.quantization, matrix)


def total_gib(device: Device, matrix: Matrix) -> tuple[float | None, bool]:
    """Memory of a device in GiB, and whether it was read or is only the product's nominal size.

    Of products that come in several sizes the largest: what exceeds that exceeds all.
    """
    if device.memory_mib.value is not None:
        return device.memory_mib.value / 1024, True
    return max(nominal_gib(device, matrix), default=None), False


def nominal_gib(device: Device, matrix: Matrix) -> tuple[float, ...]:
    """The sizes in GiB that a device of that name comes in; () if one of them is not known."""
    if device.vendor == "nvidia":
        sizes = {row.memory_gb for row in matrix.gpus_matching(device)}
        return () if None in sizes else tuple(sorted(size for size in sizes if size))
    if device.vendor == "ascend":
        chip = matrix.npu(device.name.value or "", device.soc.value or "")
        if chip is not None:
            return tuple(size / 1024 for size in chip.memory_mib)
    return tuple(map(float, _named_gib(device, matrix)))


def _named_gib(device: Device, matrix: Matrix) -> tuple[int, ...]:
    """The sizes of the product with the longest name that the device's name holds."""
    words = _WORD.findall((device.name.value or "").lower())
    found: tuple[int, tuple[int, ...]] = (0, ())
    for row in matrix.memory.named_memory:
        for name in row.names if row.vendor == device.vendor else ():
            wanted = _WORD.findall(name)
            spans = range(len(words) - len(wanted) + 1)
            if len(wanted) > found[0] and any(words[i : i + len(wanted)] == wanted for i in spans):
                found = (len(wanted), row.sizes)
    return found[1]


_WORD = re.compile(r"[a-z]+|\d+")


def memory_evidence(case: Case, need: Need, device: Device, size: float) -> tuple[Evidence, ...]:
    """What the weights take, and what the device has."""
    at = device.memory_mib.at or device.name.at
    return (
        Evidence(f"weights {need.gib:.1f} GiB a device ({need.how})", argument(case, "model")[1]),
        Evidence(f"{device.name.value or device.id}: {size:.1f} GiB", at),
    )
