"""Which GPU code runs on which card."""

from __future__ import annotations

import pytest

from doctor.facts import CodeTarget, ComputeCapability, Coverage, Kernels

TEGRA = frozenset({ComputeCapability(8, 7), ComputeCapability(11, 0)})


@pytest.mark.parametrize(
    ("target", "card", "runs"),
    [
        ("sm_86", "8.9", True),
        ("sm_89", "8.6", False),
        ("sm_80", "8.7", False),
        ("sm_87", "8.9", False),
        ("sm_87", "8.7", True),
        ("sm_90a", "9.0", True),
        ("sm_100a", "10.3", False),
        ("sm_100f", "10.3", True),
        ("sm_100f", "12.0", False),
        ("sm_100", "12.0", False),
        ("sm_120", "12.1", True),
        ("compute_80", "12.0", True),
        ("compute_90a@8.4", "10.0", False),
        ("compute_90", "8.9", False),
    ],
)
def test_runs_on(target: str, card: str, runs: bool) -> None:
    assert CodeTarget.parse(target).runs_on(ComputeCapability.parse(card), TEGRA) is runs


def test_machine_code_comes_before_ptx() -> None:
    both = Kernels((CodeTarget.parse("sm_80"), CodeTarget.parse("compute_80@8.7")))
    assert both.coverage(ComputeCapability(8, 9), TEGRA) is Coverage.SASS
    assert both.coverage(ComputeCapability(9, 0), TEGRA) is Coverage.PTX
    assert both.coverage(ComputeCapability(7, 5), TEGRA) is Coverage.NONE


@pytest.mark.parametrize("text", ["sm_", "sm_90b", "compute_90@", "90", "sm_90@9.0.1", ""])
def test_refuses_what_is_not_a_target(text: str) -> None:
    with pytest.raises(ValueError, match="not a code target"):
        CodeTarget.parse(text)
