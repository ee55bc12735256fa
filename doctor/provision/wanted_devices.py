"""Whether a machine has the devices that a profile is written for. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.facts import Facts
from doctor.matrix import Matrix
from doctor.profile.schema import Profile
from doctor.rules import npus


def other_devices(profile: Profile, facts: Facts, matrix: Matrix) -> Iterator[str]:
    """What of the devices is not as the profile says, in words.

    A machine without any is the judge's matter, and so is one whose devices are not known.
    """
    wanted = profile.accelerator
    devices = [d for d in facts.devices.value or () if d.vendor == wanted.vendor]
    if not devices:
        return
    if wanted.count > len(devices):
        yield (
            f"the profile wants {wanted.count} {wanted.vendor} devices, {len(devices)} are there: "
            "change accelerator.count"
        )
    found = {npus.generation(device, matrix) for device in devices} - {""}
    others = sorted(found - set(wanted.chips))
    if wanted.chips and others:
        yield (
            f"the profile is for {', '.join(wanted.chips)}, this machine has {', '.join(others)}: "
            "name its image and accelerator.chips"
        )
