"""Weights of engines that share a model between devices and host, and of plain frameworks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.facts import Missing, MissingFact
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules import cards
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.memory_need import (
    checkpoint,
    is_one_assumed,
    parameters,
    stated_bits,
    total_gib,
)
from doctor.rules.model_facts import argument, environment, known_model, model_name
from doctor.rules.placement import margin, placement
from doctor.rules.serving_memory import OFFLOAD
from doctor.rules.software import engine_name

_PARTLY = ("cpu_moe", "n_cpu_moe", "override_tensor", "ot", "fit")
_GIB = 1 << 30


@rule("HST162", cause="host-ram-too-small", severity=Severity.WARNING)
def weights_exceed_host_and_devices(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The weights are larger than the memory of the host and of its devices together.

    What: parameters times the bits of the format, at least, against host memory, swap and
        the memory of all devices, for engines that share a model between them.
    Why: what the devices do not hold stays in host memory. Ollama refuses such a model;
        llama.cpp reads the file again and again from disk, or is killed where it may not map it.
    How to fix: a format of fewer bits, a smaller model, or more memory.
    Silent when: memory, or size or format of the model are not known. An error for Ollama,
        and where mapping is turned off, unless the devices are only taken to be one usual card.
    Sources: ollama/ollama server/sched.go; llama.cpp documentation of --no-mmap and --mlock.
    """
    name = engine_name(case, matrix)
    if case.workload is None or placement(case, matrix).holds != "shared":
        raise NotApplicable("no engine that shares a model between devices and host")
    need = least_gib(case, matrix)
    host = case.facts.host
    memory = host.memory_mib if host.memory_mib.is_known else host.memory_available_mib
    ram = (memory.known("host.memory_mib") + (host.swap_mib.value or 0)) / 1024
    is_told = case.facts.devices.is_known or case.facts.devices.is_absent
    own = _device_memory(case, matrix) if is_told else _likely_card(matrix, ram)
    if need <= ram + own:
        return
    is_refused = name == "ollama" or any(_is_on(case, flag) for flag in ("no_mmap", "mlock"))
    is_refused = is_refused and is_told
    yield Fault(
        f"{model_name(case)} takes at least {need:.0f} GiB; the host has {ram:.0f} GiB and its "
        f"devices {'' if is_told else 'perhaps '}{own:.0f}",
        evidence=(
            Evidence(f"weights of at least {need:.1f} GiB", argument(case, "model")[1]),
            Evidence(f"memory {ram:.0f} GiB", memory.at),
            Evidence(f"devices {own:.0f} GiB", case.facts.devices.at),
        ),
        remedies=(Remedy("use a format of fewer bits or a smaller model, or add memory"),),
        severity=Severity.ERROR if is_refused else None,
    )


def least_gib(case: Case, matrix: Matrix) -> float:
    """GiB that the weights take at least; raises `MissingFact` if size or format is not known."""
    params = parameters(case, matrix)
    text = f"{argument(case, 'quantization')[0] or ''} {model_name(case)}"
    # A library's models are of few bits where their names say no other format.
    bits = stated_bits(text, matrix) or placement(case, matrix).default_bits or None
    if params is None or bits is None:
        raise MissingFact("size and format of the model", Missing.NOT_STATED)
    return params * 1e9 * bits / 8 / _GIB


def _likely_card(matrix: Matrix, ram: float) -> float:
    """GiB that the devices hold at most where nobody speaks of any."""
    return min(margin(matrix, "unstated-card-gib"), ram * margin(matrix, "unstated-card-per-host"))


def _device_memory(case: Case, matrix: Matrix) -> float:
    """GiB of all devices together; those that share the host's memory add nothing."""
    case.facts.devices.present("devices")
    total = 0.0
    for device in case.devices:
        rows = cards.products(device, matrix)
        if device.vendor == "apple" or (rows and all(row.unified_memory for row in rows)):
            continue
        size, _ = total_gib(device, matrix)
        if size is None:
            raise MissingFact("memory of the devices", Missing.NOT_STATED)
        total += size
    return total


def _is_on(case: Case, name: str) -> bool:
    return str(argument(case, name)[0]).lower() in ("true", "1", "")


@rule("SRV105", cause="insufficient-memory-weights", severity=Severity.WARNING)
def weights_exceed_all_devices(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The weights are larger than the memory of all devices together, in a plain framework.

    What: parameters times the bits of the format against the memory of all devices here.
    Why: torch and transformers put the whole model on the devices unless a script says
        otherwise; no way to share it among them makes it fit.
    How to fix: a format of fewer bits, more devices, or offloading to the host.
    Silent when: offloading was asked for, several hosts are used, or model or memory is not
        known. Only a clear excess counts; of a card without a number eight are taken to be here
        if it is one of a data center.
    Sources: configurations of the models (rows in the matrix); Accelerate documentation on
        big models.
    """
    if case.workload is None or not model_name(case):
        raise NotApplicable("no model")
    if placement(case, matrix).holds != "process":
        raise NotApplicable("no plain framework")
    if any(argument(case, key)[0] for key in (*OFFLOAD, "nnodes")):
        raise NotApplicable("weights are partly elsewhere")
    if any("offload" in str(argument(case, key)[0]).lower() for key in ("deepspeed", "fsdp")):
        raise NotApplicable("a trainer that keeps weights on the host")
    need = checkpoint(case, matrix)
    if need is None:
        raise MissingFact("size of the model", Missing.NOT_STATED)
    own = _device_memory(case, matrix)
    if not case.devices:
        raise NotApplicable("no device")
    if case.facts.devices.partial and not is_one_assumed(case, matrix):
        own *= margin(matrix, "cards-of-a-host")
    share = margin(matrix, "plain-framework")
    if _is_whole_per_device(case):
        own, share = own / len(case.devices), margin(matrix, "training")
    if own and need.total_gib > own * share:
        yield Fault(
            f"{model_name(case)} needs {need.total_gib:.0f} GiB for weights; all devices "
            f"together have {own:.0f}",
            evidence=(
                Evidence(f"weights {need.total_gib:.0f} GiB ({need.how})"),
                Evidence(f"{len(case.devices)} devices, {own:.0f} GiB", case.facts.devices.at),
            ),
            remedies=(Remedy("use fewer bits, more devices, or offload to the host"),),
        )


def _is_whole_per_device(case: Case) -> bool:
    """A trainer of adapters on quantized weights: each device holds all of them."""
    trains = any(argument(case, key)[0] for key in ("finetuning_type", "lora_r", "lora_rank"))
    cuts = any(argument(case, key)[0] for key in ("deepspeed", "fsdp", "fsdp_config", "device_map"))
    few = any(
        argument(case, key)[0] for key in ("quantization_bit", "load_in_4bit", "load_in_8bit")
    )
    return trains and few and not cuts


@rule("SRV106", cause="insufficient-memory-weights", severity=Severity.ERROR)
def layers_exceed_devices(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """More layers are put on the devices than their memory holds.

    What: the number of layers that was asked for, as a share of the weights, against the
        memory of all devices.
    Why: a number that a person gives is kept, and the allocation of the weights then fails;
        only left to itself does the engine fit the number to the memory.
    How to fix: fewer layers, a format of fewer bits, or experts on the CPU.
    Silent when: the number is left to the engine, tensors are placed by hand, or devices share
        the host's memory. A warning on Windows, whose driver goes on in host memory, and where
        Metal lends a share of it, which a setting of the system raises.
    Sources: llama.cpp documentation of --n-gpu-layers and of --fit.
    """
    share = layers_asked(case, matrix)
    need = least_gib(case, matrix) * share
    own = lent_memory(case, matrix)
    if need > own:
        system = case.facts.host.os.value
        on_windows = system is not None and system.id == "windows"
        is_lent = any(device.vendor == "apple" for device in case.devices)
        is_open = case.facts.devices.partial
        yield Fault(
            f"{share:.0%} of the layers of {model_name(case)} take at least {need:.1f} GiB; the "
            f"devices have {own:.1f}",
            evidence=(
                Evidence(f"n_gpu_layers={argument(case, 'n_gpu_layers')[0]}"),
                Evidence(f"{len(case.devices)} devices, {own:.1f} GiB", case.facts.devices.at),
            ),
            remedies=(Remedy("ask for fewer layers (-ngl), or use a format of fewer bits"),),
            severity=Severity.WARNING if on_windows or is_lent or is_open else None,
        )


def lent_memory(case: Case, matrix: Matrix) -> float:
    """GiB that an engine may take on its devices; of Apple's memory the share that Metal lends."""
    own = _device_memory(case, matrix)
    apples = [device for device in case.devices if device.vendor == "apple"]
    # An Apple chip's memory is the machine's, wherever it is told.
    shared = case.facts.host.memory_mib.value if len(apples) == 1 else None
    lent = [size for d in apples if (size := d.memory_mib.value or shared)]
    own += sum(gib / 1024 * lent_share(gib / 1024, matrix) for gib in lent)
    is_open = case.facts.devices.partial and not is_one_assumed(case, matrix)
    if not own or (is_open and len(apples) < len(case.devices)):  # a Mac has one GPU
        raise MissingFact("number of devices with memory of their own", Missing.NOT_STATED)
    return own


def lent_share(size: float, matrix: Matrix) -> float:
    """The share of a machine's memory that Metal lends: less of small ones."""
    if size <= margin(matrix, "metal-small-gib"):
        return margin(matrix, "metal-share-small")
    return margin(matrix, "metal-share")


def layers_asked(case: Case, matrix: Matrix) -> float:
    """The share of the layers that a person puts on the devices; `NotApplicable` if none does."""
    name = engine_name(case, matrix)
    if case.workload is None or placement(case, matrix).holds != "shared" or name == "ollama":
        raise NotApplicable("no engine that is told how many layers")
    if any(argument(case, key)[0] for key in _PARTLY) or _in_host_memory(case):
        raise NotApplicable("tensors are placed by hand, or go to host memory by themselves")
    return _share_of_layers(case, matrix, name)


def _in_host_memory(case: Case) -> bool:
    return environment(case).get("GGML_CUDA_ENABLE_UNIFIED_MEMORY", "0") not in ("", "0")


def _share_of_layers(case: Case, matrix: Matrix, name: str) -> float:
    """The share of the layers that a person puts on the devices; `NotApplicable` if none does."""
    stated = str(argument(case, "n_gpu_layers")[0]).strip().lower()
    if stated in ("all", "max") or (stated == "-1" and name == "llama-cpp-python"):
        return 1.0
    asked = int(stated) if re.fullmatch(r"\d{1,6}", stated) else 0
    if not asked:
        raise NotApplicable("the number of layers is left to the engine")
    row = known_model(matrix, model_name(case))
    if row is not None and row.layers:
        return min(1.0, asked / (row.layers + 1))
    if asked < margin(matrix, "layers-for-all"):
        raise MissingFact("layers of the model", Missing.NOT_STATED)
    return 1.0


RULES: tuple[Rule, ...] = (
    weights_exceed_host_and_devices,
    weights_exceed_all_devices,
    layers_exceed_devices,
)
