"""Are the NVIDIA kernel modules loaded: any at all, and nvidia_uvm."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from doctor.facts import Device
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules import cards
from doctor.rules.decide import each, missed
from doctor.rules.driver_choice import family
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule

_NOT_LOADED = 9  # NVML_ERROR_DRIVER_NOT_LOADED


# Files and modules of the kernel, which a container shares; and nodes, which it is given.
_NO_DRIVER = re.compile(
    r"/proc/driver/nvidia\S*|nvidia\.ko(?:\.\w+)?|(?:the )?(?:nvidia|gpu|cuda)[ -](?:gpu )?"
    r"(?:kernel )?(?:drivers?|modules?)|kernel module nvidia",
    re.IGNORECASE,
)
_NO_NODES = re.compile(r"/dev/nvidia(?:\d|ctl|\*)?", re.IGNORECASE)
_NO_TOOL = re.compile(r"(?:\S*/)?nvidia-smi", re.IGNORECASE)
# What reports name in place of an engine that speak of the host, whatever runs there.
_OF_HOST = ("driver", "gpu-operator", "container-toolkit")
_NO_UVM = re.compile(r"/dev/nvidia-uvm(?:-tools)?|nvidia[-_]uvm(?:\.ko)?", re.I)
_NODE_LATE = re.compile(
    r"/dev/nvidia-uvm(?:-tools)?\b[^.;\n]{0,20}\b(?:(?:made|created|appears?|comes?|there) "
    r"(?:only )?(?:later|after)|not (?:yet )?(?:there|made|created|passed|mapped|bound|present)|"
    r"missing|absent|does not exist)\b",
    re.IGNORECASE,
)


@rule("DRV191", cause="driver-not-loaded", severity=Severity.ERROR, gate=True)
def no_driver_loaded(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A card is present and no NVIDIA kernel module is loaded.

    What: NVIDIA devices on the PCI bus against the loaded kernel driver; where the bus is
        not known, NVML's own answer, and modules, files or tools that somebody missed.
    Why: without the module there is no device for CUDA; engines then fall back to the
        CPU or stop with "no CUDA-capable device".
    How to fix: install the driver if there is none; if it is installed, the kernel log
        says why the module did not load (headers, Secure Boot, nouveau, flavour, branch).
    Silent when: a driver is loaded, or the host is WSL, where Windows has the driver.
    Sources: NVIDIA driver README, installation; /proc/driver/nvidia/version.
    """
    if _nvml_says_so(case):
        yield _unloaded_by_nvml(case)
        return
    nodes = missed(case, _NO_DRIVER) or (missed(case, _NO_NODES) if _is_on_host(case) else ())
    if nodes:
        yield _without_nodes(case, nodes[0])
        return
    stated = "nvidia" in (case.facts.host.modules_missing.value or ())
    devices = () if stated and _is_open(case) else cards.desktop_cards(case, matrix)
    nvidia = case.facts.nvidia
    if missed(case, _NO_TOOL) and _is_on_host(case) and not nvidia.driver.is_known:
        yield replace(_without_nodes(case, "nvidia-smi"), severity=Severity.WARNING)
    elif stated or nvidia.driver.present("nvidia.driver") is None:
        yield _not_loaded(case, matrix, devices, stated)


def _is_on_host(case: Case) -> bool:
    """What was missed was missed on the host, and not where a container shows a part of it."""
    is_inside = case.scope.kind in ("container", "image")
    of_host = case.workload is not None and case.workload.engine in _OF_HOST
    return not is_inside or (of_host and case.facts.host.platform.value != "container")


def _is_open(case: Case) -> bool:
    """Nothing tells of the cards, and the host is of a kind whose driver is a module of its own."""
    facts = case.facts
    told = facts.devices.is_known or facts.devices.is_absent
    return not told and facts.host.platform.value not in ("wsl2", "jetson")


def _not_loaded(case: Case, matrix: Matrix, devices: tuple[Device, ...], stated: bool) -> Fault:
    nvidia = case.facts.nvidia
    on_disk = nvidia.module_on_disk.value or nvidia.userspace.value or nvidia.driver.value
    state = f"version {on_disk} is installed" if on_disk else "none is known to be installed"
    name = f" for {cards.label(devices[0], matrix)}" if devices else ""
    return Fault(
        message=f"no NVIDIA kernel module is loaded{name}; {state}",
        evidence=(
            Evidence("no loaded NVIDIA module", _absence(case)),
            *(cards.evidence(d, matrix) for d in devices[:1]),
        ),
        remedies=(_load_or_install(case, is_installed=on_disk is not None),),
        # Secure Boot is then the likelier cause, of which HST152 speaks.
        severity=Severity.WARNING if stated and case.facts.host.secure_boot.value else None,
    )


def _without_nodes(case: Case, name: str) -> Fault:
    return Fault(
        message=f"{name} is not there: no NVIDIA kernel module is loaded",
        evidence=(Evidence(f"{name} was not found", "absent"),),
        remedies=(_load_or_install(case, is_installed=case.facts.nvidia.driver.is_known),),
    )


def _nvml_says_so(case: Case) -> bool:
    """NVML answered that no driver is loaded, where nobody looked at the bus."""
    facts = case.facts
    is_open = not facts.devices.is_known and not facts.devices.is_absent
    is_refused = facts.nvidia.nvml_error.value == _NOT_LOADED and not facts.nvidia.driver.is_known
    return is_open and is_refused and facts.host.platform.value not in ("wsl2", "jetson")


def _unloaded_by_nvml(case: Case) -> Fault:
    """Who asks NVML has its libraries, so a driver is installed."""
    nvml = case.facts.nvidia.nvml_error
    return Fault(
        message="no NVIDIA kernel module is loaded: NVML does not reach the driver",
        evidence=(Evidence(f"NVML error {_NOT_LOADED}: driver not loaded", nvml.at),),
        remedies=(_load_or_install(case, is_installed=True),),
        sources=("NVML API reference, return codes",),
    )


def _absence(case: Case) -> str:
    return case.facts.host.modules_missing.at or case.facts.nvidia.driver.at


def _load_or_install(case: Case, is_installed: bool) -> Remedy:
    if is_installed:
        return Remedy(
            action="load the module, and read in the kernel log why it did not load",
            commands=("sudo modprobe nvidia", "sudo dmesg | grep -iE 'nvrm|nvidia|nouveau'"),
        )
    known = family(case.facts.host.os.value) == "ubuntu"
    return Remedy(
        action="install an NVIDIA driver for the card",
        commands=("sudo ubuntu-drivers install --gpgpu",) if known else (),
        role="nvidia_driver",
        reboot=True,
        undo="needs-reboot",
    )


@rule("DRV192", cause="driver-not-loaded", severity=Severity.ERROR)
def no_uvm(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The nvidia module is loaded and nvidia_uvm is not.

    What: the list of loaded modules and the device node /dev/nvidia-uvm, also where notes say
        that it is not there, or is made after the program has started (a warning).
    Why: nvidia-smi needs only the first module, CUDA needs both. Without nvidia_uvm the
        first CUDA call fails with an unknown or initialisation error.
    How to fix: load the module now and at every boot.
    Silent when: nvidia_uvm is loaded or part of the kernel, or the list was not read.
    Sources: NVIDIA driver README, nvidia-modprobe; ollama issue 5453.
    """
    names = missed(case, _NO_UVM)
    if names:
        yield _uvm(Evidence(f"{names[0]} was not found", "absent"))
        return
    late = next(filter(None, map(_NODE_LATE.search, case.facts.notes)), None)
    if late is not None:
        yield replace(_uvm(Evidence(late[0], "notes")), severity=Severity.WARNING)
        return
    if not (_is_about_driver(case) and _is_stated_missing(case)):
        cards.desktop_cards(case, matrix)
    yield from each((lambda: _module_missing(case), lambda: _node_missing(case)))


def _is_about_driver(case: Case) -> bool:
    """Who tells of the loaded module or its version has an NVIDIA card, named or not."""
    told = case.facts.nvidia.driver.is_known or "nvidia" in (case.facts.host.modules.value or ())
    return told and not any(d.vendor for d in case.devices)


def _is_stated_missing(case: Case) -> bool:
    """The one module alone: where no NVIDIA module is loaded at all, DRV191 speaks."""
    stated = case.facts.host.modules_missing.value or ()
    return "nvidia" not in stated and ("nvidia_uvm" in stated or "nvidia-uvm" in stated)


def _module_missing(case: Case) -> Iterator[Fault]:
    host = case.facts.host
    if _is_stated_missing(case):
        yield _uvm(Evidence("nvidia_uvm is not loaded", host.modules_missing.at))
        return
    loaded = host.modules.known("host.modules")
    if host.modules.partial:
        case.facts.nvidia.device_nodes.known("host.modules, all of them")
        return
    if "nvidia" in loaded and "nvidia_uvm" not in loaded:
        yield _uvm(Evidence("nvidia is loaded and nvidia_uvm is not", host.modules.at))


def _node_missing(case: Case) -> Iterator[Fault]:
    nodes = case.facts.nvidia.device_nodes
    names = nodes.known("nvidia.device_nodes")
    if "nvidia_uvm" in (case.facts.host.modules.value or ()):
        # CUDA makes the node by itself through nvidia-modprobe.
        raise NotApplicable("nvidia_uvm is loaded")
    has_cards = any(name.removeprefix("/dev/nvidia").isdigit() for name in names)
    if has_cards and "/dev/nvidia-uvm" not in names:
        yield _uvm(Evidence("/dev/nvidia-uvm is not there", nodes.at))


def _uvm(fact: Evidence) -> Fault:
    return Fault(
        message="nvidia_uvm is not loaded: nvidia-smi works and CUDA does not",
        evidence=(fact,),
        remedies=(
            Remedy(
                action="load nvidia_uvm now and at boot",
                commands=(
                    "sudo nvidia-modprobe -u -c=0",
                    "echo nvidia_uvm | sudo tee /etc/modules-load.d/nvidia-uvm.conf",
                ),
            ),
        ),
        sources=("https://github.com/ollama/ollama/issues/5453",),
    )


RULES: tuple[Rule, ...] = (no_driver_loaded, no_uvm)
