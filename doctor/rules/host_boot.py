"""What keeps an installed NVIDIA module off the card: nouveau, Secure Boot, the firmware."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.facts import REPORTED
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules import cards
from doctor.rules.decide import each
from doctor.rules.driver_choice import family
from doctor.rules.driver_state import DRIVER_DOMAIN
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.host_kernel import is_loaded, need_bare_host

_REJECTED = ("key was rejected by service", "loading of unsigned module is rejected",
             "loading of module with unavailable key is rejected",
             "module verification failed", "required key not available")  # fmt: skip
_NO_BAR = ("no space for", "can't assign", "failed to assign", "i/o region assigned to your nvidia")


@rule("HST151", cause="nouveau-or-secureboot", severity=Severity.ERROR)
def nouveau_holds_the_card(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The nouveau driver has taken the card.

    What: the kernel driver bound to each NVIDIA device, and the loaded modules.
    Why: two drivers cannot share a card; while nouveau holds it, NVIDIA's module does
        not start it, and CUDA has no device.
    How to fix: keep nouveau from loading, in the initial RAM disk too, and reboot.
    Silent when: NVIDIA's driver is loaded, or nouveau drives another card.
    Sources: NVIDIA driver README, interaction with nouveau.
    """
    need_bare_host(case, matrix)
    yield from each((lambda: _bound(case, matrix), lambda: _nouveau_loaded(case)))


def _bound(case: Case, matrix: Matrix) -> Iterator[Fault]:
    for device in case.need_vendor("nvidia"):
        if device.pci_driver.present(f"devices.{device.id}.pci_driver") == "nouveau":
            fact = Evidence(
                f"{cards.label(device, matrix)} is bound to nouveau", device.pci_driver.at
            )
            yield _nouveau(case, fact, device.id)


def _nouveau_loaded(case: Case) -> Iterator[Fault]:
    modules = case.facts.host.modules.known("host.modules")
    if "nouveau" in modules and "nvidia" not in modules:
        if any(d.pci_driver.is_known for d in case.nvidia_devices):
            raise NotApplicable("what drives each card is known")
        yield _nouveau(case, Evidence("nouveau is loaded", case.facts.host.modules.at), "")


def _nouveau(case: Case, fact: Evidence, subject: str) -> Fault:
    rebuild = {"rhel": "sudo dracut --force --regenerate-all", "suse": "sudo dracut -f"}
    conf = "/etc/modprobe.d/blacklist-nouveau.conf"
    return Fault(
        message="the nouveau driver has the card, so NVIDIA's driver cannot start it",
        evidence=(fact,),
        remedies=(
            Remedy(
                action="keep nouveau from loading, rebuild the initial RAM disk, reboot",
                commands=(
                    f"printf 'blacklist nouveau\\noptions nouveau modeset=0\\n' | sudo tee {conf}",
                    rebuild.get(
                        family(case.facts.host.os.value), "sudo update-initramfs -u -k all"
                    ),
                    "sudo reboot",
                ),
                role="nvidia_driver",
                reboot=True,
            ),
        ),
        subject=subject,
    )


@rule("HST152", cause="nouveau-or-secureboot", severity=Severity.ERROR)
def secure_boot_refuses_module(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Secure Boot is on, and the NVIDIA module that is installed did not load.

    What: the firmware's Secure Boot state, whether the installed module is loaded, and
        what the kernel said about its signature.
    Why: with Secure Boot the kernel loads only modules whose signing key it trusts; a
        module built on this machine is signed by a key that nobody has enrolled yet.
    How to fix: a module signed by the distribution; or enrol the machine's own key,
        which needs a person at the console during the next boot.
    Silent when: Secure Boot is off or the module is loaded.
    Sources: NVIDIA Driver Installation Guide, Secure Boot; mokutil(1).
    """
    need_bare_host(case, matrix)
    host, nvidia = case.facts.host, case.facts.nvidia
    if host.secure_boot.known("host.secure_boot") is False:
        raise NotApplicable("Secure Boot is off")
    said = [m for m in nvidia.kernel_messages.value or () if _says(m, _REJECTED)]
    is_missed = "nvidia" in (host.modules_missing.value or ())
    is_named = nvidia.driver.is_known or nvidia.userspace.is_known or nvidia.module_flavour.is_known
    fails = any(map(_SMI_FAILS.search, case.facts.notes))
    # Who tells of Secure Boot beside a card, and of no driver, has none that loaded.
    works = nvidia.cuda_driver_api.is_known or any(map(_SMI_TOLD.search, case.facts.notes))
    is_told = case.scope.id == REPORTED and bool(case.nvidia_devices) and not works
    is_stated = not is_loaded(case) and (is_named or is_missed or fails or is_told)
    if not said and not is_stated and nvidia.driver.present("nvidia.driver") is not None:
        return
    if is_stated and nvidia.module_signed.value:
        return
    if said or is_stated or nvidia.module_on_disk.present("nvidia.module_on_disk") is not None:
        what = "was not seen loaded" if is_stated and not said else "is not loaded"
        yield Fault(
            message=f"Secure Boot is on, and the installed NVIDIA module {what}",
            evidence=(
                Evidence("Secure Boot is on", host.secure_boot.at),
                *(Evidence(line, nvidia.kernel_messages.at) for line in said[:1]),
            ),
            remedies=_signed(case),
            sources=("https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/",),
            severity=Severity.WARNING if is_stated and not said else None,
        )


_SMI_TOLD = re.compile(r"\bnvidia-smi\b|\bworks?\b|\bCUDA \d", re.IGNORECASE)
_SMI_FAILS = re.compile(
    r"\bnvidia-smi\b[^.;\n]{0,30}"
    r"(?:\b(?:cannot|can't|could not|couldn't|does not|fails)\b|has failed)",
    re.IGNORECASE,
)


def _says(line: str, words: tuple[str, ...]) -> bool:
    return any(word in line.lower() for word in words)


def _signed(case: Case) -> tuple[Remedy, ...]:
    key = {"ubuntu": "/var/lib/shim-signed/mok/MOK.der"}.get(
        family(case.facts.host.os.value), "/var/lib/dkms/mok.pub"
    )
    packaged = Remedy(
        "install the module that the distribution signs (Ubuntu: linux-modules-nvidia-*, "
        "SUSE: the signed kmp) and remove the DKMS one",
        role="nvidia_driver",
        reboot=True,
    )
    enrol = Remedy(
        "or enrol the key that signed it: the firmware asks at the console at the next boot",
        (f"sudo mokutil --import {key}", "sudo reboot"),
        risk="needs a person at the console",
        reboot=True,
    )
    return (packaged, enrol)


@rule("HST201", cause="bios-bar-settings", severity=Severity.ERROR)
def no_room_for_card_memory(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The firmware gave the card no address range for its memory.

    What: kernel messages that say that a memory window (BAR) of an NVIDIA device could
        not be placed.
    Why: large cards map their memory above 4 GB; a firmware that does not allow it, or a
        virtual machine with too small a window, leaves the card without.
    How to fix: turn on "Above 4G decoding" and "Resizable BAR" in the firmware; for a
        virtual machine enlarge its 64-bit MMIO window. Kernel option pci=realloc helps
        at times.
    Silent when: the kernel log was not read, or says nothing of it.
    Sources: NVIDIA driver README, PCI I/O regions; open-gpu-kernel-modules issue 862.
    """
    need_bare_host(case, matrix)
    reading = case.facts.nvidia.kernel_messages
    addresses = [d.pci.value for d in case.nvidia_devices if d.pci.value]
    for line in reading.known("nvidia.kernel_messages"):
        own = "nvidia" in line.lower() or "nvrm" in line.lower()
        if _says(line, _NO_BAR) and (own or any(a.lower() in line.lower() for a in addresses)):
            yield Fault(
                message="the firmware left the card without room for its memory windows",
                evidence=(Evidence(line.strip()[:300], reading.at),),
                remedies=(
                    Remedy("turn on Above 4G decoding and Resizable BAR in the firmware"),
                    Remedy(
                        "or let the kernel place the windows: boot with pci=realloc",
                        reboot=True,
                    ),
                ),
                sources=("https://github.com/NVIDIA/open-gpu-kernel-modules/issues/862",),
            )
            return


@rule("HST204", cause="bios-bar-settings", severity=Severity.WARNING)
def server_card_on_desktop_board(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A card for servers is in a desktop machine, and the driver has no device.

    What: cards whose memory window is as large as their memory, a processor or a board for
        desktops, and NVML, or nvidia-smi in its place, that has no device.
    Why: the firmware of such boards places windows above 4 GB only if it is told to; without
        that the card stands in lspci and the driver cannot start it.
    How to fix: turn on "Above 4G decoding" in the firmware, and CSM off.
    Silent when: NVML has devices, or the processor is one for servers or not known.
    Sources: NVIDIA driver README, PCI I/O regions (row in the matrix).
    """
    need_bare_host(case, matrix)
    reading = case.facts.nvidia.nvml_devices
    if reading.known("nvidia.nvml_devices"):
        raise NotApplicable("NVML has devices")
    model = case.facts.host.cpu.model
    for match in matrix.claims(DRIVER_DOMAIN, "large-window"):
        data = match.claim.data
        large = [d for d in case.nvidia_devices if re.search(data["name"], d.name.value or "")]
        named = re.search(data["cpu"], model.value or "")
        found = named or next(
            filter(None, (re.search(data["board"], note) for note in case.facts.notes)), None
        )
        if found is None:
            model.known("host.cpu.model")
        elif large:
            what = model.value or "" if named else found[0]
            yield Fault(
                message=f"{cards.label(large[0], matrix)} beside {what}: {match.claim.text}",
                evidence=(
                    Evidence("the driver has no device", reading.at),
                    cards.evidence(large[0], matrix),
                    Evidence(what, model.at if named else "notes"),
                ),
                remedies=(
                    Remedy("turn on Above 4G decoding in the firmware, and CSM off"),
                    Remedy("see what the kernel says of it", ("sudo dmesg | grep -i BAR",)),
                ),
                sources=match.claim.source,
            )


RULES: tuple[Rule, ...] = (
    nouveau_holds_the_card,
    secure_boot_refuses_module,
    no_room_for_card_memory,
    server_card_on_desktop_board,
)
