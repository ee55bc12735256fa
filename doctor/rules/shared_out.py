"""Several servers on one device, each with a share of its memory, as people tell of them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from doctor.matrix import Matrix
from doctor.matrix.ranges import covers
from doctor.rules.engine import Case
from doctor.rules.model_facts import number
from doctor.rules.placement import margin
from doctor.rules.serving_memory import default_share, is_share_of_total

_SHARE = re.compile(r"(?<![\w.])0?\.\d{1,3}(?![\w.%])")


def is_shared_out(case: Case, matrix: Matrix, others: Iterable[str]) -> bool:
    """Tell whether the others keep to shares of their own that leave this one's free."""
    mine = number(case, "gpu_memory_utilization") or number(case, "mem_fraction_static")
    theirs = [float(text) for text in _SHARE.findall(" ".join(others))]
    if not mine or not theirs or _counts_others(case, matrix):
        return False
    return mine + sum(theirs) < margin(matrix, "shared-out")


def _counts_others(case: Case, matrix: Matrix) -> bool:
    """A release that takes what others hold for its own, and finds its share used up."""
    package = case.scope.package("vllm")
    version = package.version if package is not None else None
    claims = matrix.claims("vllm", "share-with-others")
    return version is not None and any(covers(m.claim, version) is not False for m in claims)


def share_asked_for(case: Case, matrix: Matrix) -> float:
    """The share of the whole memory that the engine takes; 0 if that is not known."""
    if not is_share_of_total(case, matrix):
        return 0.0
    return number(case, "gpu_memory_utilization") or default_share(case, matrix) or 0.0
