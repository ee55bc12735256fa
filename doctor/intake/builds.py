"""What the version of a distribution says about its build."""

from __future__ import annotations

import re

from doctor.facts import UNSTATED, Reading, TorchBuild, Version, missing, seen
from doctor.facts.reading import Missing

_CUDA = re.compile(r"cu(\d{1,3})(\d)")
_HIP = re.compile(r"rocm(\d{1,3}(?:\.\d{1,5}){0,2})")


def torch_build(version: Version, variant: str = "", at: str = "") -> TorchBuild:
    """The build that "2.8.0+cu128" names, or that `variant` names where the version does not.

    A CPU build has neither CUDA nor HIP: both are then absent, and not unknown.
    """
    label = version.text.partition("+")[2] or variant
    none: Reading[Version] = missing(Missing.NOT_THERE, at)
    if label.startswith("cpu"):
        return TorchBuild(version, cuda=none, hip=none)
    cuda = _CUDA.match(label)
    if cuda:
        return TorchBuild(version, cuda=seen(Version(f"{cuda[1]}.{cuda[2]}"), at), hip=none)
    hip = _HIP.match(label)
    if hip:
        return TorchBuild(version, cuda=none, hip=seen(Version(f"{hip[1]}.*"), at))
    return TorchBuild(version, cuda=UNSTATED, hip=UNSTATED)
