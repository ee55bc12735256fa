"""`nvcc --version`: a toolkit that can compile."""

from __future__ import annotations

import re

from doctor.facts import CudaToolkit, Facts, NvidiaFacts, Version, seen

AT = "nvcc --version"
_RELEASE = re.compile(r"Cuda compilation tools, release (\d{1,2}\.\d{1,2})(?:, V([\d.]{3,20}))?")


def looks_like(text: str) -> bool:
    """Tell by the line that names the release."""
    return "Cuda compilation tools, release" in text


def parse(text: str) -> Facts:
    """The toolkit on the search path; others may lie beside it."""
    match = _RELEASE.search(text)
    version = Version.maybe((match[2] or match[1]).rstrip(".")) if match else None
    if version is None:
        return Facts()
    toolkit = CudaToolkit(path="", version=version, nvcc=True)
    return Facts(nvidia=NvidiaFacts(toolkits=seen((toolkit,), AT, partial=True)))
