"""Write docs/support.md from the matrix: which engine on whose devices is proven, or judged.

python scripts/make_support.py
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from doctor.matrix import load_matrix
from doctor.matrix.model import Claim
from doctor.matrix.query import Matrix
from doctor.profile.read import builtin_names, find_profile
from doctor.provision.roles import unverified_roles

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/support.md"
DATA = yaml.load((Path(__file__).parent / "support.yaml").read_text(), Loader=yaml.CSafeLoader)
# Domains that are about one maker and name the engine in their rows.
MAKERS = {"rocm": "amd", "intel-xpu": "intel", "cambricon": "cambricon", "cpu": "cpu"}
# Conditions, kinds and variants of rows that are about one maker.
BY_CONDITION = {"capability": "nvidia", "cuda": "nvidia", "driver": "nvidia", "soc": "ascend"}
BY_KIND = {
    "min-capability": "nvidia",
    "capability-unsupported": "nvidia",
    "driver-floor": "nvidia",
    "mig": "nvidia",
    "npu": "ascend",
    "isa": "cpu",
}
BY_VARIANT = {"cu": "nvidia", "rocm": "amd", "hip": "amd", "cann": "ascend", "cpu": "cpu"}
HEAD = """# Support

Generated from the matrix by `scripts/make_support.py`; a test holds that it is current.

| word | meaning |
|---|---|
| proven | a test of this project runs the real engine there and gets the right answer |
| judged | rules decide from sourced rows of the matrix; never run here |
| recognised | devices are listed, rules of every engine apply; no row is about the pair |
"""


def makers_of(claim: Claim) -> Iterator[str]:
    """The makers that a row is about."""
    yield from str(claim.when.get("vendor", "")).split("|")
    yield from (maker for name, maker in BY_CONDITION.items() if name in claim.when)
    yield BY_KIND.get(claim.kind, "")
    variant = str(claim.when.get("variant", ""))
    yield from (maker for start, maker in BY_VARIANT.items() if variant.startswith(start))


def judged(matrix: Matrix, engine: str, entry: dict[str, Any]) -> set[str]:
    """The makers that some row on the engine is about."""
    found = {entry["made_for"]} if "made_for" in entry else set()
    for name in (engine, *entry.get("domains", ())):
        for claim in matrix.domain(name).claims:
            found.update(makers_of(claim))
        variants = [v for release in matrix.domain(name).releases for v in release.variants]
        found |= {"nvidia" for variant in variants if variant.cuda}
    for domain, maker in MAKERS.items():
        if any(claim.data.get("engine") == engine for claim in matrix.domain(domain).claims):
            found.add(maker)
    if any(engine in npu.engines for npu in matrix.npus):
        found.add("ascend")
    return found


def page() -> str:
    """The text of the page."""
    matrix = load_matrix()
    proven = {(row["engine"], row["vendor"]) for row in DATA["proven"]}
    vendors = list(DATA["vendors"])
    lines = [f"| engine | {' | '.join(DATA['vendors'].values())} |", "|---" * 8 + "|"]
    for engine, entry in DATA["engines"].items():
        sure = judged(matrix, engine, entry)
        words = [
            "proven" if (engine, v) in proven else "judged" if v in sure else "recognised"
            for v in vendors
        ]
        lines.append(f"| {engine} | {' | '.join(words)} |")
    return "\n".join([HEAD, *lines, "", *_proofs(), *_never(vendors)]) + "\n"


def _proofs() -> Iterator[str]:
    yield "## Proven\n"
    for row in DATA["proven"]:
        where = DATA["vendors"][row["vendor"]]
        yield f"- {row['engine']}, {where}: {row['what']} (`{row['test']}`)"
    yield ""


def _never(vendors: list[str]) -> Iterator[str]:
    """Makers on whose devices no test runs an engine."""
    run = {row["vendor"] for row in DATA["proven"]}
    never = [DATA["vendors"][v] for v in vendors if v not in run]
    yield "## Never run by a test\n"
    yield f"- an engine on devices of {', '.join(never[:-1])} or {never[-1]}"
    yield (
        "- npu-smi, DCMI, amd-smi, rocm-smi, cnmon and xpu-smi themselves: their outputs are "
        "recorded or written after the tools' sources (`tests/hosts/`, `tests/intake/samples/`)"
    )
    yield "- the probes on macOS: hosts are written after the documentation of sysctl"
    for role in sorted(unverified_roles()):
        where = f"`playbooks/roles/{role}`"
        yield f"- the role {role} with the vendor's own files: unverified ({where})"
    named = ", ".join(_never_applied(set(vendors) - run))
    yield f"- the profiles {named}: unverified, never applied to a machine with such devices"


def _never_applied(vendors: set[str]) -> Iterator[str]:
    """Shipped profiles of engines on devices that no test has."""
    for name in builtin_names():
        profile = find_profile(name)
        if profile.accelerator.vendor in vendors and not profile.is_driver_alone:
            yield name


if __name__ == "__main__":
    PAGE.write_text(page())
